"""Requests that wait for something else than their turn: passed over, put aside, let go on.

The rules of the core call `join_line`, `await_grammar`, `leave_line`, `forget_waits`,
`count_adapters` and `forget_passed` where a request begins to wait, arrives, waits no more, is
gone, and where the phases of a step end; all else is here and in `nullblock.spec.waiting`.
"""

from nullblock.spec.fields import GRAMMAR, IDLE, REMOTE
from nullblock.spec.kernel import (
    State,
    Value,
    both,
    either,
    ensure,
    ite,
    neg,
    require,
    rule,
)
from nullblock.spec.sessions import (
    awaits_grammar,
    awaits_input,
    has_more_places,
    is_left,
    may_stand_twice,
    num_behind,
    num_further,
    num_more_places,
    stays_queued,
    stays_skipped,
)
from nullblock.spec.state import is_tried
from nullblock.spec.waiting import (
    has_come,
    has_to_wait,
    is_apart,
    is_heap,
    is_skipped,
    num_adapters,
    num_skipped,
    two_queues,
)


def enter_skipped(s: State, r: Value) -> None:
    """r goes to the back of the skipped queue, where there is one."""
    if s.k.sem.skipped_wait_apart:
        s.skip[r] = s.sback
        s.sback += 1


def join_heap(s: State, r: Value) -> None:
    """r, which stands in the skipped queue from now on, joins the heap that it is (WAIT-53)."""
    if is_heap(s):
        if is_skipped(s, r):
            s.heap = s.k.pushed(s.heap, s, r)


def join_queue(s: State, r: Value) -> None:
    """r, which joins the waiting queue, joins the heap that it is where sessions may stand in both
    queues: they may take chunks there, too.
    """
    if both(is_heap(s), may_stand_twice(s)):
        s.queue = s.k.pushed(s.queue, s, r)


def leave_head(s: State, r: Value) -> None:
    """r, whose turn it is, is at the head of its queue no more, where that is a heap."""
    if is_heap(s):
        if s.heap[0] == r:
            s.heap = s.k.popped(s.heap, s)
        elif may_stand_twice(s):
            s.queue = s.k.popped(s.queue, s)


def leave_heap(s: State, r: Value) -> None:
    """r, which waits no more, stands in the skipped queue no more. Whoever is aborted, or stops in
    later lines, leaves both queues out of order until all who do have left (WAIT-54).
    """
    if is_heap(s):
        s.heap = s.k.taken_out(s.heap, s, r)
        if either(s.phase == IDLE, s.k.sem.holders_wait_apart):
            s.loose = 1
        leave_queue_late(s)


def leave_queue_late(s: State) -> None:
    """Whoever stops while it waits leaves the waiting queue when all who do have stopped: where
    that is a heap, it stands there until then.
    """
    if both(is_heap(s), may_stand_twice(s), s.loose == 0):
        s.loose = 2


def pass_places(s: State, r: Value) -> None:
    """r is passed over, with all its places, or with the one that is its turn where the skipped
    queue is a heap: so others may stand between them. In later lines it comes back behind those
    that are passed over after it.
    """
    leave_head(s, r)
    if both(is_heap(s), s.k.sem.holders_wait_apart, is_skipped(s, r)):
        s.skip[r] = s.sback
        s.sback += 1
    s.nline -= 1 if is_heap(s) else 1 + num_further(s, r)


def wait_apart(s: State, r: Value) -> None:
    """r waits with what it has computed, at the back of the queue of those who do (WAIT-60).

    Source: Scheduler._enqueue_waiting_request, _holds_kv_blocks.
    """
    if s.k.sem.holders_wait_apart:
        if s.comp[r] > 0:
            s.skip[r] = s.sback
            s.sback += 1


def move_apart(s: State, r: Value) -> None:
    """The place of r whose turn it is, in the waiting queue, becomes one at the back of the queue
    of those who wait with blocks, or of the skipped one. What places it has besides it keeps.
    """
    if stays_skipped(s, r):
        s.again[r, s.againto[r]] = s.sback
        s.againto[r] += 1
    else:
        s.skip[r] = s.sback
    s.sback += 1
    leave_waiting_place(s, r)


def leave_waiting_place(s: State, r: Value) -> None:
    """r leaves the first of its places in the waiting queue, and has another in one of both."""
    if may_stand_twice(s):
        s.also[r] = ite(both(is_skipped(s, r), num_behind(s, r) > 0), 1, 0)
        if num_behind(s, r) > 0:
            s.rank[r] = s.more[r, s.morefrom[r]]
            s.morefrom[r] += 1


