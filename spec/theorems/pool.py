"""The pool: what is free and what is held, the order of the free queue, and what allocation uses.

The last theorem is about admissions: like the order of the queue it is said of single rules.
"""

from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.fields import FIELDS, RUNNING, WAIT_PHASE
from nullblock.spec.gate import fits
from nullblock.spec.kernel import State, Value, both, either, ensure, implies, neg, require
from nullblock.spec.machine.blocks import allocate_slots
from nullblock.spec.prover.jobs import claimed
from nullblock.spec.prover.symbols import SORTS, Term, term
from nullblock.spec.rules.pool import adopt, publish, push_new
from nullblock.spec.slots import room
from nullblock.spec.state import in_queue, turn
from nullblock.spec.theorems.outline import Outline, every_rule, kept_by_every_rule
from nullblock.spec.theorems.theorem import Found, followed, theorem

POOL = ("POOL-1", "POOL-3", "QUEUE-4", "QUEUE-5")
LOOKUP = ("ALLOC-2", "ALLOC-3", "HASH-7", "HASH-8", "HASH-2", "LIFE-12", "POOL-3", "RUN-12")


def shared_out(k: Any, a: Value, b: Value) -> Value:
    """Axiom of finite sets: if each block is in just one of two sets, they have together as many
    members as there are blocks.
    """
    one = k.forall("B", lambda x: k.mem(a, x) == neg(k.mem(b, x)))
    return implies(one, k.card(a) + k.card(b) == k.usable)


def _held(s: State) -> Term:
    """The set of the blocks that somebody holds."""
    held = z3.Const("held", z3.SetSort(SORTS["B"]))
    require(s.k.forall("B", lambda b: s.k.mem(held, b) == (s.ref[b] > 0)), "the held blocks")
    return held


def free_and_held(s: State) -> None:
    """Every block is free or held: with the null block they are all there are."""
    held = _held(s)
    require(shared_out(s.k, s.freeset, held), "finite sets")
    ensure(s.nfree + s.k.card(held) + 1 == s.k.usable + 1, "free + held + null = all")


def more_than_free(s: State) -> None:
    """False: there is a block that is neither free nor held."""
    held = _held(s)
    require(shared_out(s.k, s.freeset, held), "finite sets")
    ensure(s.nfree + s.k.card(held) < s.k.usable, "one is missing")


@theorem(
    "THEOREM-3",
    engine="Z3, unbounded",
    rests_on=POOL,
    assumes=(
        "finite sets: two that share the blocks out have as many members as there are blocks",
    ),
    canaries={"a block is missing": lambda: followed("canary", more_than_free, "", POOL)},
)
def nothing_is_lost() -> Found:
    """The free blocks, the held blocks and the null block are all blocks of the pool: no block is
    lost, and none is in both places.
    """
    return followed("THEOREM-3", free_and_held, "", POOL)


def first_in_first_out(was: State, s: State) -> Value:
    """Who stays in the free queue keeps its place, and who joins it stands behind all others."""
    return both(
        s.k.forall(
            "B",
            lambda b: implies(both(in_queue(was, b), in_queue(s, b)), s.stamp[b] == was.stamp[b]),
        ),
        s.k.forall(
            "BB",
            lambda b, c: implies(
                both(neg(in_queue(was, b)), in_queue(s, b), in_queue(was, c), in_queue(s, c)),
                s.stamp[c] < s.stamp[b],
            ),
        ),
    )


def last_in_first_out(was: State, s: State) -> Value:
    """False: who joins the queue stands before all others."""
    return s.k.forall(
        "BB",
        lambda b, c: implies(
            both(neg(in_queue(was, b)), in_queue(s, b), in_queue(was, c), in_queue(s, c)),
            s.stamp[b] < s.stamp[c],
        ),
    )


@theorem(
    "THEOREM-10",
    engine="Z3, unbounded; every rule",
    rests_on=("QUEUE-1", "POOL-3", "QUEUE-10", "POOL-10", "POOL-11", "POOL-12"),
    assumes=("the normative order: freed blocks queue at the back, hashed or not",),
    canaries={
        "last in, first out": lambda: every_rule("canary", (last_in_first_out,), ("QUEUE-1",)),
    },
)
def queue_is_fifo() -> Found:
    """The free queue is first in, first out, with removals: a block keeps its place until it
    leaves, one that joins stands behind all others, and the one taken for new content is the
    first.
    """
    return every_rule("THEOREM-10", (first_in_first_out,), ("QUEUE-1", "POOL-3"))


