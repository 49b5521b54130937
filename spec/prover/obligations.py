"""One obligation: does a goal follow from hypotheses and axioms? Z3 answers, within a limit that
does not depend on the machine.

An obligation is *proved* only if Z3 refutes its negation. Whatever Z3 cannot decide within its
limit is *open*.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import z3  # type: ignore[import-untyped]

from nullblock.spec.prover.symbols import Term, term

UNIT = 400_000
"""Z3 resource units of a first attempt; a few tenths of a second."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A formula that may be used, and whether a later state's invariants have superseded it."""

    formula: Term
    superseded: bool = False
    name: str = ""
    """The invariant that it is; empty for what else is assumed."""

    @property
    def key(self) -> str:
        """How hints name it."""
        return f"{self.name} before" if self.superseded else self.name


Hypotheses = dict[int, Hypothesis]
"""By the id of the formula."""


Scope = Literal["hint", "now", "all"]
"""Which hypotheses are used: those that proved the like of it before, those that are not
superseded, or all of them.
"""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One call of Z3: with which hypotheses, from which seed, for how long."""

    scope: Scope
    seed: int
    units: float

    def uses(self, h: Hypothesis, hint: frozenset[str]) -> bool:
        """Whether it may use a hypothesis."""
        match self.scope:
            case "hint":
                return not h.name or h.key in hint
            case "now":
                return not h.superseded
            case "all":
                return True


SOON = (Attempt("hint", 0, 1), Attempt("now", 0, 1), Attempt("all", 0, 2))
LATE: tuple[Attempt, ...] = (
    *(Attempt("hint", 7, 4), Attempt("all", 7, 4), Attempt("now", 23, 8)),
    *(Attempt("all", 41, 16), Attempt("all", 3, 32)),
)
GLANCES = (Attempt("now", 0, 0.25), Attempt("all", 0, 0.25))
"""Proofs are found early or by another seed; most take the first attempt."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of an obligation."""

    proved: bool
    asked: bool
    """Whether Z3 was asked: False if the goal is a hypothesis, or follows from the core of an
    earlier proof.
    """
    core: frozenset[str] = frozenset()
    """The invariants that the proof used."""


@dataclass(slots=True)
class Obligations:
    """Decides obligations and remembers, for every goal, which hypotheses a proof needed."""

    axioms: tuple[Term, ...]
    slowest: list[tuple[float, str]] = field(default_factory=list)
    cores: dict[int, list[frozenset[int]]] = field(default_factory=dict)
    refuted: set[tuple[int, frozenset[int]]] = field(default_factory=set)
    alive: list[Any] = field(default_factory=list)
    """Terms whose ids are in use; Z3 gives the id of a dead term to another."""

    def decide(
        self,
        goal: Term,
        hypotheses: Hypotheses,
        name: str,
        hint: frozenset[str] = frozenset(),
        refuted: Callable[[], bool] = lambda: False,
    ) -> Answer:
        """Whether the goal follows. `refuted` is asked before long attempts: whether there is a
        counterexample.
        """
        goal = term(goal)
        ids = frozenset(hypotheses)
        if z3.is_true(goal) or goal.get_id() in ids:
            return Answer(True, False)
        known = self.cores.setdefault(goal.get_id(), [])
        for core in known:
            if core <= ids:
                return Answer(True, False, _names(core, hypotheses))
        if (goal.get_id(), ids) in self.refuted:
            return Answer(False, False)
        self.alive.append((goal, [h.formula for h in hypotheses.values()]))
        began = time.process_time()
        found = self._prove(SOON, goal, hypotheses, hint)
        if found is None and not refuted():
            found = self._prove(LATE, goal, hypotheses, hint)
        took = time.process_time() - began
        self.slowest = sorted([*self.slowest, (took, name)], reverse=True)[:5]
        if found is None:
            self.refuted.add((goal.get_id(), ids))
            return Answer(False, True)
        known.append(found)
        return Answer(True, True, _names(found, hypotheses))

    def contradictory(self, hypotheses: Hypotheses) -> bool:
        """Whether False follows from the hypotheses within two short attempts."""
        self.alive.append([h.formula for h in hypotheses.values()])
        return any(self._attempt(glance, None, hypotheses) is not None for glance in GLANCES)

    def _prove(
        self,
        attempts: tuple[Attempt, ...],
        goal: Term,
        hypotheses: Hypotheses,
        hint: frozenset[str],
    ) -> frozenset[int] | None:
        old = any(h.superseded for h in hypotheses.values())
        for attempt in attempts:
            if attempt.scope == "all" and not old and attempt.seed == 0:
                continue
            core = self._attempt(attempt, goal, hypotheses, hint)
            if core is not None:
                return core
        return None

    def _attempt(
        self,
        attempt: Attempt,
        goal: Term | None,
        hypotheses: Hypotheses,
        hint: frozenset[str] = frozenset(),
    ) -> frozenset[int] | None:
        """The hypotheses that a refutation of the goal's negation used; None without one."""
        solver = z3.Solver()
        solver.set("mbqi", False)
        solver.set("ctrl_c", False)  # Z3 would take Ctrl-C for an answer: unknown
        solver.set("rlimit", int(attempt.units * UNIT))
        solver.set("random_seed", attempt.seed)
        solver.add(*self.axioms)
        for h in hypotheses.values():
            if attempt.uses(h, hint):
                solver.assert_and_track(h.formula, f"h{h.formula.get_id()}")
        if goal is not None:
            solver.add(z3.Not(goal))
        if solver.check() != z3.unsat:
            return None
        return frozenset(int(str(c)[1:]) for c in solver.unsat_core())


def _names(core: frozenset[int], hypotheses: Hypotheses) -> frozenset[str]:
    return frozenset(hypotheses[id].key for id in core if hypotheses[id].name)
