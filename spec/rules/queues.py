"""Requests: arriving, being preempted, and leaving."""

from nullblock.spec.drafts import placeholders
from nullblock.spec.encoder import refers_to_any
from nullblock.spec.fields import (
    AWAY,
    BACK,
    CONTINUE,
    IDLE,
    PREEMPTED,
    RESETTING,
    RUN_PHASE,
    UNBORN,
    UPDATE,
    WAITING,
)
from nullblock.spec.gate import fits
from nullblock.spec.hybrid import holds_nothing
from nullblock.spec.kernel import State, Value, both, either, ite, neg, require, rule
from nullblock.spec.rules.clients import note_end
from nullblock.spec.rules.drafts import drop_drafts, forget_drafts, lose_drafts
from nullblock.spec.rules.encoder import forget_plan
from nullblock.spec.rules.junctions import leave_junction
from nullblock.spec.rules.later import (
    give_slot_back,
    leave_flight,
    outdate,
    outdate_last_turn,
    outdate_preempted,
    report_reset,
)
from nullblock.spec.rules.loads import forget_load, stop_loading
from nullblock.spec.rules.pool import set_out
from nullblock.spec.rules.waiting import (
    await_grammar,
    forget_waits,
    join_both,
    join_line,
    join_queue,
    leave_heap,
    leave_line,
    leave_more_places,
    stand_before,
    stay_ended,
)
from nullblock.spec.sessions import holds_while_waiting, is_left, is_lost
from nullblock.spec.state import check_stop, is_victim, is_waiting, servable
from nullblock.spec.turns import goes_on
from nullblock.spec.waiting import is_skipped


def enter_queue(s: State, r: Value) -> None:
    """r joins those that wait; its place is its own."""
    join_both(s, r)
    s.nwait += 1
    s.waitset = s.k.add(s.waitset, r)
    join_line(s, r)


def quit_queue(s: State, r: Value) -> None:
    """r waits no more."""
    leave_heap(s, r)
    if neg(is_lost(s, r)):
        leave_more_places(s, r)
        s.rank[r] = 0
        s.nwait -= 1
        s.waitset = s.k.remove(s.waitset, r)
        leave_line(s, r)


def leave_running(s: State, i: Value, whither: Value) -> None:
    """The request at index i is on its way out, its blocks still its own."""
    r = s.run[i]
    set_out(s, r, whither)
    quit_running(s, i)


def quit_running(s: State, i: Value) -> None:
    """The request at index i runs no more, and those behind it move up."""
    s.run = s.k.drop(s.run, i, s.nr)
    s.ix = s.k.shift(s.ix, i)
    s.nr -= 1


def _erase(s: State, r: Value) -> None:
    # First of all: who still waits is asked for again, and what it computed decides whether.
    forget_load(s, r)
    s.stage[r] = UNBORN
    s.arr[r] = 0
    s.ntok[r] = ite(is_left(s, r), s.ntok[r], 0)
    s.comp[r] = ite(is_left(s, r), s.comp[r], 0)
    s.fresh[r] = 0
    s.npre[r] = 0
    s.ph[r] = 0
    s.drop[r] = 0
    forget_drafts(s, r)
    forget_waits(s, r)
    leave_flight(s, r)
    leave_junction(s, r)


def _forget(s: State, r: Value) -> None:
    _erase(s, r)
    s.finished = s.k.add(s.finished, r)
    note_end(s, r)


@rule("LIFE-1", "R")
def add_request(s: State, r: Value) -> None:
    """A request that arrives joins the back of the waiting queue with its prompt and nothing
    computed.

    Source: Scheduler.add_request.
    """
    require(s.phase == IDLE, "between steps")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.stage[r] == UNBORN, "the id is not in use")
    require(neg(is_waiting(s, r)), "and stands in no queue")
    require(either(not s.k.sem.reject_unservable, servable(s, r)), "it can be served")
    s.stage[r] = WAITING
    s.arr[r] = s.aclk
    s.aclk += 1
    s.ntok[r] = s.k.prompt_len(r)
    s.rank[r] = s.hi
    s.hi += 1
    enter_queue(s, r)
    await_grammar(s, r)


