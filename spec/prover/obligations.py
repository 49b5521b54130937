"""One obligation: does a goal follow from hypotheses and axioms? Z3 answers, within a limit that
does not depend on the machine.

An obligation is *proved* only if Z3 refutes its negation. Whatever Z3 cannot decide within its
limit is *open*.
"""

import time
from dataclasses import dataclass, field
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.prover.symbols import Term, term

UNIT = 400_000
"""Z3 resource units of a first attempt; a few tenths of a second."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A formula that may be used, and whether a later state's invariants have superseded it."""

    formula: Term
    superseded: bool = False


Hypotheses = dict[int, Hypothesis]
"""By the id of the formula."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of Z3: with the superseded hypotheses or without, from which seed, for how long."""

    everything: bool
    seed: int
    units: int


ATTEMPTS = tuple(
    Attempt(everything, seed, units)
    for everything, seed, units in (
        (False, 0, 1),
        (True, 0, 2),
        (True, 7, 4),
        (False, 23, 8),
        (True, 41, 16),
        (True, 3, 32),
    )
)
"""Proofs are found early or by another seed; most take the first attempt."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an obligation."""

    proved: bool
    asked: bool
    """Whether Z3 was asked: False if the goal is a hypothesis, or follows from the core of an
    earlier proof.
    """


@dataclass(slots=True)
class Obligations:
    """Decides obligations and remembers, for every goal, which hypotheses a proof needed."""

    axioms: tuple[Term, ...]
    slowest: list[tuple[float, str]] = field(default_factory=list)
    cores: dict[int, list[frozenset[int]]] = field(default_factory=dict)
    refuted: set[tuple[int, frozenset[int]]] = field(default_factory=set)
    alive: list[Any] = field(default_factory=list)
    """Terms whose ids are in use; Z3 gives the id of a dead term to another."""

    def decide(self, goal: Term, hypotheses: Hypotheses, name: str) -> Answer:
        """Whether the goal follows."""
        goal = term(goal)
        ids = frozenset(hypotheses)
        if z3.is_true(goal) or goal.get_id() in ids:
            return Answer(True, False)
        known = self.cores.setdefault(goal.get_id(), [])
        if any(core <= ids for core in known):
            return Answer(True, False)
        if (goal.get_id(), ids) in self.refuted:
            return Answer(False, False)
        self.alive.append((goal, [h.formula for h in hypotheses.values()]))
        began = time.process_time()
        core = self._prove(goal, hypotheses)
        took = time.process_time() - began
        self.slowest = sorted([*self.slowest, (took, name)], reverse=True)[:5]
        if core is None:
            self.refuted.add((goal.get_id(), ids))
            return Answer(False, True)
        known.append(core)
        return Answer(True, True)

    def contradictory(self, hypotheses: Hypotheses) -> bool:
        """Whether False follows from the hypotheses within one short attempt."""
        self.alive.append([h.formula for h in hypotheses.values()])
        return self._attempt(Attempt(True, 0, 1), None, hypotheses) is not None

    def _prove(self, goal: Term, hypotheses: Hypotheses) -> frozenset[int] | None:
        old = any(h.superseded for h in hypotheses.values())
        for attempt in ATTEMPTS:
            if not attempt.everything and not old and attempt.seed == 0:
                continue
            core = self._attempt(attempt, goal, hypotheses)
            if core is not None:
                return core
        return None

    def _attempt(
        self, attempt: Attempt, goal: Term | None, hypotheses: Hypotheses
    ) -> frozenset[int] | None:
        """The hypotheses that a refutation of the goal's negation used; None without one."""
        solver = z3.Solver()
        solver.set("mbqi", False)
        solver.set("ctrl_c", False)  # Z3 would take Ctrl-C for an answer: unknown
        solver.set("rlimit", attempt.units * UNIT)
        solver.set("random_seed", attempt.seed)
        solver.add(*self.axioms)
        for h in hypotheses.values():
            if attempt.everything or not h.superseded:
                solver.assert_and_track(h.formula, f"h{h.formula.get_id()}")
        if goal is not None:
            solver.add(z3.Not(goal))
        if solver.check() != z3.unsat:
            return None
        return frozenset(int(str(c)[1:]) for c in solver.unsat_core())
