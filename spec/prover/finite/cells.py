"""Terms of a finite instance: every value is a word of a few bits, every map a list of cells.

Blocks and requests are numbered from 1, 0 is nobody; an integer is itself; a hash is -1 (none), 0
(the root) or the number of a chain; a set is the word of its members' bits.
"""

from itertools import product
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.fields import FIELDS
from nullblock.spec.prover.symbols import Term

BITS = 7
WORD = z3.BitVecSort(BITS)
LOWEST, HIGHEST = -8, 20
"""The numbers of a state. What a rule adds to them still fits a word."""


def word(value: Any) -> Term:
    """A value as a term: of an integer its word, of a truth value itself."""
    match value:
        case bool():
            return z3.BoolVal(value)
        case int():
            return z3.BitVecVal(value, BITS)
        case _:
            return value


def absent(field: str) -> int:
    """What a map of a concrete state says of a key that it does not have."""
    return -1 if field in ("hsh", "pos", "entry") else 0


class Cells:
    """A map: a term for every key of a small domain. A write replaces all of them."""

    __slots__ = ("cells", "default")

    def __init__(self, cells: dict[tuple[int, ...], Term], default: int) -> None:
        self.cells, self.default = cells, default

    def copy(self) -> "Cells":
        """A map that later writes to this one do not change."""
        return Cells(dict(self.cells), self.default)

    def __getitem__(self, key: Any) -> Term:
        keys = key if isinstance(key, tuple) else (key,)
        fixed = tuple(map(number, keys))
        if None not in fixed:
            return self.cells.get(fixed, word(self.default))  # type: ignore[arg-type]
        found = word(self.default)
        for at, cell in self.cells.items():
            found = z3.If(matches(keys, fixed, at), cell, found)
        return found

    def __setitem__(self, key: Any, value: Term) -> None:
        keys = key if isinstance(key, tuple) else (key,)
        fixed = tuple(map(number, keys))
        value = word(value)
        for at, cell in self.cells.items():
            self.cells[at] = choose(matches(keys, fixed, at), value, cell)


def number(value: Any) -> int | None:
    """The integer that a term is written as, if it is."""
    if isinstance(value, int):
        return value
    return value.as_signed_long() if z3.is_bv_value(value) else None


def matches(keys: tuple[Any, ...], fixed: tuple[int | None, ...], at: tuple[int, ...]) -> Term:
    """Whether symbolic keys are these."""
    if any(n is not None and n != a for n, a in zip(fixed, at, strict=True)):
        return z3.BoolVal(False)
    open_ = [k == a for k, n, a in zip(keys, fixed, at, strict=True) if n is None]
    return z3.And(*open_) if open_ else z3.BoolVal(True)


def choose(condition: Term, a: Term, b: Term) -> Term:
    """`a` if the condition holds, else `b`; decided now where it can be."""
    if z3.is_true(condition):
        return a
    return b if z3.is_false(condition) else z3.If(condition, a, b)


class FiniteState:
    """A state whose fields are words and cells, and its environment `k`."""

    __slots__ = (*FIELDS, "k")
    k: Any

    def copy(self) -> "FiniteState":
        """A state that later writes to this one do not change."""
        new = FiniteState()
        new.k = self.k
        for f in FIELDS:
            value = getattr(self, f)
            setattr(new, f, value.copy() if isinstance(value, Cells) else value)
        return new


def keys(domain: str, members: dict[str, range]) -> list[tuple[int, ...]]:
    """Every key of a map with this domain."""
    return list(product(*(members[sort] for sort in domain)))
