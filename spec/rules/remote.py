"""Remote KV: blocks that are loaded, and requests that wait for them, start over, or are kept
after their end.
"""

from nullblock.spec.fields import (
    ANEW,
    AWAY,
    BACK,
    CONTINUE,
    IDLE,
    KEPT,
    LOAD,
    PREEMPTED,
    REMOTE,
    SEND,
    UPDATE,
    WAIT_PHASE,
    WAITING,
)
from nullblock.spec.flight import counts_outputs, in_flight
from nullblock.spec.hybrid import comes_next, has_blocks, holds_nothing, of_all
from nullblock.spec.kernel import State, Value, both, either, ite, neg, require, rule
from nullblock.spec.mamba import has_a_place
from nullblock.spec.pooling import pools
from nullblock.spec.remote import (
    cached_when_loaded,
    counted_on,
    ends_all,
    is_loading,
    loads_later,
    starts_over,
    stays,
)
from nullblock.spec.rules.clients import note_end
from nullblock.spec.rules.drafts import drop_drafts
from nullblock.spec.rules.later import begin_filling, end_filling, outdate_last_turn
from nullblock.spec.rules.loads import begin_load, forget_answer
from nullblock.spec.rules.lookup import _forget_lookup
from nullblock.spec.rules.mamba import note_state
from nullblock.spec.rules.pool import (
    EVERY_BLOCK_HAS_A_PLACE,
    EVERY_STATE_HAS_A_PLACE,
    _publish,
    _unhash,
    set_out,
)
from nullblock.spec.rules.pooling import give_vector_up
from nullblock.spec.rules.queues import _erase, leave_running, quit_queue
from nullblock.spec.rules.waiting import pass_places, stand_apart, stay_ended
from nullblock.spec.sessions import is_left, is_lost
from nullblock.spec.sizes import full_of, hit_tokens, is_in_place
from nullblock.spec.slots import slots
from nullblock.spec.state import check_stop, is_tried, is_waiting, turn
from nullblock.spec.waiting import is_skipped


@rule("REMOTE-12", "R")
def await_load(s: State, r: Value) -> None:
    """A request whose load takes longer than the step has its blocks, and waits for the load
    outside of the running list; what is loaded counts as computed.

    Nobody hits its blocks meanwhile: they are not cached. It stands in the skipped queue from then
    on. Source: Scheduler.schedule, waiting phase: WAITING_FOR_REMOTE_KVS.
    """
    require(s.phase == WAIT_PHASE, "the waiting phase is open")
    require(s.looking == 2, "the lookup is over")
    require(r == s.lr, "for this request")
    require(turn(s, r), "the request is being given slots")
    require(loads_later(s, r), "its load takes longer than the step")
    require(s.na == s.nhit, "every hit is adopted")
    require(has_blocks(s, r, slots(s)), "it has room")
    s.comp[r] = hit_tokens(s) + s.ext
    _live_again(s, r)
    begin_load(s, r)
    s.asked = 0
    s.awaits[r] = REMOTE
    s.came[r] = 0
    _forget_lookup(s)
    stand_apart(s, r)
    begin_filling(s, r)
    s.passed = s.k.add(s.passed, r)
    pass_places(s, r)
    s.lineset = s.k.remove(s.lineset, r)


def _live_again(s: State, r: Value) -> None:
    """r, which is to be loaded and has ended, has not where it is known for what is kept of it."""
    if neg(s.k.sem.stops_leave_every_queue):
        if s.stage[r] == KEPT:
            s.stage[r] = ite(s.npre[r] > 0, PREEMPTED, WAITING)
            s.kept_for[r] = 0


@rule("REMOTE-14", "T")
def publish_loaded(s: State, t: Value) -> None:
    """The blocks that were loaded are cached when it is the turn of their request, once its load
    has ended.

    Source: Scheduler._update_waiting_for_remote_kv, KVCacheManager.cache_blocks.
    """
    r = s.k.owner(t)
    require(is_tried(s, r), "it is the request that the waiting phase tries next")
    require(both(s.awaits[r] == REMOTE, s.came[r] == 1), "its load has ended")
    require(neg(starts_over(s, r)), "it does not start over")
    require(s.ncached[t] < cached_when_loaded(s, t), "the block was loaded")
    require(is_in_place(s, t), EVERY_BLOCK_HAS_A_PLACE)
    require(has_a_place(s, t), EVERY_STATE_HAS_A_PLACE)
    require(
        comes_next(s, t, lambda u: s.ncached[u] >= cached_when_loaded(s, u)),
        "tables before it are done",
    )
    i = s.ncached[t]
    _publish(s, t)
    note_state(s, t, i)


