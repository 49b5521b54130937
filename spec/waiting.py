"""What a request waits for besides its turn: readings that plug in at named points of the core.

Where no request can wait for anything else (`skips` is false), each says what the core says, and
whoever cares for that alone need not read on. What is written is in
`nullblock.spec.rules.waiting`.

Two queues hold the requests that wait. One that has been passed over, or whose grammar is not
compiled when it arrives, stands in the second, `skipped_waiting`: it has a place there (`skip`)
besides the one it has among all that wait (`rank`).
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.drafts import placeholders
from nullblock.spec.fields import GRAMMAR, KEPT, REJECTED, RUNNING, TOKEN
from nullblock.spec.kernel import State, Value, both, either, implies, ite, neg
from nullblock.spec.later import may_resume
from nullblock.spec.remote import is_found_waiting, is_unsure
from nullblock.spec.sessions import may_stand_twice, order


def is_skipped(s: State, r: Value) -> Value:
    """Whether r stands in the skipped queue."""
    return s.skip[r] != 0


def num_skipped(s: State) -> Value:
    """How many stand in the skipped queue."""
    return s.k.count("R", lambda r: is_skipped(s, r), by="skip")


def is_put_aside(s: State, r: Value) -> Value:
    """Whether r stands where those stand who wait for something else than their turn: in the
    skipped queue, where there is one.
    """
    return is_skipped(s, r) if s.k.sem.skipped_wait_apart else s.rank[r] != 0


def two_queues(s: State) -> Value:
    """Whether those who wait stand in two queues."""
    return either(s.k.sem.skipped_wait_apart, s.k.sem.holders_wait_apart)


@clause("WAIT-53")
def is_heap(s: State) -> Value:
    """A session that takes a chunk where it stands, under PRIORITY, stands from then on where the
    arrival of the chunk puts it.

    Source: Scheduler._update_request_as_session, PriorityRequestQueue. In vllm-0.22.1 and later
    its queue is a heap, which does not learn of it: whoever was at its head stays there, until
    others come or go (upstream 55162). Only there it is kept as a heap: anywhere else the order is
    the same without.
    """
    return both(s.k.priority, s.k.sessions, two_queues(s), neg(s.k.sem.chunks_reorder))


def is_a_head(s: State, r: Value) -> Value:
    """Whether r, where the skipped queue is a heap, may be tried for being first in a queue: who
    stands there more than once, for each of its places.
    """
    if s.k.sem.holders_wait_apart:
        return ite(anybody_skipped(s), s.heap[0] == r, in_line(s, r))
    if may_stand_twice(s):
        return either(s.heap[0] == r, s.queue[0] == r)
    return either(s.heap[0] == r, both(in_line(s, r), neg(is_skipped(s, r))))


def in_line(s: State, r: Value) -> Value:
    """Whether r waits and has not been passed over in this step: who stands in both queues, not in
    the waiting one.
    """
    passed = s.k.mem(s.passed, r)
    if may_stand_twice(s):
        passed = both(passed, s.also[r] == 0)
    return both(s.rank[r] != 0, neg(passed))


def is_apart(s: State, r: Value) -> Value:
    """Whether r, whose turn it is, is tried for its place in the skipped queue."""
    if both(is_heap(s), may_stand_twice(s)):
        return s.heap[0] == r
    if may_stand_twice(s):
        return skipped_in_line(s, r)
    return is_skipped(s, r)


def skipped_in_line(s: State, r: Value) -> Value:
    """Whether r stands in the skipped queue and has not been passed over in this step."""
    return both(is_skipped(s, r), neg(s.k.mem(s.passed, r)))


def anybody_skipped(s: State) -> Value:
    """Whether somebody in the skipped queue is still to be tried in this step."""
    return s.k.exists("R", lambda r: skipped_in_line(s, r), by="skip")


def holders_first(s: State) -> Value:
    """Whether somebody who waits with blocks is tried, whoever is first by priority (WAIT-60)."""
    return both(s.k.sem.holders_wait_apart, anybody_skipped(s))


@clause("WAIT-40")
def next_in_line(s: State) -> Value:
    """Of two queues the skipped one is served first (FCFS), or the one whose head comes first
    (PRIORITY); nobody is tried twice in a step.

    So whoever was passed over once overtakes whoever was preempted. Source:
    Scheduler._select_waiting_queue_for_scheduling. In vllm-0.32.0 there is one queue.
    """
    if s.k.priority:
        if is_heap(s):
            return s.k.first("R", lambda r: is_a_head(s, r), lambda r: order(s, r), by="line")
        if holders_first(s):
            return s.k.first(
                "R", lambda r: skipped_in_line(s, r), lambda r: order(s, r), by="holders"
            )
        return s.k.first("R", lambda r: in_line(s, r), lambda r: order(s, r), by="line")
    if both(two_queues(s), anybody_skipped(s)):
        return s.k.first("R", lambda r: skipped_in_line(s, r), lambda r: s.skip[r], by="skip")
    return s.k.first("R", lambda r: in_line(s, r), lambda r: s.rank[r], by="line")


def is_next(s: State, r: Value) -> Value:
    """Whether r is `next_in_line(s)`."""
    if s.k.priority:
        if is_heap(s):
            return s.k.is_first(
                "R", r, lambda q: is_a_head(s, q), lambda q: order(s, q), by="line"
            )
        if holders_first(s):
            return s.k.is_first(
                "R", r, lambda q: skipped_in_line(s, q), lambda q: order(s, q), by="holders"
            )
        return s.k.is_first("R", r, lambda q: in_line(s, q), lambda q: order(s, q), by="line")
    if neg(two_queues(s)):
        return s.k.is_first("R", r, lambda q: in_line(s, q), lambda q: s.rank[q], by="line")
    return ite(
        anybody_skipped(s),
        s.k.is_first("R", r, lambda q: skipped_in_line(s, q), lambda q: s.skip[q], by="skip"),
        s.k.is_first("R", r, lambda q: in_line(s, q), lambda q: s.rank[q], by="line"),
    )


def comes_before(s: State, q: Value, r: Value) -> Value:
    """Whether q, who waits, would be tried before r, who waits as well (WAIT-40)."""
    if s.k.priority:
        return order(s, q) < order(s, r)
    return ite(
        is_skipped(s, q),
        either(neg(is_skipped(s, r)), s.skip[q] < s.skip[r]),
        both(neg(is_skipped(s, r)), s.rank[q] < s.rank[r]),
    )


def lacks(s: State, r: Value) -> Value:
    """Whether what r awaits is not there."""
    return both(s.awaits[r] != 0, s.came[r] == 0)


def lacks_grammar(s: State, r: Value) -> Value:
    """Whether r awaits a grammar that is not compiled."""
    return both(s.awaits[r] == GRAMMAR, s.came[r] == 0)


def has_come(s: State, r: Value) -> Value:
    """Whether r awaits something that is there."""
    return both(s.awaits[r] != 0, s.came[r] != 0)


def runs_with_adapter(s: State, r: Value) -> Value:
    """Whether r runs and has an adapter."""
    return both(s.stage[r] == RUNNING, s.k.adapter(r) != 0)


@clause("WAIT-41")
def takes_place(s: State, r: Value) -> Value:
    """The adapter of a running request takes one of max_loras places, whether this step computes
    the request or not.

    Source: Scheduler.schedule, scheduled_loras. In vllm-0.22.1 only requests that the step
    computes take one, and those that it does not admit only if their adapter's number is above 0.
    """
    if s.k.sem.adapters_keep_places:
        return runs_with_adapter(s, r)
    number = s.k.adapter(r)
    return both(s.sched[r] != 0, either(number > 0, both(number != 0, s.fresh[r] != 0)))


def num_adapters(s: State) -> Value:
    """How many different adapters take a place."""
    return s.k.variety("R", lambda r: takes_place(s, r), lambda r: s.k.adapter(r), by="adapters")


@clause("WAIT-42")
def has_no_place(s: State, r: Value) -> Value:
    """While max_loras adapters take a place, a request with yet another one is passed over.

    Source: Scheduler.schedule, waiting phase.
    """
    if s.k.max_loras == 0:
        return False
    number = s.k.adapter(r)
    shared = s.k.exists(
        "R", lambda q: both(takes_place(s, q), s.k.adapter(q) == number), by=("adapter", number)
    )
    return both(number != 0, num_adapters(s) >= s.k.max_loras, neg(shared))


def has_to_wait(s: State, r: Value) -> Value:
    """Whether r waits for something else than its turn."""
    waits = either(lacks(s, r), neg(may_resume(s, r)), is_unsure(s, r))
    return either(waits, has_no_place(s, r))


def next_waiting(s: State) -> Value:
    """Whom a report of blocks that were not loaded concerns, of those who do not run, and who is
    dealt with next: in the order of the queue.
    """
    return s.k.first("R", lambda r: is_found_waiting(s, r), lambda r: turn_of(s, r), by="short")


def turn_of(s: State, r: Value) -> Value:
    """What orders those: their places in the queue, of a heap as they are found there one after
    the other; before them those that have ended.
    """
    if both(is_heap(s), neg(s.k.sem.failed_loads_start_over)):
        return s.k.found_at(s.heap, s, r)
    at = ite(s.stage[r] == KEPT, s.arr[r] - s.aclk, s.skip[r])
    return order(s, r) if s.k.priority else at


def nobody_to_serve(s: State) -> Value:
    """Whether nobody waits, or everybody for something that is not there."""
    if s.k.skips:
        return s.k.forall("R", lambda r: implies(s.rank[r] != 0, lacks(s, r)))
    return s.nwait == 0


def has_come_whole(s: State, r: Value) -> Value:
    """Whether r has taken all that it takes of the output that is applied: no draft of it is left,
    and no token behind them.
    """
    return neg(both(s.cur < s.upto, s.frame[s.cur] == r))


@clause("UPD-54")
def is_rejected(s: State, r: Value) -> Value:
    """A grammar sees what a request takes of an output as a whole; if it rejects any of that, the
    request ends with an error, whatever else would have become of it.

    Workers mask what a grammar does not allow, so that it is one. Source:
    Scheduler.update_from_output: accept_tokens.
    """
    return both(has_come_whole(s, r), s.k.last_token(s, r) == REJECTED)


@clause("OUT-12")
def is_masked(s: State, i: Value) -> Value:
    """Workers mask what the request of an entry may sample, if it has a grammar and is to sample.

    Source: Scheduler.get_grammar_bitmask.
    """
    return both(s.due[i] == TOKEN, s.k.grammar(s.frame[i]))


@clause("OUT-13")
def masked_later(s: State, i: Value) -> Value:
    """Scheduling ahead a step has no mask yet if one of its requests has an earlier token in
    flight: the grammar has to see that first.

    Source: AsyncScheduler._update_after_schedule: pending_structured_output_tokens.
    """
    return both(s.k.asynchronous, placeholders(s, s.frame[i]) > s.ndraft[i] + 1)