@rule("LIFE-2", "R")
def reject(s: State, r: Value) -> None:
    """A request whose service to its limit cannot be guaranteed is refused at arrival, and the
    next update says why.

    Normative only: vllm-0.22.1 lets it wait for ever, and with it everything behind it (upstream
    39734).
    """
    require(s.phase == IDLE, "between steps")
    require(s.stage[r] == UNBORN, "the id is not in use")
    require(s.k.sem.reject_unservable, "unservable requests are refused")
    require(neg(servable(s, r)), "it cannot be served")
    s.rej[s.nrej] = r
    s.nrej += 1


@rule("PREEMPT-2", "I")
def preempt(s: State, i: Value) -> None:
    """When slots are short the victim leaves the running list; if it was already scheduled this
    step its tokens return to the budget.

    A victim before the index moves the index. Source: Scheduler.schedule, running phase. In
    vllm-0.22.1 it does so only if it was scheduled this step (upstream 49097).
    """
    require(s.phase == RUN_PHASE, "the running phase is open")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.asked != 0, "a request asks for slots")
    require(neg(fits(s, s.actor)), "its slots are not free")
    require(is_victim(s, i), "the one that policy names")
    v = s.run[i]
    if both(i < s.at, either(s.k.sem.victim_shifts_index, s.sched[v] != 0)):
        s.at -= 1
    give_slot_back(s, v)
    s.budget += s.sched[v]
    s.used -= s.sched[v]
    s.sched[v] = 0
    s.drafted[v] = 0
    if v == s.actor:
        s.asked = 0
        s.halted = 1
        forget_plan(s)
    leave_running(s, i, BACK)
    s.turned += 1
    s.preempted = s.k.add(s.preempted, v)
    outdate_preempted(s, v)


@rule("LIFE-3")
def preempt_for_reset(s: State) -> None:
    """A reset that may touch running requests preempts them from the back, so that their order is
    kept; scheduling ahead, their tokens in flight will be dropped.

    They are not reported as preempted: that is told of steps alone. Source:
    Scheduler.reset_prefix_cache. In vllm-0.22.1 a second reset forgets what the first was to drop,
    and drafts in flight count as outputs, so that too many are dropped (upstream 46066);
    vllm-0.32.0 drops without scheduling ahead too, and reports them with the next step.
    """
    require(s.phase == RESETTING, "a reset is under way")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.nr > 0, "a request is running")
    r = s.run[s.nr - 1]
    if s.k.asynchronous and not s.k.sem.resumes_await_output:
        gone = s.ph[r] if s.k.sem.discards_count_outputs else placeholders(s, r)
        s.drop[r] = gone + (s.drop[r] if s.k.sem.discards_add_up else 0)
        s.ph[r] = 0
        drop_drafts(s, r)
    leave_running(s, s.nr - 1, BACK)
    outdate(s, r, worthless=1)
    report_reset(s, r)


@rule("PREEMPT-4", "R")
def requeue(s: State, v: Value) -> None:
    """A preempted request goes to the front of the waiting queue with nothing computed; its output
    is kept.

    Source: Scheduler._preempt_request. Under PRIORITY its place follows from its priority.
    """
    require(s.leaving == BACK, "somebody goes back to the queue")
    require(v == s.leaver, "this request")
    require(holds_nothing(s, v), "it holds nothing")
    if s.k.encodes:
        require(neg(refers_to_any(s, v)), "it refers to no embeddings")
    s.stage[v] = PREEMPTED
    s.leaving = 0
    s.comp[v] = 0
    stop_loading(s, v)
    s.npre[v] += 1
    lose_drafts(s, v)
    stand_before(s, v)
    s.rank[v] = s.lo
    s.lo -= 1
    enter_queue(s, v)
    join_queue(s, v)


