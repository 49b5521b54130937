"""One step: its phases, the advance of what is scheduled, and the output that comes back."""

from nullblock.spec.cross import is_told_to_forget
from nullblock.spec.drafts import may_take, placeholders
from nullblock.spec.encoder import has_let_go, is_planned
from nullblock.spec.fields import (
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
)
from nullblock.spec.flight import (
    caches_what_is_known,
    computed_for_sure,
    counts_outputs,
    in_flight,
    owes_token,
)
from nullblock.spec.hybrid import has_cached
from nullblock.spec.kernel import State, Value, both, either, ensure, ite, neg, require, rule
from nullblock.spec.later import is_stale, left
from nullblock.spec.rules.cross import close_encoder
from nullblock.spec.rules.drafts import launch_drafts, mark_chunk, settle_run
from nullblock.spec.rules.encoder import forget_inputs, forget_plan, open_encoder
from nullblock.spec.rules.later import (
    end_filling,
    forget_reported,
    keep_pace,
    land,
    open_slots,
    report_anew,
    take_off,
)
from nullblock.spec.rules.loads import arrive, forget_report, forgive
from nullblock.spec.rules.mamba import forget_states, forget_taken
from nullblock.spec.rules.waiting import count_adapters, forget_passed, open_gap
from nullblock.spec.state import at_rest, check_stop, may_admit, tokens_to_run


@rule("RUN-5")
def begin_step(s: State) -> None:
    """A step starts with the whole token budget, or none while everything is paused, and looks at
    running requests first.

    Steps in flight do not prevent it. Source: Scheduler.schedule, running phase.
    """
    require(s.phase == IDLE, "between steps")
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
    open_encoder(s)
    open_slots(s)
    report_anew(s)


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
    if s.k.encodes:
        require(is_planned(s, r), "its encoder inputs are planned")
    s.at += 1
    forget_plan(s)


@rule("RUN-7")
def end_running(s: State) -> None:
    """The running phase ends with the list, with the budget, or when a request has preempted
    itself, never earlier.

    Source: Scheduler.schedule, running phase.
    """
    require(s.phase == RUN_PHASE, "the running phase is open")
    require(at_rest(s), "nobody is half-way")
    require(either(s.at >= s.nr, left(s) == 0, s.halted == 1), "there is nothing left to do in it")
    s.phase = WAIT_PHASE
    count_adapters(s)
    open_gap(s)


@rule("WAIT-11")
def end_waiting(s: State) -> None:
    """The waiting phase ends only when the queue may be served no further.

    Source: Scheduler.schedule, waiting phase.
    """
    require(s.phase == WAIT_PHASE, "the waiting phase is open")
    require(at_rest(s), "nobody is half-way")
    require(neg(may_admit(s)), "nobody may be admitted")
    s.phase = DECIDED
    forget_passed(s)
    forget_states(s)


@rule("UPD-7")
def begin_advance(s: State) -> None:
    """Once decided, a step is in flight; the ids that finished before it are reported with it and
    forgotten.

    Source: Scheduler.schedule, SchedulerOutput, update_after_schedule.
    """
    require(s.phase == DECIDED, "the step is decided")
    s.phase = ADVANCE
    s.at = 0
    s.finished = s.k.empty("R")
    s.prev = s.k.empty("R")
    forget_inputs(s)
    forget_taken(s)
    forget_reported(s)


@rule("UPD-1", "R")
def advance(s: State, r: Value) -> None:
    """What is scheduled counts as computed at once; a request that has caught up with all it has,
    tokens in flight included, owes one token.

    Source: Scheduler._update_after_schedule, AsyncScheduler._update_after_schedule.
    """
    require(s.phase == ADVANCE, "the step is decided")
    require(s.at < s.nr, "a running request is left")
    require(r == s.run[s.at], "it is the next one")
    n = s.sched[r]
    if n != 0:
        i = s.nframe
        s.comp[r] += n
        s.sched[r] = 0
        if not s.k.several:
            s.told[r] = s.tlen[r]
        s.fresh[r] = 0
        s.frame[i] = r
        s.born[i] = s.arr[r]
        s.grant[i] = n
        s.spot[i] = s.comp[r] + s.slip[r]
        s.ndraft[i] = s.drafted[r]
        s.drafted[r] = 0
        s.nframe = i + 1
        s.prev = s.k.add(s.prev, r)
        take_off(s, r, n)
        if s.comp[r] < s.ntok[r] + placeholders(s, r):
            s.due[i] = CHUNK
            mark_chunk(s, r, 1)
        else:
            s.due[i] = TOKEN
            mark_chunk(s, r, 0)
            end_filling(s, r)
            keep_pace(s, r)
            place = s.base[r] + s.drop[r] + s.ph[r]
            if counts_outputs(s):
                s.nth[i] = place
                s.entry[r, place] = i
                s.ph[r] += 1
            launch_drafts(s, r, i, place)
    s.at += 1


