"""Integers made of Z3 terms that remember what was done with them.

A device computes in 32 or 64 bits and rounds divisions towards zero; here integers have no end and
divisions round down. So every result and every division is written down: a claim about bits is a
claim about all results, and divisions of numbers that are not negative mean the same everywhere.
"""

from dataclasses import dataclass, field
from typing import Any

import z3  # type: ignore[import-untyped]

Term = Any


@dataclass(slots=True)
class Trail:
    """What an expression has computed."""

    results: list[Term] = field(default_factory=list)
    """Of every operation."""
    divisions: list[tuple[Term, Term]] = field(default_factory=list)
    """Dividend and divisor."""
    facts: list[Term] = field(default_factory=list)
    """What quotients and remainders are: true by definition, as long as divisors are positive."""
    _known: dict[tuple[int, int], tuple[Term, Term]] = field(default_factory=dict)

    def divide(self, dividend: Term, divisor: Term) -> tuple[Term, Term]:
        """Quotient and remainder, each pair of operands once: names with the fact that makes them
        what they are, because Z3 has no good way with divisors that are symbols."""
        key = (dividend.get_id(), divisor.get_id())
        if key not in self._known:
            number = len(self._known)
            quotient, rest = z3.Ints(f"quotient!{number} rest!{number}")
            self._known[key] = quotient, rest
            self.divisions.append((dividend, divisor))
            self.facts += [dividend == quotient * divisor + rest, 0 <= rest, rest < divisor]
        return self._known[key]

    def fits(self, bits: int) -> Term:
        """Whether every result is a signed integer of so many bits."""
        most = 1 << (bits - 1)
        return z3.And([z3.And(-most <= result, result < most) for result in self.results])

    def divides_alike(self) -> Term:
        """Whether every division means on a device what it means here."""
        return z3.And([z3.And(n >= 0, d > 0) for n, d in self.divisions])


@dataclass(frozen=True, slots=True)
class Number:
    """An integer, as expressions see it."""

    term: Term
    trail: Trail

    def _other(self, other: "Number | int") -> Term:
        return other.term if isinstance(other, Number) else z3.IntVal(other)

    def _made(self, result: Term) -> "Number":
        self.trail.results.append(result)
        return Number(result, self.trail)

    def __add__(self, other: "Number | int") -> "Number":
        return self._made(self.term + self._other(other))

    def __sub__(self, other: "Number | int") -> "Number":
        return self._made(self.term - self._other(other))

    def __mul__(self, other: "Number | int") -> "Number":
        return self._made(self.term * self._other(other))

    def __floordiv__(self, other: "Number | int") -> "Number":
        return self._made(self.trail.divide(self.term, self._other(other))[0])

    def __mod__(self, other: "Number | int") -> "Number":
        return self._made(self.trail.divide(self.term, self._other(other))[1])
