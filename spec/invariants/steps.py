"""The step: budget, phases, what is computed, what is in flight, what the worker knows."""

from nullblock.spec.drafts import computable, placeholders
from nullblock.spec.fields import (
    ADVANCE,
    IDLE,
    KEPT,
    LEAVING,
    PAUSED_ALL,
    RESETTING,
    RUN_PHASE,
    RUNNING,
    UNPAUSED,
    UPDATE,
    WAIT_PHASE,
)
from nullblock.spec.invariants.ledger import invariant, within
from nullblock.spec.kernel import State, Value, both, either, implies
from nullblock.spec.pooling import has_its_vector
from nullblock.spec.remote import gives_back, last_way, was_loaded
from nullblock.spec.sessions import may_hold
from nullblock.spec.state import kept, longest, turn


@invariant("RUN-11")
def budget_accounts(s: State) -> Value:
    """What is granted and what is left make up the step's budget, and what is left is never
    negative. Upstream: TensorRT-LLM#12665.
    """
    return both(
        s.budget >= 0,
        s.limit >= 0,
        s.limit <= s.k.budget,
        implies(either(s.phase == RUN_PHASE, s.phase == WAIT_PHASE), s.used + s.budget == s.limit),
    )


@invariant("PREEMPT-6")
def no_admission_after_preemption(s: State) -> Value:
    """No request is admitted from the waiting queue in a step that preempted. Upstream:
    thrashing, 25538.
    """
    return both(
        s.turned >= 0,
        s.adm >= 0,
        either(s.turned == 0, s.adm == 0),
        implies(s.phase == RUN_PHASE, s.adm == 0),
    )


def _undone(s: State) -> Value:
    """Whether a step is under way."""
    return both(s.phase != IDLE, s.phase <= ADVANCE)


@invariant("WAIT-16")
def paused_admits_nobody(s: State) -> Value:
    """No request is admitted in a step that finds admissions paused, or everything."""
    return implies(both(_undone(s), s.pause != UNPAUSED), s.adm == 0)


@invariant("RUN-27")
def paused_schedules_nothing(s: State) -> Value:
    """A step that finds everything paused has no budget and schedules nothing."""
    return implies(
        both(_undone(s), s.pause == PAUSED_ALL),
        both(s.budget == 0, s.k.forall("R", lambda r: s.sched[r] == 0)),
    )


@invariant("RUN-12")
def step_in_range(s: State) -> Value:
    """The phase, the index and the flags of a step are in range."""
    return both(
        0 <= s.phase,
        s.phase <= 6,
        within(0, s.halted, 2),
        within(0, s.blocked, 2),
        within(0, s.evicted, 2),
        within(0, s.leaving, last_way(s) + 1),
        implies(s.phase == RUN_PHASE, both(0 <= s.at, s.at <= s.nr)),
        implies(s.asked != 0, either(s.phase == RUN_PHASE, s.phase == WAIT_PHASE)),
        implies(
            s.leaving != 0,
            either(
                s.phase == IDLE,
                s.phase == RUN_PHASE,
                s.phase == UPDATE,
                s.phase == RESETTING,
                both(s.phase == WAIT_PHASE, gives_back(s, s.leaver)),
            ),
        ),
        within(0, s.open, 3),
        implies(s.open != 0, both(s.phase == UPDATE, s.leaving == 0)),
    )


@invariant("RUN-13")
def unvisited_is_unscheduled(s: State) -> Value:
    """A running request that the index has not reached is not scheduled, and has tokens to
    compute, in flight or known.
    """
    return s.k.forall(
        "I",
        lambda i: implies(
            both(within(0, i, s.nr), s.phase == RUN_PHASE, s.at <= i),
            both(
                s.sched[s.run[i]] == 0,
                s.comp[s.run[i]] < s.ntok[s.run[i]] + placeholders(s, s.run[i]),
            ),
        ),
    )


@invariant("RUN-14")
def only_running_is_scheduled(s: State) -> Value:
    """Only running requests are scheduled, each for at least one token if at all, and never
    once preempted. Upstream: 23347.
    """
    return s.k.forall(
        "R", lambda r: both(s.sched[r] >= 0, implies(s.stage[r] != RUNNING, s.sched[r] == 0))
    )


@invariant("RUN-15")
def nothing_scheduled_between_steps(s: State) -> Value:
    """Outside a step, and once it is advanced, nothing is scheduled."""
    return s.k.forall(
        "R",
        lambda r: implies(
            either(s.phase == IDLE, s.phase >= UPDATE, both(s.phase == ADVANCE, s.ix[r] < s.at)),
            s.sched[r] == 0,
        ),
    )


@invariant("RUN-29")
def computed_in_bounds(s: State) -> Value:
    """Of a request that has not ended no more is computed than there are tokens, those in flight
    that are scheduled ahead and drafts included. Upstream: 11186, nano-vllm#233, FastDeploy#3292.
    """
    return s.k.forall(
        "R",
        lambda r: both(
            s.comp[r] >= 0,
            implies(
                both(s.stage[r] != LEAVING, s.stage[r] != KEPT),
                s.comp[r] + s.sched[r] <= computable(s, r) + s.drafted[r],
            ),
        ),
    )


@invariant("RUN-17")
def computed_goes_with_blocks(s: State) -> Value:
    """Only running requests have computed tokens, those on their way in or out, and sessions that
    wait: what is computed is lost with its blocks.
    """
    return s.k.forall(
        "R",
        lambda r: implies(
            s.stage[r] < RUNNING,
            either(
                both(s.looking > 0, r == s.lr),
                either(s.comp[r] == 0, may_hold(s, r), was_loaded(s, r)),
            ),
        ),
    )


@invariant("RUN-18")
def running_has_work(s: State) -> Value:
    """A running request has a token to compute, is owed one that is in flight, or has the vector
    with which it ends: it can go on. Upstream: 51299, prompts of max_model_len.
    """
    return s.k.forall(
        "R",
        lambda r: implies(
            both(s.stage[r] == RUNNING, s.sched[r] == 0),
            either(s.comp[r] < s.ntok[r] + placeholders(s, r), has_its_vector(s, r)),
        ),
    )


@invariant("RUN-26")
def last_token_once(s: State) -> Value:
    """A request whose last token is in flight is not scheduled for another one."""
    return s.k.forall(
        "R",
        lambda r: implies(
            either(s.sched[r] > 0, turn(s, r)),
            both(
                kept(s, r) < s.k.max_len,
                either(
                    kept(s, r) < s.ntok[r] + placeholders(s, r),
                    s.ntok[r] + s.ph[r] <= longest(s, r),
                ),
            ),
        ),
    )


@invariant("OUT-7")
def worker_mirror(s: State) -> Value:
    """The worker knows a prefix of every running request's table and nothing of the others.
    Upstream: 26385, FastDeploy#3292.
    """
    return s.k.forall(
        "T",
        lambda t: both(
            s.told[t] >= 0,
            s.told[t] <= s.tlen[t],
            implies(s.stage[s.k.owner(t)] < RUNNING, s.told[t] == 0),
        ),
    )