def admitted_before_preemptions(was: State, s: State) -> Value:
    """Who comes from the waiting queue to run does so in a step that has preempted nobody."""
    return s.k.forall(
        "R",
        lambda r: implies(
            both(was.stage[r] < RUNNING, s.stage[r] == RUNNING),
            both(was.turned == 0, s.turned == 0, was.phase == WAIT_PHASE),
        ),
    )


def preempted_after_admissions(was: State, s: State) -> Value:
    """Who is preempted is so before anybody is admitted."""
    return implies(s.turned > was.turned, was.adm == 0)


def admitted_at_leisure(was: State, s: State) -> Value:
    """False: admissions need a whole budget."""
    return implies(s.adm > was.adm, was.budget == s.k.budget)


@theorem(
    "THEOREM-11",
    engine="Z3, unbounded; every rule",
    rests_on=("PREEMPT-6", "WAIT-5", "WAIT-9"),
    canaries={
        "admissions need a whole budget": lambda: every_rule(
            "canary", (admitted_at_leisure,), ("PREEMPT-6",)
        ),
    },
)
def no_admission_after_preemption() -> Found:
    """The event itself: whenever a request goes from the waiting queue to the running list, the
    step has preempted nobody before, and preempts nobody after.
    """
    relations = (admitted_before_preemptions, preempted_after_admissions)
    return every_rule("THEOREM-11", relations, ("PREEMPT-6",))


def counted_hits_are_pending(s: State) -> Value:
    """The hits counted as free are pending, each at its depth in the chain, and free."""
    return implies(
        s.looking > 0,
        s.k.forall(
            "B",
            lambda b: implies(
                s.k.mem(s.evset, b),
                both(
                    s.ref[b] == 0,
                    s.na < s.k.depth(s.hsh[b]),
                    s.k.depth(s.hsh[b]) <= s.nhit,
                    s.hit[s.k.depth(s.hsh[b]) - 1] == b,
                ),
            ),
        ),
    )


def predicted(s: State) -> Value:
    """Blocks that leave the free queue if the actor gets its slots."""
    r = s.actor
    return room(s, r) - s.tlen[r] - (s.nhit - s.na) + s.nevict


def as_predicted(was: State, s: State) -> Value:
    """What has left the free queue is what is no longer to leave it."""
    return both(
        s.actor == was.actor,
        s.goal == was.goal,
        s.asked == was.asked,
        was.nfree - s.nfree == predicted(was) - predicted(s),
    )


def nothing_is_used(was: State, s: State) -> Value:
    """False: allocation takes no block."""
    return both(as_predicted(was, s), s.nfree == was.nfree)


def done_as_predicted(was: State, s: State) -> Value:
    """Once the table is complete, as many blocks have left as were predicted at first."""
    complete = both(s.na == s.nhit, s.tlen[s.actor] == room(s, s.actor))
    return implies(
        both(complete, either(s.looking == 2, s.nevict == 0)),
        was.nfree - s.nfree == predicted(was),
    )


def unchanged(s: State) -> None:
    """Slots that do not fit change nothing."""
    r, was = s.actor, s.copy()
    require(both(turn(s, r), neg(fits(s, r))), "it asks for slots, and they do not fit")
    given = allocate_slots(s, r)
    ensure(z3.BoolVal(given is False), "it is told so")
    for f in FIELDS:
        ensure(term(getattr(s, f)) == term(getattr(was, f)), f"{f} is as it was")


def _allocating(relation: Any) -> Outline:
    part = (push_new, adopt, publish)
    others = tuple(rule for rule in claimed() if rule not in part)
    asking = lambda s: s.asked != 0  # noqa: E731
    return Outline(None, None, others, asking, (relation,), LOOKUP, (counted_hits_are_pending,))


@theorem(
    "THEOREM-12",
    engine="Z3, unbounded; induction over the rules",
    rests_on=(*LOOKUP, "ALLOC-1", "POOL-10", "POOL-11", "HASH-12"),
    assumes=("allocate_slots fires adopt, push_new and publish, and nothing else (its text)",),
    canaries={
        "allocation takes no block": lambda: _allocating(nothing_is_used).shown("canary", {}),
    },
)
def all_or_nothing() -> Found:
    """Allocation is all or nothing, and uses exactly what it predicted: if the slots do not fit
    nothing changes, and if they do, as many blocks leave the free queue as were found missing.
    """
    where = "THEOREM-12"
    return (
        *kept_by_every_rule(where, (counted_hits_are_pending,), LOOKUP),
        *followed(where, unchanged, "", LOOKUP),
        *_allocating(as_predicted).shown(where, {"used as predicted": done_as_predicted}),
    )
