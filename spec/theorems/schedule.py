"""Statements about steps, proved of `schedule()` and of everything else that happens."""

from collections.abc import Callable
from dataclasses import dataclass

from nullblock.spec.fields import RUNNING
from nullblock.spec.kernel import State, Value, both, implies
from nullblock.spec.theorems import steps
from nullblock.spec.theorems.outline import Relation
from nullblock.spec.theorems.steps import EVENT, SCHEDULE, elsewhere, said, scheduling
from nullblock.spec.theorems.theorem import Found, theorem

QUEUED = ("ALLOC-2", "ALLOC-3", "LIFE-12", "PREEMPT-6", "RUN-10", "RUN-12", "WAIT-12")
LISTED = (
    *("ALLOC-2", "ALLOC-3", "LIFE-12", "RUN-8", "RUN-9", "RUN-10", "RUN-12", "RUN-14"),
    *("RUN-15", "RUN-19", "UPD-11"),
)
BEFORE_AND_AFTER = (
    "a step is what happens from begin_step to end_advance; nothing else happens meanwhile",
)
SUMS = "sums over finitely many requests and entries (each law is also run on integers)"
INDUCTION = "Z3, unbounded; induction over the rules of a half step"


@dataclass(frozen=True, slots=True)
class Plan:
    """How one statement about a transition is shown."""

    id: str
    relations: tuple[Relation, ...]
    given: tuple[str, ...]
    apart: tuple[Relation, ...] = ()
    """What is compared outside `schedule()`, where the statement says something there."""

    def shown(self) -> Found:
        """Its obligations."""
        found = scheduling(self.relations, self.given).shown(self.id, said(self.id, SCHEDULE))
        if self.apart:
            found += elsewhere(self.apart, self.given).shown(self.id, said(self.id, EVENT))
        return found

    def only(self, relation: Relation) -> Callable[[], Found]:
        """A canary: one relation alone, which is false or not enough."""
        return lambda: scheduling((relation,), self.given).shown("canary", {})


PLANS = (
    Plan(
        "TABLE-10",
        (steps.preempted_left, steps.remain_running, steps.tables_extend),
        QUEUED,
        (steps.only_leave,),
    ),
    Plan(
        "RUN-22",
        (steps.preempted_left, steps.remain_running, steps.order_kept),
        (*QUEUED, "RUN-9", "RUN-19"),
        (steps.only_leave, steps.order_kept),
    ),
    Plan(
        "PREEMPT-7",
        (steps.frames, steps.preempted_left, steps.entries_in_order),
        (*LISTED, "PREEMPT-6"),
    ),
    Plan("RUN-24", (steps.frames, steps.entries_in_order), LISTED),
    Plan(
        "UPD-14",
        (
            *(steps.frames, steps.preempted_left, steps.remain_running, steps.entries_in_order),
            *(steps.computed_waits, steps.computed_advances),
        ),
        (*LISTED, "PREEMPT-6", "WAIT-12"),
        (steps.only_leave,),
    ),
    Plan(
        "RUN-23",
        (steps.frames, steps.entries_in_order, steps.accounts),
        (*LISTED, "RUN-11", "RUN-13"),
    ),
    Plan(
        "RUN-28",
        (
            *(steps.frames, steps.entries_in_order, steps.visited_are_served),
            steps.budget_in_range,
        ),
        (*LISTED, "RUN-11", "RUN-18", "UPD-19", "WAIT-12", "DRAFT-12"),
    ),
)


def tables_stay(was: State, s: State) -> Value:
    """False: a running request gets no blocks."""
    return s.k.forall("R", lambda r: implies(steps.remained(was, s, r), s.tlen[r] == was.tlen[r]))


def nobody_joins(was: State, s: State) -> Value:
    """False: nobody is admitted."""
    return s.k.forall("R", lambda r: implies(s.stage[r] == RUNNING, was.stage[r] == RUNNING))


def half_the_budget(was: State, s: State) -> Value:
    """False: a step uses less than its budget."""
    return both(steps.frames(was, s), steps.accounts(was, s), s.used < s.k.budget)


def _enter(plan: Plan) -> None:
    false = half_the_budget if plan.id == "RUN-23" else nobody_joins
    false = tables_stay if plan.id == "TABLE-10" else false
    theorem(
        plan.id,
        engine=INDUCTION,
        rests_on=plan.given,
        assumes=(*BEFORE_AND_AFTER, SUMS),
        canaries={(false.__doc__ or "").removeprefix("False: "): plan.only(false)},
    )(plan.shown)


for _plan in PLANS:
    _enter(_plan)