def stand_apart(s: State, r: Value) -> None:
    """r, which is to be loaded, goes to the back of the queue of those who wait with blocks, or of
    the skipped one, unless it stands there.

    Source: Scheduler.schedule, waiting phase: skip_request.
    """
    if both(two_queues(s), neg(is_apart(s, r))):
        move_apart(s, r)


def leave_holders(s: State, r: Value) -> None:
    """r, which stands among those who wait with blocks and has none any more, is passed over, and
    stands from then on before all that have none, behind those that came there in this step.

    Source: Scheduler.schedule, waiting phase: step_skipped_waiting.
    """
    if s.k.sem.holders_wait_apart:
        if both(is_skipped(s, r), s.comp[r] == 0, s.awaits[r] != REMOTE):
            s.skip[r] = 0
            s.rank[r] = s.gap
            s.gap += 1


def open_gap(s: State) -> None:
    """Places in the queue, before all others, for those who leave the other one in this step."""
    if s.k.sem.holders_wait_apart:
        s.gap = s.lo - num_skipped(s)
        s.lo = s.gap - 1


def await_grammar(s: State, r: Value) -> None:
    """A request with a grammar joins the skipped queue, even if that is compiled already."""
    if s.k.grammar(r):
        s.awaits[r] = GRAMMAR
        enter_skipped(s, r)
        join_heap(s, r)
    else:
        join_queue(s, r)


def join_line(s: State, r: Value) -> None:
    """A request that begins to wait is to be tried."""
    s.nline += 1
    s.lineset = s.k.add(s.lineset, r)


def leave_line(s: State, r: Value) -> None:
    """A request that waits no more stands in no queue."""
    s.skip[r] = 0
    s.nline -= 1
    s.lineset = s.k.remove(s.lineset, r)


def stand_again(s: State, r: Value) -> None:
    """r stands once more in the skipped queue, at its back, and waits for a chunk there."""
    s.extra += ite(awaits_input(s, r), 1, 0)
    s.again[r, s.againto[r]] = s.sback
    s.againto[r] += 1
    s.sback += 1
    s.nwait += 1
    s.nline += 1
    join_heap(s, r)


def join_both(s: State, r: Value) -> None:
    """r joins the waiting queue, and may stand in the skipped one already."""
    if may_stand_twice(s):
        s.also[r] = ite(stays_skipped(s, r), 1, 0)


def stand_before(s: State, r: Value) -> None:
    """r is about to join the waiting queue at its front: a place that it has there is behind."""
    if stays_queued(s, r):
        s.morefrom[r] -= 1
        s.more[r, s.morefrom[r]] = s.rank[r]


def stand_behind(s: State, r: Value) -> None:
    """r, which stands in the waiting queue, stands there once more, at its back."""
    s.more[r, s.moreto[r]] = s.hi
    s.moreto[r] += 1
    s.hi += 1
    s.nwait += 1
    s.nline += 1


def leave_first_place(s: State, r: Value) -> None:
    """r, whose turn it is, leaves the first of its places in the queue that it is tried in, and
    keeps the others.
    """
    if neg(is_apart(s, r)):
        leave_waiting_place(s, r)
    elif num_further(s, r) > 0:
        s.skip[r] = s.again[r, s.againfrom[r]]
        s.againfrom[r] += 1
    else:
        s.skip[r] = 0
        s.also[r] = 0
    s.nwait -= 1
    s.nline -= 1


def leave_more_places(s: State, r: Value) -> None:
    """r has no more than one place in the queues."""
    if has_more_places(s, r):
        s.nwait -= num_more_places(s, r)
        s.nline -= num_more_places(s, r)
        s.againfrom[r] = s.againto[r]
        s.morefrom[r] = s.moreto[r]
        s.also[r] = 0


def leave_waiting(s: State, r: Value) -> None:
    """r, which stops, stands in the waiting queue no more, should it stand in both."""
    if may_stand_twice(s):
        s.nwait -= s.also[r] + num_behind(s, r)
        s.nline -= s.also[r] + num_behind(s, r)
        s.also[r] = 0
        s.morefrom[r] = s.moreto[r]
        leave_queue_late(s)


def stay_ended(s: State, r: Value) -> None:
    """r has ended, and stays in the skipped queue, where nobody counts it as gone."""
    leave_waiting(s, r)
    if s.k.sessions:
        s.extra += ite(awaits_input(s, r), 1, 0)


