"""What a search finds."""

from collections.abc import Callable
from dataclasses import dataclass

from nullblock.spec.explorer.actions import Action

Progress = Callable[[int, int], None]
"""Called now and then with the states and transitions seen."""


@dataclass(frozen=True, slots=True)
class Counterexample:
    """A shortest way to break a statement."""

    breaks: str
    """Its ID; `guard` or `promise` if the specification contradicts itself."""
    sentence: str
    rule: str | None
    """The rule after which it was broken, where every rule is checked."""
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Lasso(Counterexample):
    """A counterexample that goes on for ever: its last actions lead back to where they began."""

    repeats: int
    """How many actions, counted from the end, make the cycle."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a search has found."""

    scope: str
    states: int
    transitions: int
    depth: int
    """The most actions that a state needs: it is this far from the beginning."""
    seconds: float
    witnesses: frozenset[str]
    missing: frozenset[str]
    """Witnesses that the scope promised and did not reach."""
    fired: frozenset[str]
    """IDs of the rules that fired."""
    counterexample: Counterexample | None
    complete: bool
    """Whether every reachable state was seen."""

    @property
    def passed(self) -> bool:
        """Nothing is broken, everything was seen, and the pass is not vacuous."""
        return self.complete and self.counterexample is None and not self.missing
