"""One step: its phases, the advance of what is scheduled, and the output that comes back."""

from nullblock.spec.kernel import State, Value, both, either, ensure, ite, neg, require, rule
from nullblock.spec.state import (
    ADVANCE,
    CHUNK,
    CONTINUE,
    DECIDED,
    IDLE,
    PAUSED_ALL,
    RUN_PHASE,
    TOKEN,
    UPDATE,
    WAIT_PHASE,
    at_rest,
    check_stop,
    live,
    may_admit,
    tokens_to_run,
)


@rule("RUN-5")
def begin_step(s: State) -> None:
    """A step starts with the whole token budget, or none while everything is paused, and looks at
    running requests first.

    Source: Scheduler.schedule, running phase. In this scope at most one step is in flight.
    """
    require(s.phase == IDLE, "between steps")
    require(s.flying == 0, "no step is in flight")
    require(at_rest(s), "nobody is half-way")
    s.phase = RUN_PHASE
    s.at = 0
    s.limit = ite(s.pause == PAUSED_ALL, 0, s.k.budget)
    s.budget = s.limit
    s.used = 0
    s.turned = 0
    s.adm = 0
    s.blocked = 0
    s.halted = 0
    s.preempted = s.k.empty("R")


@rule("RUN-6", "R")
def skip(s: State, r: Value) -> None:
    """A running request with nothing to do is passed over, and later ones may overtake it.

    Source: Scheduler.schedule, running phase.
    """
    require(s.phase == RUN_PHASE, "the running phase is open")
    require(at_rest(s), "nobody is half-way")
    require(s.at < s.nr, "a running request is left")
    require(r == s.run[s.at], "it is the one at the index")
    require(tokens_to_run(s, r) == 0, "it has nothing to do")
    s.at += 1


@rule("RUN-7")
def end_running(s: State) -> None:
    """The running phase ends with the list, with the budget, or when a request has preempted
    itself, never earlier.

    Source: Scheduler.schedule, running phase.
    """
    require(s.phase == RUN_PHASE, "the running phase is open")
    require(at_rest(s), "nobody is half-way")
    require(
        either(s.at >= s.nr, s.budget == 0, s.halted == 1), "there is nothing left to do in it"
    )
    s.phase = WAIT_PHASE


@rule("WAIT-11")
def end_waiting(s: State) -> None:
    """The waiting phase ends only when the queue may be served no further.

    Source: Scheduler.schedule, waiting phase.
    """
    require(s.phase == WAIT_PHASE, "the waiting phase is open")
    require(at_rest(s), "nobody is half-way")
    require(neg(may_admit(s)), "nobody may be admitted")
    s.phase = DECIDED


@rule("UPD-7")
def begin_advance(s: State) -> None:
    """Once decided, a step is in flight; the ids that finished before it are reported with it and
    forgotten.

    Source: Scheduler.schedule, SchedulerOutput, update_after_schedule.
    """
    require(s.phase == DECIDED, "the step is decided")
    s.phase = ADVANCE
    s.at = 0
    s.nframe = 0
    s.cur = 0
    s.finished = s.k.empty("R")
    s.prev = s.k.empty("R")


@rule("UPD-1", "R")
def advance(s: State, r: Value) -> None:
    """What is scheduled counts as computed at once; a request that has caught up owes one token.

    Source: Scheduler._update_after_schedule.
    """
    require(s.phase == ADVANCE, "the step is decided")
    require(s.at < s.nr, "a running request is left")
    require(r == s.run[s.at], "it is the next one")
    n = s.sched[r]
    if n != 0:
        s.comp[r] += n
        s.sched[r] = 0
        s.grant[r] = n
        s.due[r] = ite(s.comp[r] < s.ntok[r], CHUNK, TOKEN)
        s.told[r] = s.tlen[r]
        s.fresh[r] = 0
        s.frame[s.nframe] = r
        s.fx[r] = s.nframe
        s.nframe += 1
        s.prev = s.k.add(s.prev, r)
    s.at += 1


@rule("UPD-8")
def end_advance(s: State) -> None:
    """After the advance the worker computes, and the engine may take events.

    Source: Scheduler._update_after_schedule.
    """
    require(s.phase == ADVANCE, "the step is decided")
    require(s.at >= s.nr, "every scheduled request is advanced")
    s.phase = IDLE
    s.flying = 1


@rule("UPD-9")
def begin_update(s: State) -> None:
    """The output of the step in flight is applied request by request, in schedule order;
    rejections are reported with it.

    Source: Scheduler.update_from_output.
    """
    require(s.phase == IDLE, "between steps")
    require(s.flying == 1, "a step is in flight")
    require(s.leaving == 0, "nobody is half-way out")
    s.phase = UPDATE
    s.nrej = 0


@rule("UPD-2")
def pass_over(s: State) -> None:
    """Nothing is applied to a request that is gone, or that a chunk of its prefill left short of a
    token.

    Source: Scheduler.update_from_output. In vllm-0.22.1 a request is found again by its id, even
    if it is a later one.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.open == 0, "the request before is settled")
    require(s.cur < s.nframe, "a request of the frame is left")
    r = s.frame[s.cur]
    require(either(neg(live(s, r)), s.due[r] != TOKEN), "it gets no token")
    ensure(s.grant[r] > 0, "a scheduled request computed at least one token")
    s.due[r] = 0
    s.cur += 1


@rule("UPD-3", "R")
def take_token(s: State, r: Value) -> None:
    """A request that has caught up takes one sampled token.

    Source: Scheduler._update_request_with_output. It need not be running: a reset may have
    preempted it.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.open == 0, "the request before is settled")
    require(s.cur < s.nframe, "a request of the frame is left")
    require(r == s.frame[s.cur], "it is the next one")
    require(both(live(s, r), s.due[r] == TOKEN), "it owes a token")
    ensure(s.grant[r] > 0, "a scheduled request computed at least one token")
    s.ntok[r] += 1
    s.due[r] = 0
    s.cur += 1
    s.open = 1
    s.taker = r
    s.k.on_token(s, r)


@rule("UPD-13", "R")
def go_on(s: State, r: Value) -> None:
    """A request that need not stop stays where it is.

    Source: Scheduler.update_from_output.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(both(s.open == 1, r == s.taker), "it has a new token")
    require(check_stop(s, r) == CONTINUE, "it does not stop")
    s.open = 0


@rule("UPD-10")
def end_update(s: State) -> None:
    """The update ends with the frame.

    Source: Scheduler.update_from_output.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(both(s.open == 0, s.cur >= s.nframe), "every request of the frame is settled")
    s.phase = IDLE
    s.flying = 0
    s.nframe = 0
    s.cur = 0