def forget_waits(s: State, r: Value) -> None:
    """A request that is gone awaits nothing."""
    s.awaits[r] = 0
    s.came[r] = 0
    forget_chunks(s, r)


def forget_chunks(s: State, r: Value) -> None:
    """What a session that is gone was sent is gone with it, unless it is left in a queue."""
    if both(s.k.sessions, neg(is_left(s, r))):
        s.turns[r] = 0
        s.sent[r] = 0
        s.ended[r] = 0
        s.grown[r] = 0
        s.lost[r] = 0
        s.past[r] = 0


def forget_passed(s: State) -> None:
    """In the next step everybody is tried again."""
    if is_heap(s):
        s.heap = s.k.joined(s.heap, s)
    s.passed = s.k.empty("R")
    s.nline = s.nwait
    s.lineset = s.k.copied(s.waitset)


def count_adapters(s: State) -> None:
    """The running phase has not scheduled more adapters than there are places.

    Source: Scheduler.schedule: the assertion on scheduled_loras.
    """
    if s.k.max_loras != 0:
        ensure(num_adapters(s) <= s.k.max_loras, "no more adapters run than there are places")


@rule("WAIT-43", "R")
def come(s: State, r: Value) -> None:
    """What a request awaits may come between any two steps, one in flight or not.

    Source: StructuredOutputManager.grammar_init.
    """
    require(s.phase == IDLE, "between steps")
    require(s.leaving == 0, "nobody is half-way out")
    require(awaits_grammar(s, r), "it has a grammar that is not there")
    s.came[r] = 1


@rule("WAIT-44", "R")
def promote(s: State, r: Value) -> None:
    """A request that is tried, and has what it awaited, waits for nothing but its turn from then
    on.

    Source: Scheduler._try_promote_blocked_waiting_request.
    """
    require(is_tried(s, r), "it is the request that the waiting phase tries next")
    require(s.awaits[r] != 0, "it awaits something")
    require(s.came[r] == 1, "which is there")
    s.awaits[r] = 0
    s.came[r] = 0


@rule("WAIT-55", "R")
def pass_again(s: State, r: Value) -> None:
    """Who stands in both queues, or in the heap more than once, is passed over at each of its
    places, and then has all of them in the skipped queue.

    Source: Scheduler.schedule, waiting phase: step_skipped_waiting. Only in vllm-0.22.1: see
    SESS-7 and WAIT-53.
    """
    require(may_stand_twice(s), "sessions may stand in a queue more than once")
    require(is_tried(s, r), "it is the request that the waiting phase tries next")
    require(s.k.mem(s.passed, r), "it was passed over in this step")
    if neg(is_apart(s, r)):
        move_apart(s, r)
    leave_head(s, r)
    s.nline -= 1


@rule("WAIT-54")
def order_heap(s: State) -> None:
    """When all who are aborted at once have left the queues, these are in order again; in
    vllm-0.32.0 too when all have who stopped while they waited.

    Source: Scheduler.finish_requests, update_from_output, PriorityRequestQueue.remove_requests.
    See WAIT-53.
    """
    require(is_heap(s), "the skipped queue is kept as a heap")
    require(s.phase == IDLE, "between steps")
    require(s.loose != 0, "somebody was taken out of a queue")
    if s.loose == 1:
        s.heap = s.k.heapified(s.heap, s)
    if may_stand_twice(s):
        s.queue = s.k.still_waiting(s.queue, s)
        s.queue = s.k.heapified(s.queue, s)
    s.loose = 0


@rule("WAIT-45", "R")
def pass_by(s: State, r: Value) -> None:
    """Whoever waits for something else than its turn is passed over for this step, and stands in
    the skipped queue from then on: at its back, or where it stood there.

    Source: Scheduler.schedule, waiting phase: step_skipped_waiting. In vllm-0.32.0 it stays where
    it stands.
    """
    require(is_tried(s, r), "it is the request that the waiting phase tries next")
    require(has_to_wait(s, r), "it waits for something else than its turn")
    require(neg(has_come(s, r)), "and what it awaits is not there")
    if both(s.k.sem.skipped_wait_apart, neg(is_apart(s, r))):
        move_apart(s, r)
    leave_holders(s, r)
    s.passed = s.k.add(s.passed, r)
    pass_places(s, r)
    s.lineset = s.k.remove(s.lineset, r)