@rule("REMOTE-15", "R")
def go_on_loaded(s: State, r: Value) -> None:
    """A request whose load has ended waits for nothing but its turn from then on: a session that
    was preempted in an earlier turn like one that was in this.

    Source: Scheduler._update_waiting_for_remote_kv, _try_promote_blocked_waiting_request.
    """
    require(is_tried(s, r), "it is the request that the waiting phase tries next")
    require(both(s.awaits[r] == REMOTE, s.came[r] == 1), "its load has ended")
    require(neg(starts_over(s, r)), "it does not start over")
    if s.k.caching:
        require(
            of_all(s, r, lambda t: s.ncached[t] >= cached_when_loaded(s, t)),
            "what was loaded is cached",
        )
    s.comp[r] = counted_on(s, r)
    s.stage[r] = ite(s.npre[r] > 0, PREEMPTED, WAITING)
    s.awaits[r] = 0
    s.came[r] = 0
    s.failed[r] = 0


@rule("REMOTE-16", "R")
def give_back(s: State, r: Value) -> None:
    """A request that lost all that was loaded gives its blocks back when it is its turn, and keeps
    its place.

    Source: Scheduler._update_waiting_for_remote_kv.
    """
    require(is_tried(s, r), "it is the request that the waiting phase tries next")
    require(both(s.awaits[r] == REMOTE, s.came[r] == 1), "its load has ended")
    require(starts_over(s, r), "and brought nothing")
    set_out(s, r, ANEW)


@rule("REMOTE-17", "R")
def wait_anew(s: State, r: Value) -> None:
    """Then it waits as it did before, with nothing computed.

    Source: Scheduler._update_waiting_for_remote_kv, _try_promote_blocked_waiting_request.
    """
    require(s.leaving == ANEW, "somebody gives its blocks back")
    require(r == s.leaver, "this request")
    require(holds_nothing(s, r), "it holds nothing")
    s.stage[r] = ite(s.npre[r] > 0, PREEMPTED, WAITING)
    s.leaving = 0
    s.awaits[r] = 0
    s.came[r] = 0
    s.failed[r] = 0
    s.comp[r] = 0


@rule("REMOTE-18", "R")
def quit_for_good(s: State, r: Value) -> None:
    """A waiting request that ends leaves its queue, and then gives back what it holds.

    Source: Scheduler.finish_requests, update_from_output. In vllm-0.22.1 one that stops by an
    output does not leave the skipped queue, see UPD-6.
    """
    require(s.leaving == 0, "nobody is half-way out")
    require(either(is_waiting(s, r), is_lost(s, r)), "it stands in the queue")
    require(either(s.phase == IDLE, s.phase == UPDATE), "between steps, or with its last output")
    if s.phase == UPDATE:
        require(both(s.open == 1, r == s.taker), "it has a new token")
        require(check_stop(s, r) != CONTINUE, "it stops")
    stuck = both(s.open == 1, is_skipped(s, r), neg(s.k.sem.stops_leave_every_queue))
    outdate_last_turn(s, r)
    s.open = 0
    if stuck:
        stay_ended(s, r)
    else:
        quit_queue(s, r)
    if s.awaits[r] != REMOTE:
        s.awaits[r] = 0
        s.came[r] = 0
    set_out(s, r, AWAY)


@rule("REMOTE-19", "R")
def keep(s: State, r: Value) -> None:
    """A request whose blocks are still written to, or are to be sent, has ended; its blocks stay,
    and the next step tells the workers its id.

    Source: Scheduler._free_request.
    """
    require(s.leaving == AWAY, "somebody leaves for good")
    require(r == s.leaver, "this request")
    require(stays(s, r), "its blocks are kept")
    s.kept_for[r] = ite(is_loading(s, r), LOAD, 0) + ite(s.k.delays_free(r), SEND, 0)
    s.k.note_kept(s, r)
    s.stage[r] = KEPT
    s.leaving = 0
    forget_answer(s, r)
    if neg(is_left(s, r)):
        s.ph[r] = 0
        s.drop[r] = 0
        drop_drafts(s, r)
    if neg(is_loading(s, r)):
        s.loadto[r] = 0
    s.awaits[r] = 0
    s.came[r] = 0
    s.failed[r] = 0
    end_filling(s, r)
    s.finished = s.k.add(s.finished, r)
    note_end(s, r)


@rule("REMOTE-20", "RI")
def end_one_way(s: State, r: Value, way: Value) -> None:
    """Blocks that are kept for a load and to be sent stay when the first of both has ended.

    Normative only: vllm-0.22.1 lets them go then (upstream 46240).
    """
    require(s.phase == IDLE, "between steps")
    require(s.stage[r] == KEPT, "its blocks are kept")
    require(neg(ends_all(s, r, way)), "for something else as well")
    s.kept_for[r] -= way
    if way == LOAD:
        s.loadto[r] = 0