@rule("UPD-8")
def end_advance(s: State) -> None:
    """After the advance the worker computes, and the engine may take events.

    Workers compute the steps in flight in the order in which they were scheduled. Source:
    Scheduler._update_after_schedule.
    """
    require(s.phase == ADVANCE, "the step is decided")
    require(s.at >= s.nr, "every scheduled request is advanced")
    require(is_told_to_forget(s), "its encoder inputs are noted")
    close_encoder(s)
    s.phase = IDLE
    s.fend[s.steps] = s.nframe
    s.steps += 1


@rule("UPD-9")
def begin_update(s: State) -> None:
    """The output of the oldest step in flight is applied request by request, in schedule order;
    rejections are reported with it.

    Source: Scheduler.update_from_output.
    """
    require(s.phase == IDLE, "between steps")
    require(in_flight(s) > 0, "a step is in flight")
    require(s.leaving == 0, "nobody is half-way out")
    s.phase = UPDATE
    s.upto = s.fend[s.oldest]
    s.nrej = 0


@rule("UPD-2")
def pass_over(s: State) -> None:
    """Nothing is applied to a request that is gone, or that a chunk of its prefill left short of a
    token.

    Source: Scheduler.update_from_output.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.open == 0, "the request before is settled")
    require(s.cur < s.upto, "a request of the step is left")
    require(neg(owes_token(s, s.cur)), "it gets no token")
    if s.k.encodes:
        require(has_let_go(s, s.frame[s.cur]), "it refers to no item that it has passed")
    ensure(s.grant[s.cur] > 0, "a scheduled request computed at least one token")
    forgive(s)
    arrive(s)
    land(s)
    s.cur += 1


@rule("UPD-18", "R")
def drop_token(s: State, r: Value) -> None:
    """A token that was in flight when a reset preempted its request is dropped, and the request
    computes that position again.

    Source: AsyncScheduler._update_request_with_output.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.open == 0, "the request before is settled")
    require(s.cur < s.upto, "a request of the step is left")
    require(r == s.frame[s.cur], "it is the next one")
    require(owes_token(s, s.cur), "it owes a token")
    require(s.drop[r] > 0, "which is to be dropped")
    if s.k.encodes:
        require(has_let_go(s, r), "it refers to no item that it has passed")
    ensure(s.grant[s.cur] > 0, "a scheduled request computed at least one token")
    arrive(s)
    s.drop[r] -= 1
    s.base[r] += 1
    s.cur += 1


@rule("UPD-3", "R")
def take_token(s: State, r: Value) -> None:
    """A request that has caught up takes one sampled token.

    Source: Scheduler._update_request_with_output. It need not be running: a step or a reset may
    have preempted it.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(may_take(s, r), "the token before is settled")
    require(s.cur < s.upto, "a request of the step is left")
    require(r == s.frame[s.cur], "it is the next one")
    require(owes_token(s, s.cur), "it owes a token")
    require(s.drop[r] == 0, "which is not to be dropped")
    require(s.ndraft[s.cur] == 0, "its drafts are settled")
    if s.k.encodes:
        require(has_let_go(s, r), "it refers to no item that it has passed")
    ensure(s.grant[s.cur] > 0, "a scheduled request computed at least one token")
    arrive(s)
    if neg(is_stale(s, r)):
        if s.k.asynchronous:
            ensure(
                placeholders(s, r) > 0, "a request takes no more tokens than are in flight for it"
            )
        if counts_outputs(s):
            s.ph[r] -= 1
            s.base[r] += 1
    settle_run(s, r)
    land(s)
    s.ntok[r] += 1
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
    if caches_what_is_known(s, r):
        require(has_cached(s, r, computed_for_sure(s, r)), "the blocks it knows are cached")
    s.open = 0


@rule("UPD-10")
def end_update(s: State) -> None:
    """The update ends with the step, which is then forgotten.

    Source: Scheduler.update_from_output.
    """
    require(s.phase == UPDATE, "an output is being applied")
    require(s.leaving == 0, "nobody is half-way out")
    require(both(s.open == 0, s.cur >= s.upto), "every request of the step is settled")
    s.phase = IDLE
    s.oldest += 1
    s.frame = s.k.trim(s.frame, s.cur)
    s.born = s.k.trim(s.born, s.cur)
    s.grant = s.k.trim(s.grant, s.cur)
    s.due = s.k.trim(s.due, s.cur)
    s.ndraft = s.k.trim(s.ndraft, s.cur)
    s.fend = s.k.trim(s.fend, s.oldest)
    forget_report(s)
