"""What is proved is not proved of nothing: every path of a rule has a state from which it is gone.

The state is concrete: the ordinary invariants hold in it, and the ordinary rule fires.
"""

import linecache
import sys
from dataclasses import dataclass
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.invariants import invariants
from nullblock.spec.kernel import CONFUSED, RULES, Broken, Disabled
from nullblock.spec.profiles import Semantics
from nullblock.spec.prover.finite.cells import word
from nullblock.spec.prover.finite.decode import Decoder
from nullblock.spec.prover.finite.environment import Instance
from nullblock.spec.prover.finite.search import INSTANCES, Found, Seeker
from nullblock.spec.prover.jobs import Job
from nullblock.spec.prover.paths import detached
from nullblock.spec.prover.symbols import Term

CONFLICTS = 200_000
"""At which the search for one state is given up."""
RULES_AND_READINGS = ("/spec/rules/", "/spec/machine/", "/spec/state.py", "/spec/flight.py")


@dataclass(frozen=True, slots=True)
class Path:
    """One way through a rule: what each `if` on it decided."""

    rule: str
    policy: str
    ways: tuple[str, ...]
    witness: bool
    """Whether a state was found from which it is gone, and the rule was seen to fire there."""
    because: tuple[str, ...] = ()
    """For a path that cannot be gone in the instances: guards, decisions and invariants that
    contradict each other.
    """

    def __str__(self) -> str:
        return f"{self.rule} ({self.policy}): {'; '.join(self.ways) or 'the only path'}"


class Witnesses(Seeker):
    """Follows a rule and asks at the end of every path for a state from which it is gone."""

    def __init__(self, instance: Instance, sem: Semantics, priority: bool) -> None:
        super().__init__(instance, sem, priority)
        self.paths: dict[tuple[str, ...], Path] = {}
        self.ways: list[str] = []
        self.labels: dict[int, str] = {}
        """By the index of a fact: the guard or decision that it is."""
        self.common = 0
        """So many facts come first on every path of every rule."""
        self.base: Any = None

    def of(self, job: Job) -> list[Path]:
        """Every path of a rule."""
        self.paths = {}
        self.follow(job, self.priority)
        return list(self.paths.values())

    def fresh(self) -> Any:
        """Any state whatever."""
        self.ways, self.labels = [], {}
        s = super().fresh()
        self.common = len(self.facts)
        return s

    def prove(self, goal: Term, what: str) -> None:
        """Nothing is to be shown here."""

    def require(self, guard: Term, why: str) -> None:
        """A guard."""
        self.labels[len(self.facts)] = f"guard: {why}"
        super().require(guard, why)

    def branch(self, condition: Term) -> bool:
        """Which way an `if` goes on this path."""
        at = len(self.facts)
        way = super().branch(condition)
        said = f"{_line()} {'yes' if way else 'no'}"
        self.labels[at] = said
        self.ways.append(said)
        return way

    def finished(self) -> None:
        """A path has ended: can it be gone?"""
        found, because = self.reached()
        ways = tuple(self.ways)
        seen = found is not None and self._seen(found)
        self.paths[ways] = Path(self.job.name, self.policy, ways, seen, because)

    def reached(self) -> tuple[Found | None, tuple[str, ...]]:
        """A state at the start of this path; or what contradicts it."""
        solver = self._base()
        solver.push()
        marks = []
        for n in range(self.common, len(self.facts)):
            if isinstance(self.facts[n], tuple):
                continue  # every invariant: in the base
            fact = word(self.facts[n])
            if n in self.labels:
                marks.append(z3.Bool(f"f{n}"))
                fact = z3.Implies(marks[-1], fact)
            solver.add(fact)
        answer = solver.check(*marks)
        found: Found | None = None
        because: tuple[str, ...] = ("nothing was found within the limit",)
        if answer == z3.sat:
            s, arguments = self.current
            found = Found(self.instance, self.start.k, s, arguments, solver.model(), None)
        elif answer == z3.unsat:
            core = sorted(int(str(c)[1:]) for c in solver.unsat_core())
            because = tuple(dict.fromkeys(self.labels[n] for n in core))
        solver.pop()
        return found, () if found else because

    def _base(self) -> Any:
        """A solver that knows every state with the invariants, of every path the same."""
        if self.base is None:
            self.base = z3.SolverFor("QF_FD")
            self.base.set("max_conflicts", CONFLICTS)
            self.base.add(*self.facts[: self.common], *self._settled((), self.start))
        return self.base

    def _seen(self, found: Found) -> bool:
        """Whether the concrete rule fires in the state, and every invariant holds there."""
        with detached():
            decoder, rule = Decoder(found), RULES[self.job.name]
            s = decoder.state(found.state)
            if not all(invariants(s).values()):
                return False
            try:
                rule.body(s, *decoder.arguments(rule.sorts))
            except (Disabled, Broken, *CONFUSED):
                return False
        return True


def _line() -> str:
    """The line of the text that tests a condition."""
    frame = sys._getframe()
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        if any(part in name for part in RULES_AND_READINGS):
            return linecache.getline(name, frame.f_lineno).strip()
        frame = frame.f_back
    return "?"


def paths(job: Job, sem: Semantics, priority: bool, kept: dict[Any, Witnesses]) -> list[Path]:
    """Every path of a rule, those that have no state in one instance looked for in the next."""
    found: list[Path] = []
    for instance in INSTANCES:
        key = (instance, priority)
        if key not in kept:
            kept[key] = Witnesses(instance, sem, priority)
        found = kept[key].of(job)
        if all(path.witness for path in found):
            break
    return found
