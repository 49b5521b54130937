"""Streaming sessions: what they are sent, how a turn ends and the next begins.

The rules of the core call `forget_waits` where a request is gone, which forgets what it was sent;
all else is here and in `nullblock.spec.sessions`.
"""

from nullblock.spec.fields import AWAY, CONTINUE, IDLE, INPUT, UPDATE, WAITING
from nullblock.spec.kernel import State, Value, both, either, ite, least, neg, require, rule
from nullblock.spec.rules.drafts import drop_drafts
from nullblock.spec.rules.later import outdate_turn
from nullblock.spec.rules.pool import set_out
from nullblock.spec.rules.queues import enter_queue, quit_queue, quit_running
from nullblock.spec.rules.waiting import (
    enter_skipped,
    join_heap,
    join_queue,
    leave_waiting,
    stand_again,
    stand_behind,
    stay_ended,
    wait_apart,
)
from nullblock.spec.sessions import (
    awaits_input,
    has_chunk,
    holds_while_waiting,
    is_lost,
    kept,
    late_outputs,
    may_stand_twice,
    prompt,
    stays_queued,
    stays_skipped,
)
from nullblock.spec.state import check_stop, is_waiting, live
from nullblock.spec.turns import can_take, goes_on, is_refused
from nullblock.spec.waiting import is_skipped


def _take_next(s: State, r: Value) -> None:
    """r takes its next chunk behind what it keeps, all of which is its prompt from then on."""
    first = kept(s, r)
    known = s.ntok[r]
    chunk = s.k.chunk_len(r, s.turns[r] + 1)
    more = first - prompt(s, r)
    s.past[r] = s.k.extended(r, s.past[r], first, ite(s.k.sem.chunks_rehash, first, known))
    s.grown[r] += ite(more > 0, more, 0) + chunk
    s.ntok[r] = first + chunk
    s.lost[r] = prompt(s, r) - s.ntok[r]
    s.turns[r] += 1
    s.awaits[r] = 0
    s.came[r] = 0


def _let_late_outputs_go(s: State, r: Value) -> None:
    """r takes no output of this turn any more, and what steps in flight compute for it beyond its
    tokens does not count.
    """
    if both(s.k.sem.late_outputs_dropped, s.k.sem.resumes_await_output):
        outdate_turn(s, r)
    elif s.k.sem.late_outputs_dropped:
        s.comp[r] = least(s.comp[r], s.ntok[r] - 1)
        s.drop[r] += late_outputs(s, r)
        s.ph[r] = 0
        s.spec[r] = 0
        drop_drafts(s, r)


def _stay_skipped(s: State, r: Value) -> None:
    """r stays where it stands in the skipped queue, and stands there once more without a chunk."""
    s.open = 0
    s.stage[r] = WAITING
    if not s.k.several:
        s.told[r] = 0
    if has_chunk(s, r):
        _take_next(s, r)
    else:
        stand_again(s, r)
        s.awaits[r] = INPUT
        s.came[r] = 0


def _join_back(s: State, r: Value) -> None:
    """r stands at the back of the queue; the places that it has there already it keeps, too."""
    if neg(stays_queued(s, r)):
        s.rank[r] = s.hi
        s.hi += 1
        enter_queue(s, r)
    elif has_chunk(s, r):
        stand_behind(s, r)
    else:
        s.also[r] = 1
        s.nwait += 1
        s.nline += 1


def _next_turn(s: State, r: Value) -> None:
    """r stands at the back of the queue with its next chunk, or of the skipped one without; where
    it stands in one of them already, it stays there, too.
    """
    s.open = 0
    s.stage[r] = WAITING
    if not s.k.several:
        s.told[r] = 0
    _join_back(s, r)
    wait_apart(s, r)
    if both(has_chunk(s, r), may_stand_twice(s)):
        _take_next(s, r)
        join_queue(s, r)
    elif has_chunk(s, r):
        _take_next(s, r)
        join_heap(s, r)
    else:
        s.awaits[r] = INPUT
        s.came[r] = 0
        enter_skipped(s, r)
        join_heap(s, r)


@rule("SESS-11", "R")
def send_chunk(s: State, r: Value) -> None:
    """A chunk that arrives for a session which has something to do joins those that it has not
    taken, unless its end has arrived.

    Source: Scheduler.add_request: streaming_queue.
    """
    require(s.phase == IDLE, "between steps")
    require(s.leaving == 0, "nobody is half-way out")
    require(both(live(s, r), s.k.resumable(r)), "it is a session")
    require(neg(awaits_input(s, r)), "which has something to do")
    require(s.ended[r] == 0, "and has not ended")
    s.sent[r] += 1


@rule("SESS-12", "R")
def send_end(s: State, r: Value) -> None:
    """The end of a session takes effect when it has taken all its chunks.

    Source: Scheduler.add_request: the None in streaming_queue.
    """
    require(s.phase == IDLE, "between steps")
    require(s.leaving == 0, "nobody is half-way out")
    require(both(live(s, r), s.k.resumable(r)), "it is a session")
    require(neg(awaits_input(s, r)), "which has something to do")
    s.ended[r] = 1


