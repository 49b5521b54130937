"""Sums and membership over stretches of a map, which a proof follows from one entry to the next.

Each law is written once, in the words of the kernel, and runs on both environments: the theorems
quantify it, and `tests/spec/test_theorems.py` evaluates the same text on integers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.kernel import Value, both, either, implies
from nullblock.spec.profiles import NORMATIVE, Semantics
from nullblock.spec.prover.environment import SymbolicEnv
from nullblock.spec.prover.symbols import INT, SORTS, Term, TermMap, term

SEQUENCE, MEMBERS = z3.ArraySort(INT, INT), z3.ArraySort(INT, SORTS["R"])
AMOUNTS = z3.ArraySort(SORTS["R"], INT)
TOTAL = z3.Function("total", SEQUENCE, INT, INT, INT)
SUMMED = z3.Function("summed", AMOUNTS, INT)
SOMEBODY = z3.Function("somebody", AMOUNTS, SORTS["R"])
AMONG = z3.Function("among", MEMBERS, INT, INT, SORTS["R"], z3.BoolSort())
SEAT = z3.Function("seat", MEMBERS, INT, INT, SORTS["R"], INT)
TRUTH = z3.Function("truth", SORTS["R"], INT, INT)


class TheoremEnv(SymbolicEnv):
    """The environment of a symbolic state, with the words that only theorems use. It notices
    whether a text asks for the policy.
    """

    def __init__(self, priority: bool, sem: Semantics) -> None:
        super().__init__(priority, sem)
        self.policy_asked = False

    def __getattribute__(self, name: str) -> Any:
        if name == "priority":
            self.policy_asked = True
        return super().__getattribute__(name)

    def total(self, m: TermMap, low: Term, high: Term) -> Term:
        """The sum of m[low], …, m[high - 1]."""
        return TOTAL(m.term, term(low), term(high))

    def summed(self, sort: str, m: TermMap) -> Term:
        """The sum of a map over all requests; all but finitely many are 0."""
        return SUMMED(m.term)

    def among(self, m: TermMap, low: Term, high: Term, x: Term) -> Term:
        """Whether x is one of m[low], …, m[high - 1]."""
        return AMONG(m.term, term(low), term(high), x)

    def truth(self, r: Term, i: Term) -> Term:
        """All that identifies r's i-th block."""
        return TRUTH(r, i)

    def seat(self, m: TermMap, low: Term, high: Term, x: Term) -> Term:
        """Where x stands in that stretch, if it does."""
        return SEAT(m.term, term(low), term(high), x)

    def somebody(self, m: TermMap) -> Term:
        """A request with an amount other than 0, if there is one."""
        return SOMEBODY(m.term)

    def put(self, m: TermMap, at: Term, x: Term) -> TermMap:
        """The map with one entry changed."""
        return TermMap(z3.Store(m.term, at, x))


@dataclass(frozen=True, slots=True)
class Law:
    """A statement about maps and numbers, of the sorts that Z3 quantifies."""

    name: str
    sorts: tuple[Any, ...]
    text: Callable[..., Value]
    triggers: Callable[..., tuple[Any, ...]]


LAWS: tuple[Law, ...] = (
    Law(
        "the sum of nothing is 0",
        (SEQUENCE, INT),
        lambda k, m, i: k.total(m, i, i) == 0,
        lambda k, m, i: (k.total(m, i, i),),
    ),
    Law(
        "one entry more adds what it is",
        (SEQUENCE, INT, INT, INT, INT),
        lambda k, m, i, j, x, n: implies(
            both(i <= j, n == j + 1), k.total(k.put(m, j, x), i, n) == k.total(m, i, j) + x
        ),
        lambda k, m, i, j, x, n: (k.total(k.put(m, j, x), i, n),),
    ),
    Law(
        "a changed amount changes the sum by as much",
        (AMOUNTS, SORTS["R"], INT),
        lambda k, m, r, x: k.summed("R", k.put(m, r, x)) == k.summed("R", m) - m[r] + x,
        lambda k, m, r, x: (k.summed("R", k.put(m, r, x)),),
    ),
    Law(
        "a sum of amounts that is not 0 has one that is not, of the same sign if none is negative",
        (AMOUNTS,),
        lambda k, m: either(
            k.summed("R", m) == 0,
            m[k.somebody(m)] < 0,
            both(m[k.somebody(m)] > 0, k.summed("R", m) >= m[k.somebody(m)]),
        ),
        lambda k, m: (k.summed("R", m),),
    ),
    Law(
        "nobody is among nobody",
        (MEMBERS, INT, SORTS["R"]),
        lambda k, m, i, r: k.among(m, i, i, r) == False,  # noqa: E712  (a term, in the prover)
        lambda k, m, i, r: (k.among(m, i, i, r),),
    ),
    Law(
        "one entry more adds one member",
        (MEMBERS, INT, INT, SORTS["R"], INT, SORTS["R"]),
        lambda k, m, i, j, x, n, r: implies(
            both(i <= j, n == j + 1),
            k.among(k.put(m, j, x), i, n, r) == either(k.among(m, i, j, r), x == r),
        ),
        lambda k, m, i, j, x, n, r: (k.among(k.put(m, j, x), i, n, r),),
    ),
    Law(
        "who is among them stands somewhere",
        (MEMBERS, INT, INT, SORTS["R"]),
        lambda k, m, i, j, r: implies(
            k.among(m, i, j, r),
            both(i <= k.seat(m, i, j, r), k.seat(m, i, j, r) < j, m[k.seat(m, i, j, r)] == r),
        ),
        lambda k, m, i, j, r: (k.among(m, i, j, r),),
    ),
    Law(
        "who stands somewhere is among them",
        (MEMBERS, INT, INT, INT),
        lambda k, m, i, j, n: implies(both(i <= n, n < j), k.among(m, i, j, m[n])),
        lambda k, m, i, j, n: (k.among(m, i, j, m[n]),),
    ),
)


@cache
def laws() -> Term:
    """All of them, for Z3: where a text is followed."""
    k = TheoremEnv(False, NORMATIVE)
    return z3.And(*(_quantified(law, k) for law in LAWS))


def _quantified(law: Law, k: TheoremEnv) -> Term:
    names = [z3.Const(f"law{n}", sort) for n, sort in enumerate(law.sorts)]
    members = [TermMap(x) if z3.is_array(x) else x for x in names]
    (trigger,) = law.triggers(k, *members)
    return z3.ForAll(names, law.text(k, *members), patterns=[trigger])
