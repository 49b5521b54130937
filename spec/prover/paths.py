"""Every path of one text: `if` on a symbolic condition splits the path in two.

Z3's booleans refuse to be tested; while a text is followed, testing one asks the follower which
way to go.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.kernel import Engines
from nullblock.spec.prover.symbols import Term


class PathEnd(Exception):
    """Nothing is left to show on this path: what follows it is another path."""


class Undecidable(Exception):
    """The text tests a condition where it may not: in an invariant, or in a quantifier."""


class Forks:
    """The decisions taken on the way through a text, depth first: each condition is first true,
    then false.
    """

    def __init__(self) -> None:
        self.decisions: list[bool] = []
        self.at = 0
        self.taken: dict[int, bool] = {}
        self.conditions: list[Term] = []
        self.frozen = False

    def start(self) -> None:
        """Begin a path at the start of the text."""
        self.at = 0
        self.taken = {}
        self.conditions = []

    @property
    def again(self) -> bool:
        """Whether another path has come this way: the next decision was taken before."""
        return self.at < len(self.decisions)

    @property
    def way(self) -> tuple[bool, ...]:
        """The decisions so far."""
        return tuple(self.decisions[: self.at])

    def next_path(self) -> bool:
        """Turn to the next path. False when all have been followed."""
        del self.decisions[self.at :]
        while self.decisions and not self.decisions[-1]:
            self.decisions.pop()
        if not self.decisions:
            return False
        self.decisions[-1] = False
        return True

    def decide(self, condition: Term) -> tuple[bool, Term | None]:
        """Which way this path goes, and what it so assumes: None where that is settled already.

        Raises Undecidable while `frozen`.
        """
        condition = z3.simplify(condition)
        if z3.is_true(condition) or z3.is_false(condition):
            return z3.is_true(condition), None
        denied = z3.is_not(condition)
        atom = condition.arg(0) if denied else condition
        if self.frozen:
            # Whatever this path has decided: the formula is kept for other paths too.
            raise Undecidable(f"an invariant tests {str(condition)[:80]}")
        if atom.get_id() in self.taken:
            return self.taken[atom.get_id()] != denied, None
        if self.at == len(self.decisions):
            self.decisions.append(True)
        way = self.decisions[self.at]
        self.at += 1
        self.taken[atom.get_id()] = way != denied
        self.conditions.append(atom)
        return way, condition if way else z3.Not(condition)


@contextmanager
def attached(prover: Any) -> Iterator[None]:
    """Run texts on terms: the kernel's words and Z3's booleans ask `prover`."""
    before, testing = Engines.prover, z3.BoolRef.__bool__
    Engines.prover = prover
    z3.BoolRef.__bool__ = lambda condition: prover.branch(condition)
    try:
        yield
    finally:
        Engines.prover, z3.BoolRef.__bool__ = before, testing


@contextmanager
def detached() -> Iterator[None]:
    """Run texts on ordinary values, whoever follows one at the moment."""
    before = Engines.prover, Engines.after_rule
    Engines.prover = Engines.after_rule = None
    try:
        yield
    finally:
        Engines.prover, Engines.after_rule = before