@rule("SESS-13", "R")
def take_chunk(s: State, r: Value) -> None:
    """A session that waits for a chunk takes it when it arrives, and waits for its turn where it
    stands.

    Source: Scheduler.add_request, _update_request_as_session.
    """
    require(s.phase == IDLE, "between steps")
    require(s.leaving == 0, "nobody is half-way out")
    require(awaits_input(s, r), "it waits for a chunk")
    require(can_take(s, r), "and can be served with it")
    s.sent[r] += 1
    _take_next(s, r)


@rule("SESS-6", "I")
def end_running_turn(s: State, i: Value) -> None:
    """A running session that stops leaves the running list with its blocks; with a chunk it waits
    behind everybody else, without one in the skipped queue.

    Source: Scheduler._handle_stopped_request.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(both(0 <= i, i < s.nr), "the index is in range")
    require(both(s.open == 1, s.run[i] == s.taker), "it has a new token")
    require(check_stop(s, s.run[i]) != CONTINUE, "it stops")
    require(goes_on(s, s.run[i], check_stop(s, s.run[i])), "and goes on")
    r = s.run[i]
    quit_running(s, i)
    _let_late_outputs_go(s, r)
    if both(stays_skipped(s, r), neg(has_chunk(s, r))):
        _stay_skipped(s, r)
    else:
        _next_turn(s, r)


@rule("SESS-7", "R")
def end_waiting_turn(s: State, r: Value) -> None:
    """A session that stops on an output which was in flight when it was preempted leaves its place
    in the queue for one at the back, and stands in one queue.

    Source: Scheduler.update_from_output, _handle_stopped_request. In vllm-0.22.1 the waiting queue
    is left last, so that one with a chunk is in no queue ever after; and the skipped queue is not
    left, so that one that stops while it stands there stands there twice if it has no chunk
    (upstream 52693). Where it runs, and its turn comes again, it raises.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(either(is_waiting(s, r), is_lost(s, r)), "it stands in the queue")
    require(both(s.open == 1, r == s.taker), "it has a new token")
    require(check_stop(s, r) != CONTINUE, "it stops")
    require(goes_on(s, r, check_stop(s, r)), "and goes on")
    if stays_skipped(s, r):
        _let_late_outputs_go(s, r)
        leave_waiting(s, r)
        _stay_skipped(s, r)
    else:
        quit_queue(s, r)
        _let_late_outputs_go(s, r)
        _next_turn(s, r)
        if both(neg(s.k.sem.sessions_stay_queued), neg(is_skipped(s, r))):
            quit_queue(s, r)


@rule("SESS-16", "T")
def forget_table(s: State, t: Value) -> None:
    """Of several tables of a session that stops and goes on none is known to the worker any more,
    as with one (SESS-6).

    Source: Scheduler.schedule, NewRequestData: when it is scheduled again all its blocks are told.
    """
    r = s.k.owner(t)
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(both(s.open == 1, r == s.taker), "it has a new token")
    require(check_stop(s, r) != CONTINUE, "it stops")
    require(goes_on(s, r, check_stop(s, r)), "and goes on")
    require(s.told[t] != 0, "the worker knows the table")
    s.told[t] = 0


@rule("SESS-14", "R")
def leave_queue(s: State, r: Value) -> None:
    """A session that waits, and is aborted or ends, leaves the queue first and gives its blocks
    back then.

    Source: Scheduler.finish_requests, _free_request.
    """
    require(either(s.phase == IDLE, s.phase == UPDATE), "between steps, or with its last output")
    require(s.leaving == 0, "nobody is half-way out")
    require(either(is_waiting(s, r), is_lost(s, r)), "it stands in the queue")
    require(holds_while_waiting(s, r), "it holds blocks")
    if s.phase == UPDATE:
        require(both(s.open == 1, r == s.taker), "it has a new token")
        require(check_stop(s, r) != CONTINUE, "it stops")
    stuck = both(s.open == 1, stays_skipped(s, r))
    s.open = 0
    if stuck:
        stay_ended(s, r)
    else:
        quit_queue(s, r)
    s.awaits[r] = 0
    s.came[r] = 0
    set_out(s, r, AWAY)


@rule("SESS-15", "R")
def refuse_chunk(s: State, r: Value) -> None:
    """A chunk that cannot be taken is told of with the next update, like a request that is refused
    at arrival.

    Normative only, as LIFE-2.
    """
    require(either(s.phase == IDLE, s.phase == UPDATE), "between steps, or with its last output")
    require(s.leaving == 0, "nobody is half-way out")
    require(neg(can_take(s, r)), "it cannot be served")
    if s.phase == IDLE:
        require(awaits_input(s, r), "the session waits for it")
    else:
        require(is_refused(s, r, check_stop(s, r)), "it would be the next to take")
    s.rej[s.nrej] = r
    s.nrej += 1