@rule("LIFE-4", "I")
def abort_running(s: State, i: Value) -> None:
    """A running request may be aborted between any two steps, its output in flight or not.

    Of several aborted at once the order is the engine's own; vLLM walks over a set. Source:
    Scheduler.finish_requests.
    """
    require(s.phase == IDLE, "between steps")
    require(s.leaving == 0, "nobody is half-way out")
    require(both(0 <= i, i < s.nr), "the index is in range")
    leave_running(s, i, AWAY)


@rule("LIFE-5", "R")
def abort_waiting(s: State, r: Value) -> None:
    """A waiting request may be aborted between any two steps; it holds nothing.

    Source: Scheduler.finish_requests.
    """
    require(s.phase == IDLE, "between steps")
    require(s.leaving == 0, "nobody is half-way out")
    require(either(is_waiting(s, r), is_lost(s, r)), "it stands in the queue")
    require(neg(holds_while_waiting(s, r)), "it holds nothing")
    if s.k.encodes:
        require(neg(refers_to_any(s, r)), "it refers to no embeddings")
    quit_queue(s, r)
    _forget(s, r)


@rule("UPD-5", "I")
def finish(s: State, i: Value) -> None:
    """A running request that stops leaves the running list at once.

    Source: Scheduler.update_from_output, _free_request.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(both(0 <= i, i < s.nr), "the index is in range")
    require(both(s.open == 1, s.run[i] == s.taker), "it has a new token")
    require(check_stop(s, s.run[i]) != CONTINUE, "it stops")
    require(neg(goes_on(s, s.run[i], check_stop(s, s.run[i]))), "and does not go on")
    outdate_last_turn(s, s.run[i])
    s.open = 0
    leave_running(s, i, AWAY)


@rule("UPD-6", "R")
def finish_waiting(s: State, r: Value) -> None:
    """A request that stops on an output which was in flight when it was preempted leaves the
    waiting queue.

    Source: Scheduler.update_from_output: classified by the status before. In vllm-0.22.1 it does
    not leave the skipped queue, and raises when its turn comes.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(either(is_waiting(s, r), is_lost(s, r)), "it stands in the queue")
    if s.k.encodes:
        require(neg(refers_to_any(s, r)), "it refers to no embeddings")
    require(both(s.open == 1, r == s.taker), "it has a new token")
    require(check_stop(s, r) != CONTINUE, "it stops")
    require(neg(goes_on(s, r, check_stop(s, r))), "and does not go on")
    s.open = 0
    if either(s.k.sem.stops_leave_every_queue, neg(is_skipped(s, r))):
        quit_queue(s, r)
    else:
        stay_ended(s, r)
    _forget(s, r)


@rule("LIFE-6", "R")
def forget(s: State, r: Value) -> None:
    """A request that is gone holds nothing, and the next step tells the workers its id.

    Source: Scheduler._free_request, _free_blocks.
    """
    require(s.leaving == AWAY, "somebody leaves for good")
    require(r == s.leaver, "this request")
    require(holds_nothing(s, r), "it holds nothing")
    if s.k.encodes:
        require(neg(refers_to_any(s, r)), "it refers to no embeddings")
    s.leaving = 0
    _forget(s, r)


@rule("LIFE-7", "I")
def set_pause(s: State, state: Value) -> None:
    """Pausing admissions or everything takes effect at the next step.

    Source: Scheduler.set_pause_state.
    """
    require(s.phase == IDLE, "between steps")
    require(both(0 <= state, state <= 2), "UNPAUSED, PAUSED_NEW or PAUSED_ALL")
    s.pause = state


@rule("LIFE-8")
def begin_reset(s: State) -> None:
    """A reset happens between steps; a step in flight does not prevent it.

    Source: Scheduler.reset_prefix_cache.
    """
    require(s.phase == IDLE, "between steps")
    require(s.leaving == 0, "nobody is half-way out")
    s.phase = RESETTING


@rule("LIFE-9")
def end_reset(s: State) -> None:
    """After a reset that preempted the running requests the workers are sent every token again.

    Source: prev_step_scheduled_req_ids.
    """
    require(s.phase == RESETTING, "a reset is under way")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.nr == 0, "nobody is running")
    s.phase = IDLE
    s.prev = s.k.empty("R")
