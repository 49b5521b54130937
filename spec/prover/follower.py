"""Follows one text along every path, and says what is assumed and what must be shown on the way.

A rule: assume every invariant and the guards, show every invariant afterwards.
The machine: every guard of every rule it fires must be shown; afterwards the invariants may be
assumed, because they are shown once for the rule. A loop is cut where it starts: show `keep`,
forget the fields in `changes`, and follow two paths: out of the loop, and once through its body,
which must restore `keep`, lower `decreases` and leave all other fields alone.

What a state is made of, and what is done about an obligation, is left to who follows.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.fields import FIELDS
from nullblock.spec.kernel import Rule
from nullblock.spec.prover.jobs import Job, anything
from nullblock.spec.prover.paths import Forks, PathEnd, Undecidable, attached
from nullblock.spec.prover.symbols import SORTS, Term

Thunk = Callable[[], Any]


class Enough(Exception):
    """Whoever follows need not know more."""


class Follower(ABC):
    """The words of the kernel on terms."""

    conj, implies = staticmethod(z3.And), staticmethod(z3.Implies)
    neg, ite = staticmethod(z3.Not), staticmethod(z3.If)

    def __init__(self) -> None:
        self.forks = Forks()
        self.calling: Rule | None = None
        self.job: Job
        self.priority = False

    @property
    def policy(self) -> str:
        """The policy under which the text is followed."""
        return "priority" if self.priority else "fcfs"

    # what is done about it -------------------------------------------------------------------
    @abstractmethod
    def fresh(self) -> Any:
        """Any state whatever, at the start of a path."""

    @abstractmethod
    def forget(self, s: Any, field: str) -> None:
        """Let a field be anything."""

    @abstractmethod
    def same(self, was: Any, is_: Any) -> Term:
        """Whether a field's value is what it was; True if nobody wrote it."""

    @abstractmethod
    def invariants(self, s: Any) -> Iterable[tuple[str, Term]]:
        """The invariants of s as terms."""

    def goals(self, s: Any) -> Iterable[tuple[str, Term]]:
        """The invariants that a rule has to keep."""
        return self.invariants(s)

    @abstractmethod
    def settle(self, s: Any) -> None:
        """Assume the invariants of s."""

    @abstractmethod
    def assume(self, fact: Term) -> None:
        """Use `fact` from here on."""

    @abstractmethod
    def prove(self, goal: Term, what: str) -> None:
        """`goal` has to be shown. Raises Enough."""

    def argument(self, number: int, sort: str) -> Term:
        """Any argument of a text."""
        return z3.Const(f"arg{number}", SORTS[sort])

    @abstractmethod
    def fired(self, rule: Rule) -> None:
        """The machine has fired a rule."""

    @abstractmethod
    def finished(self) -> None:
        """A path has ended."""

    @abstractmethod
    def unreadable(self, error: Exception) -> None:
        """The text cannot be followed."""

    # words -----------------------------------------------------------------------------------
    def require(self, guard: Term, why: str) -> None:
        """A guard: shown where the machine fires the rule, assumed where the rule is proved."""
        if self.calling is not None:
            self.prove(guard, f"{self.calling.name} is enabled: {why}")
        self.assume(guard)

    def branch(self, condition: Term) -> bool:
        """Which way an `if` goes on this path."""
        way, assumed = self.forks.decide(condition)
        if assumed is not None:
            self.assume(assumed)
        return way

    def fire(self, rule: Rule, s: Any, args: tuple[Any, ...]) -> None:
        """The machine fires a rule."""
        self.calling = rule
        rule.body(s, *args)
        self.calling = None
        self.settle(s)
        self.fired(rule)

    def loop(
        self,
        s: Any,
        until: Thunk,
        changes: frozenset[str],
        decreases: Thunk,
        keep: Thunk,
    ) -> Iterator[None]:
        """Cut a loop where it starts."""
        self.prove(keep(), "a loop's invariant holds on entry")
        for f in FIELDS:
            if f in changes:
                self.forget(s, f)
        self.settle(s)
        self.assume(keep())
        if until():
            return
        head, before = s.copy(), decreases()
        yield
        self.prove(keep(), "a loop's invariant holds again")
        self.prove(z3.And(before >= 0, decreases() < before), "a loop's variant falls")
        for f in FIELDS:
            if f not in changes:
                same = self.same(getattr(head, f), getattr(s, f))
                if same is not True:
                    self.prove(same, f"a loop leaves {f} alone")
        raise PathEnd

    # every path ------------------------------------------------------------------------------
    def follow(self, job: Job, priority: bool) -> None:
        """Follow every path of a job under one policy."""
        self.job, self.priority, self.forks = job, priority, Forks()
        with attached(self):
            try:
                while True:
                    self._path(job)
                    self.finished()
                    if not self.forks.next_path():
                        break
            except Enough:
                pass

    def _path(self, job: Job) -> None:
        self.forks.start()
        self.calling = None
        s = self.fresh()
        args = [self.argument(n, sort) for n, sort in enumerate(job.sorts)]
        try:
            if job.given:
                self.settle(s)
            self.assume(job.before(s, *args))
            job.text(s, *args)
            if job.after is not anything:
                self.prove(job.after(s, *args), "what holds after it is brought about")
            if job.keeps:
                for id, goal in self.goals(s):
                    self.prove(goal, id)
        except PathEnd:
            pass
        except (TypeError, z3.Z3Exception, Undecidable) as error:
            self.unreadable(error)
