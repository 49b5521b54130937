"""Follows a text on a finite instance and looks for a state in which an obligation fails, or from
which a path can be gone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.fields import FIELDS
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import Rule
from nullblock.spec.profiles import Semantics
from nullblock.spec.prover.finite.cells import BITS, Cells, FiniteState, word
from nullblock.spec.prover.finite.environment import FiniteEnv, Instance
from nullblock.spec.prover.follower import Enough, Follower
from nullblock.spec.prover.jobs import Job
from nullblock.spec.prover.symbols import Term

INSTANCES = (Instance(2, 3, 4), Instance(3, 4, 4))
"""Where states are looked for, the smallest first."""
UNITS = 30_000_000
"""Z3 resource units for one question; some ten seconds."""
QUESTIONS = 60
"""So many at most are asked of one text: the machine has many paths."""


@dataclass(frozen=True, slots=True)
class Found:
    """A model of a finite instance: the terms of a state, the arguments of the text that runs from
    it, and their values.
    """

    instance: Instance
    env: FiniteEnv
    state: FiniteState
    arguments: tuple[Term, ...]
    model: Any
    rule: Rule | None
    """The rule that the machine fires in this state; None: the text itself runs from it."""


class Seeker(Follower):
    """Asks, wherever the wanted obligation is posed, for a state in which it fails."""

    def __init__(self, instance: Instance, sem: Semantics, priority: bool) -> None:
        super().__init__()
        self.instance, self.sem, self.priority = instance, sem, priority
        self.wanted = ""
        self.found: Found | None = None
        self.questions = 0
        self.facts: list[Term | FiniteState] = []
        """Of a state is meant: that it satisfies every invariant."""
        self.start: FiniteState
        self.current: tuple[FiniteState, tuple[Term, ...]]
        """The state from which the text or the fired rule runs, and its arguments."""
        self.known: dict[tuple[Any, ...], list[Term]] = {}
        self.states = 0

    @staticmethod
    def ite(condition: Any, a: Any, b: Any) -> Term:
        """One of two values."""
        return z3.If(condition, word(a), word(b))

    def seek(self, job: Job, wanted: str) -> Found | None:
        """A state in which the obligation fails, if this instance has one and it is found."""
        self.wanted, self.found, self.questions = wanted, None, 0
        self.follow(job, self.priority)
        return self.found

    # states ----------------------------------------------------------------------------------
    def fresh(self) -> FiniteState:
        """Any state whatever."""
        s = FiniteState()
        s.k = FiniteEnv(self.instance, self.priority, self.sem)
        self.facts, self.states = list(s.k.limits), 0
        for f in FIELDS:
            self.forget(s, f)
        self.start = s.copy()
        self.current = self.start, ()
        return s

    def forget(self, s: FiniteState, field: str) -> None:
        """Let a field be anything."""
        value, limits = s.k.field(field)
        setattr(s, field, value)
        self.facts += limits

    def argument(self, number: int, sort: str) -> Term:
        """Any argument of a text."""
        x = z3.BitVec(f"arg{number}", BITS)
        self.facts += [self.start.k.limit(x, sort)] + ([x != 0] if sort in "BRT" else [])
        s, arguments = self.current
        self.current = s, (*arguments, x)
        return x

    def same(self, was: Any, is_: Any) -> Term:
        """Whether a field's value is what it was; True if nobody wrote it."""
        if isinstance(was, Cells):
            pairs = [(x, is_.cells[at]) for at, x in was.cells.items()]
        else:
            pairs = [(word(was), word(is_))]
        return z3.And(*(a == b for a, b in pairs)) if any(a is not b for a, b in pairs) else True

    def invariants(self, s: FiniteState, wanted: str = "") -> Iterator[tuple[str, Term]]:
        """The invariants of s as terms, or the one that is wanted."""
        for id, holds in INVARIANTS.items():
            if wanted in ("", id):
                self.forks.frozen = True
                value = holds(s)
                self.forks.frozen = False
                yield id, value

    def goals(self, s: FiniteState) -> Iterator[tuple[str, Term]]:
        """The invariants that a rule has to keep: just the one that is asked for."""
        return self.invariants(s, self.wanted or "none of them")

    def settle(self, s: FiniteState) -> None:
        """Assume the invariants of s, once somebody asks."""
        self.states += 1
        place: tuple[Any, ...] = (self.job.name, self.forks.way, self.states)
        if self.states == 1 and self.job.given:
            place = ()  # of every text the same
        new = s.copy()
        self.facts.append((place, new))

    # words -----------------------------------------------------------------------------------
    def fire(self, rule: Rule, s: FiniteState, args: tuple[Any, ...]) -> None:
        """The machine fires a rule."""
        before = self.current
        self.current = s.copy(), args
        super().fire(rule, s, args)
        self.current = before

    def assume(self, fact: Term) -> None:
        """Use `fact` from here on."""
        self.facts.append(word(fact))

    def prove(self, goal: Term, what: str) -> None:
        """Ask for a state in which `goal` fails. Raises Enough with one."""
        if what == self.wanted and not self.forks.again:
            self.ask(z3.Not(word(goal)))

    def ask(self, condition: Term) -> None:
        """Ask for a state. Raises Enough with one, and after too many questions."""
        self.questions += 1
        solver = z3.SolverFor("QF_BV")
        solver.set("rlimit", UNITS)
        solver.set("ctrl_c", False)
        for fact in self.facts:
            solver.add(*self._settled(*fact) if isinstance(fact, tuple) else [fact])
        solver.add(condition)
        if solver.check() == z3.sat:
            s, arguments = self.current
            model = self._plainest(solver, s)
            self.found = Found(self.instance, self.start.k, s, arguments, model, self.calling)
        if self.found is not None or self.questions >= QUESTIONS:
            raise Enough

    def _settled(self, place: tuple[Any, ...], s: FiniteState) -> list[Term]:
        if place not in self.known:
            self.known[place] = [
                *map(word, s.k.room(s)),
                *(word(x) for _, x in self.invariants(s)),
            ]
        return self.known[place]

    def _plainest(self, solver: Any, s: FiniteState) -> Any:
        model = solver.model()
        for wish in s.k.plain(s):
            solver.push()
            solver.add(word(wish))
            if solver.check() == z3.sat:
                model = solver.model()
            else:
                solver.pop()
        return model

    def fired(self, rule: Rule) -> None:
        """The machine has fired a rule: nothing to do."""

    def finished(self) -> None:
        """A path has ended: nothing to do."""

    def unreadable(self, error: Exception) -> None:
        """The text cannot be followed: there is nothing to find."""
