"""Sequences of nodes by place, and what it means that links follow one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import z3  # type: ignore[import-untyped]

from nullblock.spec.prover.symbols import Term

NODE, INT = z3.DeclareSort("Node"), z3.IntSort()
HEAD, TAIL, NONE = z3.Consts("fake_head fake_tail none", NODE)
LINKS = z3.ArraySort(NODE, NODE)
X = z3.Const("x_any", NODE)
Gap = Literal["front", "back"]


@dataclass(frozen=True, slots=True)
class Order:
    """A sequence of nodes: those at the places lo, …, hi - 1."""

    at: Callable[[Term], Term]
    place: Callable[[Term], Term]
    has: Callable[[Term], Term]
    """Whether a node is a member."""
    lo: Term
    hi: Term

    def node(self, i: Term) -> Term:
        """The node at a place; before the first the fake head, behind the last the fake tail."""
        return z3.If(i < self.lo, HEAD, z3.If(i >= self.hi, TAIL, self.at(i)))

    def sound(self) -> Term:
        """Places and members correspond, and no sentinel is a member."""
        i = z3.Int("i_any")
        inside = z3.And(self.lo <= i, i < self.hi)
        there = z3.And(self.place(self.at(i)) == i, self.has(self.at(i)))
        p = self.place(X)
        here = z3.And(self.lo <= p, p < self.hi, self.at(p) == X)
        return z3.And(
            self.lo <= self.hi,
            _forall(i, z3.Implies(inside, there), self.at(i)),
            _forall(X, z3.Implies(self.has(X), here), self.has(X)),
            *(z3.Not(self.has(x)) for x in (HEAD, TAIL, NONE)),
        )

    def without(self, x: Term) -> "Order":
        """The sequence after x has left it."""
        p = self.place(x)
        return Order(
            lambda i: z3.If(i < p, self.at(i), self.at(i + 1)),
            lambda y: z3.If(self.place(y) > p, self.place(y) - 1, self.place(y)),
            lambda y: z3.And(self.has(y), y != x),
            self.lo,
            self.hi - 1,
        )

    def dropped(self, n: Term) -> "Order":
        """The sequence without its first n members."""

        def keeps(y: Term) -> Term:
            return z3.And(self.has(y), self.place(y) >= self.lo + n)

        return replace(self, lo=self.lo + n, has=keeps)

    def followed(self, new: "Order", n: Term) -> "Order":
        """The sequence with the first n of `new`, whose places begin at 0, at its back."""

        def joins(y: Term) -> Term:
            return z3.And(new.has(y), new.place(y) < n)

        return Order(
            lambda i: z3.If(i < self.hi, self.at(i), new.at(i - self.hi)),
            lambda y: z3.If(joins(y), self.hi + new.place(y), self.place(y)),
            lambda y: z3.Or(self.has(y), joins(y)),
            self.lo,
            self.hi + n,
        )

    def preceded(self, new: "Order", n: Term) -> "Order":
        """The sequence with the last n of `new` at its front."""
        start = self.lo - new.hi

        def joins(y: Term) -> Term:
            return z3.And(new.has(y), new.place(y) >= new.hi - n)

        return Order(
            lambda i: z3.If(i >= self.lo, self.at(i), new.at(i - start)),
            lambda y: z3.If(joins(y), start + new.place(y), self.place(y)),
            lambda y: z3.Or(self.has(y), joins(y)),
            self.lo - n,
            self.hi,
        )


def _forall(x: Term, body: Term, trigger: Term) -> Term:
    """A quantifier that is looked at where a term like `trigger` stands, if that is one."""
    plain = z3.is_app(trigger) and trigger.decl().kind() == z3.Z3_OP_UNINTERPRETED
    return z3.ForAll([x], body, patterns=[trigger] if plain else [])


def order(name: str) -> Order:
    """A sequence of which nothing is known."""
    at, place = z3.Function(f"{name}_at", INT, NODE), z3.Function(f"{name}_place", NODE, INT)
    has = z3.Function(f"{name}_has", NODE, z3.BoolSort())
    return Order(at, place, has, z3.Int(f"{name}_lo"), z3.Int(f"{name}_hi"))


@dataclass(slots=True)
class Heap:
    """The links and the counter of a queue."""

    next: Term
    prev: Term
    count: Term

    @classmethod
    def of(cls, name: str) -> "Heap":
        """Links of which nothing is known."""
        return cls(
            z3.Const(f"next_{name}", LINKS),
            z3.Const(f"prev_{name}", LINKS),
            z3.Int(f"count_{name}"),
        )


def linked(heap: Heap, q: Order, gap: Gap | None = None) -> dict[str, Term]:
    """The links follow the sequence; while a loop has the front or the back in hand, all but the
    two links across that gap.
    """
    place, empty = q.place(X), q.lo == q.hi
    at_back = place == q.hi - 1 if gap == "back" else z3.BoolVal(False)
    at_front = place == q.lo if gap == "front" else z3.BoolVal(False)
    forward = z3.Implies(z3.And(q.has(X), z3.Not(at_back)), heap.next[X] == q.node(place + 1))
    backward = z3.Implies(z3.And(q.has(X), z3.Not(at_front)), heap.prev[X] == q.node(place - 1))
    out = z3.And(z3.Not(q.has(X)), X != HEAD, X != TAIL)
    nothing = z3.And(heap.next[X] == NONE, heap.prev[X] == NONE)
    plain = z3.is_const(heap.next) and z3.is_const(heap.prev)
    ahead, behind = ([heap.next[X]], [heap.prev[X]]) if plain else ([], [])
    quantified = {
        "the link to the next block": z3.ForAll([X], forward, patterns=ahead),
        "the link to the block before": z3.ForAll([X], backward, patterns=behind),
        "who is not queued has no links": z3.ForAll(
            [X], z3.Implies(out, nothing), patterns=ahead + behind
        ),
        "the sentinels end the queue": z3.And(heap.prev[HEAD] == NONE, heap.next[TAIL] == NONE),
    }
    if gap != "front":
        first = heap.next[HEAD] == q.node(q.lo)
        quantified["the first block"] = z3.Or(empty, first) if gap else first
    if gap != "back":
        last = heap.prev[TAIL] == q.node(q.hi - 1)
        quantified["the last block"] = z3.Or(empty, last) if gap else last
    if gap is None:
        quantified["the count"] = heap.count == q.hi - q.lo
    return quantified
