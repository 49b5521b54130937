"""Sorts, maps and states made of Z3 terms.

A sort is written as in `nullblock.spec.fields.FIELDS`: `B` block, `R` request, `T` table, which is
a request here, where there is one KV-cache group, `I` integer, `H` hash, `{B}` a set of blocks,
`TI>B` a map from tables and integers to blocks. Blocks and requests are uninterpreted: there may
be any number of them.
"""

from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.fields import FIELDS

Term = Any
"""A Z3 expression, or a Python bool or int that the text wrote."""

INT, BOOL = z3.IntSort(), z3.BoolSort()
SORTS: dict[str, Any] = {
    "B": z3.DeclareSort("B"),
    "R": z3.DeclareSort("R"),
    "I": INT,
    "H": INT,
}
SORTS["T"] = SORTS["R"]


def sort_of(text: str) -> Any:
    """The Z3 sort that `text` names."""
    domain, _, range_ = text.rpartition(">")
    to = z3.SetSort(SORTS[range_[1]]) if range_.startswith("{") else SORTS[range_]
    return z3.ArraySort(*[SORTS[d] for d in domain], to) if domain else to


class TermMap:
    """A map of a symbolic state. Writing replaces the term; terms themselves never change."""

    __slots__ = ("term",)

    def __init__(self, term: Term) -> None:
        self.term = term

    def __getitem__(self, key: Any) -> Term:
        return z3.Select(self.term, *key) if isinstance(key, tuple) else z3.Select(self.term, key)

    def __setitem__(self, key: Any, value: Term) -> None:
        keys = key if isinstance(key, tuple) else (key,)
        self.term = z3.Store(self.term, *keys, value)


def term(value: Any) -> Term:
    """The Z3 term of a field's value."""
    match value:
        case TermMap():
            return value.term
        case bool():
            return z3.BoolVal(value)
        case int():
            return z3.IntVal(value)
        case _:
            return value


class SymbolicState:
    """A state whose fields are terms: one attribute a field, and its environment `k`."""

    __slots__ = (*FIELDS, "k")
    k: Any

    def copy(self) -> "SymbolicState":
        """A state that later writes to this one do not change."""
        new = SymbolicState()
        new.k = self.k
        for f in FIELDS:
            value = getattr(self, f)
            setattr(new, f, TermMap(value.term) if isinstance(value, TermMap) else value)
        return new

    def terms(self) -> tuple[Term, ...]:
        """The fields as terms. Their ids identify the state for as long as these are alive."""
        return tuple(term(getattr(self, f)) for f in FIELDS)


def blank(field: str, value: Term) -> TermMap:
    """A map that is `value` everywhere."""
    domain = FIELDS[field].partition(">")[0]
    if len(domain) != 1:
        names = [z3.Const(f"{d.lower()}{n}_blank", SORTS[d]) for n, d in enumerate(domain)]
        return TermMap(z3.Lambda(names, value))
    return TermMap(z3.K(SORTS[domain], value))
