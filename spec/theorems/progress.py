"""Why a step that finds somebody to serve does something: for any pool, queue and budget.

While nothing is granted and nobody is preempted, the running phase cannot pass its first request
over, since that has a token to compute; so nobody runs. Then nobody holds a block, the whole pool
is free, and the head of the queue, which can be served to its limit, fits.
"""

from nullblock.spec.explorer.actions import Schedule
from nullblock.spec.fields import (
    ADVANCE,
    DECIDED,
    PAUSED_ALL,
    RUN_PHASE,
    UNPAUSED,
)
from nullblock.spec.kernel import State, Value, both, either, ensure, implies, ite, require
from nullblock.spec.theorems.outline import Outline, Relation
from nullblock.spec.theorems.pool import shared_out
from nullblock.spec.theorems.steps import accounts, frames, said, scheduling
from nullblock.spec.theorems.theorem import Found, followed, theorem
from nullblock.spec.waiting import nobody_to_serve

HOLDERS = (
    *("LIFE-12", "POOL-1", "POOL-2", "POOL-3", "QUEUE-4", "QUEUE-5", "RUN-12", "RUN-19"),
    *("TABLE-3", "TABLE-4", "TABLE-7"),
)
GIVEN = (
    *("ALLOC-2", "ALLOC-3", "HASH-7", "LIFE-12", "LIFE-13", "LIFE-14", "RUN-8", "RUN-9"),
    *("RUN-10", "RUN-11", "RUN-12", "RUN-13", "RUN-14", "RUN-15", "RUN-29", "RUN-18"),
    *("RUN-19", "UPD-11", "UPD-19", "WAIT-12", "WAIT-14", "WAIT-47", "WAIT-48", "WAIT-51"),
    *("DRAFT-12", "DRAFT-15", "DRAFT-16", "DRAFT-21"),
)


def nobody_in(s: State) -> Value:
    """Whether nobody runs, nobody leaves, and the one looked up holds nothing."""
    return both(s.nr == 0, s.leaving == 0, either(s.looking != 2, s.tlen[s.lr] == 0))


def idle_pool_is_free(s: State) -> Value:
    """If nobody is in, the whole pool is free."""
    return implies(nobody_in(s), s.nfree == s.k.usable)


def _nothing_held(s: State, b: Value) -> None:
    """Of any one block."""
    require(nobody_in(s), "nobody is in")
    r = s.k.some(s.own[b])
    ensure(either(s.ref[b] <= 0, s.pos[r, b] >= 0), "a held block has a holder")
    ensure(s.ref[b] == 0, "no block is held")
    ensure(s.k.mem(s.freeset, b), "so it is free")


def _all_free(s: State) -> None:
    """Of all together."""
    nothing = s.k.empty("B")
    every = s.k.forall("B", lambda b: s.k.mem(s.freeset, b))
    require(implies(nobody_in(s), every), "that was any block")
    require(shared_out(s.k, s.freeset, nothing), "finite sets")
    ensure(idle_pool_is_free(s), "the whole pool is free")


def quiet(s: State) -> Value:
    """Whether the step has done nothing yet, found no other in flight, and is not paused."""
    return both(s.oldest == s.steps, s.used == 0, s.turned == 0, s.pause != PAUSED_ALL)


def budget_is_whole(was: State, s: State) -> Value:
    """A step begins with the whole budget, or none."""
    return both(s.limit == ite(s.pause == PAUSED_ALL, 0, s.k.budget), s.used >= 0)


def halted_by_preemption(was: State, s: State) -> Value:
    """The running phase is halted by a preemption only."""
    return both(s.turned >= 0, implies(s.halted == 1, s.turned > 0))


def first_is_not_passed_over(was: State, s: State) -> Value:
    """While nothing is done the running phase stands at its first request; then nobody runs."""
    return both(
        implies(both(quiet(s), s.phase == RUN_PHASE), s.at == 0),
        implies(both(quiet(s), s.phase > RUN_PHASE), s.nr == 0),
    )


def free_hits_are_hits(was: State, s: State) -> Value:
    """No more hits are counted as free than there are."""
    return implies(both(s.looking > 0, s.na == 0), s.nevict <= s.nhit)


def head_is_not_stuck(was: State, s: State) -> Value:
    """While nothing is done the head of the queue is not held back, and the waiting phase ends
    when nobody is left to serve.
    """
    return implies(
        both(quiet(s), s.pause == UNPAUSED, s.phase >= RUN_PHASE, s.phase <= ADVANCE),
        both(s.blocked == 0, implies(s.phase >= DECIDED, nobody_to_serve(s))),
    )


RELATIONS: tuple[Relation, ...] = (
    *(frames, accounts, budget_is_whole, halted_by_preemption, first_is_not_passed_over),
    *(free_hits_are_hits, head_is_not_stuck),
)


def stuck_for_ever(was: State, s: State) -> Value:
    """False: no step ever does anything."""
    return both(frames(was, s), s.used == 0)


def _outline(relations: tuple[Relation, ...] = RELATIONS) -> Outline:
    known = (idle_pool_is_free, no_output_owed)
    plain = scheduling(relations, GIVEN)
    return Outline(plain.first, plain.last, (), plain.inside, relations, GIVEN, known)


def no_output_owed(s: State) -> Value:
    """With no step in flight nobody is owed a token, but in the step that is advanced."""
    return implies(
        both(s.oldest == s.steps, s.phase != ADVANCE),
        s.k.forall("R", lambda r: both(s.ph[r] == 0, s.drop[r] == 0)),
    )


def _not_owed(s: State, r: Value) -> None:
    """Of any one request: the first place that it is owed would be an entry in flight."""
    require(both(s.oldest == s.steps, s.phase != ADVANCE), "no step is in flight")
    ensure(either(s.drop[r] + s.ph[r] <= 0, s.entry[r, s.base[r]] < s.nframe), "an entry")
    ensure(both(s.ph[r] == 0, s.drop[r] == 0), "nothing is owed")


@theorem(
    "RUN-20",
    engine="Z3, unbounded; induction over the rules of a half step",
    rests_on=tuple(dict.fromkeys((*HOLDERS, *GIVEN))),
    assumes=(
        "a step is what happens from begin_step to end_advance; nothing else happens meanwhile",
        "every request is servable: normative refuses the others at arrival (LIFE-2)",
        "sums and sets are finite (each law is also run on integers)",
    ),
    canaries={
        "no step ever does anything": lambda: _outline((stuck_for_ever,)).shown("canary", {}),
        "nothing is known of the pool": lambda: scheduling(RELATIONS, GIVEN).shown("canary", {}),
    },
)
def progress() -> Found:
    """A step makes progress, or there is nobody to serve."""
    where = "RUN-20"
    return (
        *followed(where, _nothing_held, "B", HOLDERS),
        *followed(where, _all_free, "", HOLDERS),
        *followed(where, _not_owed, "R", ("UPD-11", "UPD-19")),
        *_outline().shown(where, said(where, Schedule())),
    )