@rule("REMOTE-21", "RI")
def let_kept_go(s: State, r: Value, way: Value) -> None:
    """Kept blocks are given back when what they were kept for is reported to have ended.

    Source: Scheduler._update_from_kv_xfer_finished, _free_blocks.
    """
    require(s.phase == IDLE, "between steps")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.stage[r] == KEPT, "its blocks are kept")
    require(ends_all(s, r, way), "for nothing else")
    s.loadto[r] = 0
    set_out(s, r, AWAY)


@rule("REMOTE-22", "R")
def forget_kept(s: State, r: Value) -> None:
    """Then the request is forgotten; that it ended was told before.

    Source: Scheduler._free_blocks.
    """
    require(s.leaving == AWAY, "somebody leaves for good")
    require(r == s.leaver, "this request")
    require(holds_nothing(s, r), "it holds nothing")
    s.leaving = 0
    _erase(s, r)


@rule("REMOTE-23", "B")
def report_unloaded(s: State, b: Value) -> None:
    """Which blocks were not loaded is reported with an output, and taken in before that is
    applied; they leave the prefix cache, whoever holds them.

    Source: Scheduler._handle_invalid_blocks. In vllm-0.22.1 those stay in it that somebody is to
    compute again, and those that nobody runs with. Of several groups neither it nor vllm-0.32.0
    takes such a report: they raise.
    """
    require(s.phase == IDLE, "between steps")
    require(s.leaving == 0, "nobody is half-way out")
    require(in_flight(s) > 0, "an output is about to be applied")
    if s.k.several:
        require(s.k.sem.failed_loads_start_over, "of several groups a report is taken")
    s.invalid[b] = 1
    if s.k.sem.failed_loads_start_over:
        _unhash(s, b)
        s.evicted = 1


@rule("REMOTE-28", "I")
def start_over(s: State, i: Value) -> None:
    """A running request that lacks blocks gives all back and waits for its turn again; its outputs
    in flight, which were computed from what is not there, are dropped.

    Normative only: vllm-0.22.1 lets it compute what it lacks where it is. Outputs that come
    meanwhile are taken, and the one that is dropped stays counted (upstream 45138).

    A token is dropped when it comes, in the order in which they come. A vector would be taken then
    (UPD-51), as one is that was in flight at a reset: that was made of what was there. So its step
    owes none from now on, and the vector that is told is one whose prompt was computed.
    """
    require(s.phase == IDLE, "between steps")
    require(s.leaving == 0, "nobody is half-way out")
    require(both(0 <= i, i < s.nr), "the index is in range")
    require(s.k.mem(s.seen, s.run[i]), "it was found")
    require(s.k.sem.failed_loads_start_over, "it starts over")
    r = s.run[i]
    s.comp[r] = s.left
    if counts_outputs(s):
        if pools(s, r):
            give_vector_up(s, r)
        s.drop[r] += s.ph[r]
        s.ph[r] = 0
        drop_drafts(s, r)
    s.prev = s.k.remove(s.prev, r)
    leave_running(s, i, BACK)


@rule("REMOTE-35", "T")
def uncache_lacking(s: State, t: Value) -> None:
    """What was computed from blocks that were not loaded leaves the prefix cache, last first.

    Normative only: vllm-0.22.1 leaves its hashes (see `hashes-of-a-failed-load-stay`).
    """
    r, i = s.k.owner(t), s.ncached[t] - 1
    require(s.phase == IDLE, "between steps")
    require(s.k.mem(s.seen, r), "it was found")
    require(s.k.sem.failed_loads_start_over, "hashes are taken back")
    require(i >= full_of(s, t, s.comp[r]), "the block is not computed")
    _unhash(s, s.tab[t, i])
    s.ncached[t] = i


@rule("REMOTE-34", "R")
def mark_lacking(s: State, r: Value) -> None:
    """Where failed loads fail requests, the blocks of one that runs are to leave the prefix cache,
    from the first that it lacks on.

    Only vllm-0.22.1, see REMOTE-35. Source: Scheduler._update_requests_with_invalid_blocks.
    """
    require(s.phase == IDLE, "between steps")
    require(s.k.mem(s.missing, r), "it ends")
    require(s.cutoff < s.tlen[r], "it has a block more")
    s.evict[s.tab[r, s.cutoff]] = 1
    s.cutoff += 1


@rule("REMOTE-36", "B")
def evict_lacking(s: State, b: Value) -> None:
    """Those blocks leave it together, once all are found.

    Only vllm-0.22.1. Source: Scheduler._handle_invalid_blocks. Their order shows only in events.
    """
    require(s.phase == IDLE, "between steps")
    require(s.evict[b] != 0, "it is to")
    _unhash(s, b)
    s.evicted = 1
    s.evict[b] = 0
