"""How a statement that compares two states is shown for any number of rules between them.

A half step begins with one rule and ends with one: `begin_step` and `end_advance`, `begin_update`
and `end_update`. Between them the state is compared with the one before the first. What is true of
that pair from rule to rule is the outline; with the last rule the statement must follow from it.
What happens outside steps has no first and no last rule: there the outline holds at once, and the
statement follows wherever it ends.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.fields import FIELDS
from nullblock.spec.kernel import Rule, State, Value, ensure, require
from nullblock.spec.prover.jobs import INITIAL, Job, claimed
from nullblock.spec.prover.report import Checked
from nullblock.spec.prover.symbols import SymbolicState, Term, TermMap, sort_of
from nullblock.spec.theorems.sums import laws
from nullblock.spec.theorems.theorem import Found, TheoremProver, fired, run

Relation = Callable[[State, State], Value]
"""Of the state before the first rule, and the state now."""
Property = Callable[[State], Value]
UNDER_WAY = "what happens is under way"


def remembered(s: State) -> State:
    """A state of which nothing is known, in the environment of s: what was before."""
    was = SymbolicState()
    was.k = s.k
    for f, x in _past().items():
        setattr(was, f, TermMap(x) if ">" in FIELDS[f] else x)
    return was


@cache
def _past() -> dict[str, Term]:
    """A constant for each field."""
    return {f: z3.Const(f"was.{f}", sort_of(sort)) for f, sort in FIELDS.items()}


@dataclass(frozen=True, slots=True)
class Outline:
    """What is compared with the state before it, from rule to rule."""

    first: Rule | None
    last: Rule | None
    others: tuple[Rule, ...]
    """Rules that do not belong to it."""
    inside: Property
    """Whether a state lies in it."""
    relations: tuple[Relation, ...]
    given: tuple[str, ...]
    """IDs of the invariants that the argument uses."""
    known: tuple[Property, ...] = ()
    """Other properties of every state, shown elsewhere."""

    def texts(
        self, goals: Mapping[str, Relation]
    ) -> Iterator[tuple[str, str, Callable[..., Any]]]:
        """Name, sorts and text of everything there is to show."""
        first, last = self.first, self.last
        yield (first.name if first else "before"), (first.sorts if first else ""), self._begun
        for rule in claimed():
            if rule not in (first, last, *self.others):
                yield rule.name, rule.sorts, self._kept(rule)
        yield (last.name if last else "after"), (last.sorts if last else ""), self._ended(goals)

    def shown(self, where: str, goals: Mapping[str, Relation]) -> Found:
        """Every obligation of the outline, and the goals at its end."""
        follower, found = TheoremProver(self.given), list[Checked]()
        for name, sorts, text in self.texts(goals):
            job = Job(f"{where}: {name}", "rule", text, sorts)
            found += run(follower, job, vacuity=False)
        return tuple(found)

    def _begun(self, s: State, *args: Value) -> None:
        was = s.copy()
        self._assume(s)
        if self.first is not None:
            fired(self.first, s, args)
            ensure(self.inside(s), UNDER_WAY)
        else:
            require(self.inside(s), UNDER_WAY)
        self._hold(was, s)

    def _kept(self, rule: Rule) -> Callable[..., None]:
        def text(s: State, *args: Value) -> None:
            was = self._given(s)
            fired(rule, s, args)
            ensure(self.inside(s), UNDER_WAY)
            self._hold(was, s)

        return text

    def _ended(self, goals: Mapping[str, Relation]) -> Callable[..., None]:
        def text(s: State, *args: Value) -> None:
            was = self._given(s)
            if self.last is not None:
                fired(self.last, s, args)
            for id, goal in goals.items():
                ensure(goal(was, s), id)

        return text

    def _assume(self, s: State) -> None:
        require(laws(), "the laws of sums")
        for holds in self.known:
            require(holds(s), sentence(holds))

    def _given(self, s: State) -> State:
        was = remembered(s)
        self._assume(s)
        require(self.inside(s), UNDER_WAY)
        for relation in self.relations:
            require(relation(was, s), sentence(relation))
        return was

    def _hold(self, was: State, s: State) -> None:
        for relation in self.relations:
            ensure(relation(was, s), sentence(relation))


def sentence(f: Callable[..., Any]) -> str:
    """The first sentence of a docstring."""
    return " ".join((f.__doc__ or f.__name__).split()).split(".")[0]


def kept_by_every_rule(
    where: str,
    properties: tuple[Property, ...],
    given: tuple[str, ...],
    premises: Property = lambda s: True,
) -> Found:
    """The properties hold in the first state, and every rule keeps them: so they are invariants.
    `premises` are axioms that they need.
    """

    def begin(s: State) -> None:
        INITIAL.text(s)
        require(premises(s), "axioms")
        for holds in properties:
            ensure(holds(s), sentence(holds))

    def kept(rule: Rule) -> Callable[..., None]:
        def text(s: State, *args: Value) -> None:
            require(premises(s), "axioms")
            for holds in properties:
                require(holds(s), sentence(holds))
            fired(rule, s, args)
            for holds in properties:
                ensure(holds(s), sentence(holds))

        return text

    follower, found = TheoremProver(given), list[Checked]()
    first = Job(f"{where}: initial", "initial", begin, before=INITIAL.before, given=False)
    found += run(follower, first, vacuity=False)
    for rule in claimed():
        job = Job(f"{where}: {rule.name}", "rule", kept(rule), rule.sorts)
        found += run(follower, job, vacuity=False)
    return tuple(found)


def every_rule(where: str, relations: tuple[Relation, ...], given: tuple[str, ...]) -> Found:
    """Each rule, by itself, relates the state before it to the state after it."""

    def alone(rule: Rule) -> Callable[..., None]:
        def text(s: State, *args: Value) -> None:
            was = s.copy()
            fired(rule, s, args)
            for relation in relations:
                ensure(relation(was, s), sentence(relation))

        return text

    follower, found = TheoremProver(given), list[Checked]()
    for rule in claimed():
        job = Job(f"{where}: {rule.name}", "rule", alone(rule), rule.sorts)
        found += run(follower, job, vacuity=False)
    return tuple(found)
