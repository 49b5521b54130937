"""References along a chain: a hash has at least as many as the hashes that follow it, together.

Every holder of a block holds, in its own table at the place before, a block with the hash before;
and no request holds two blocks that follow one and the same hash. So each reference to a child is
matched by one to a parent, and no two by the same. The rest is counting.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import z3  # type: ignore[import-untyped]

from nullblock.spec.kernel import State, Value, both, ensure, implies, neg, require
from nullblock.spec.prover.symbols import INT, SORTS, Term
from nullblock.spec.theorems.chain import IDEAL, UNTOUCHED, parent_is_held
from nullblock.spec.theorems.theorem import Found, followed, theorem

HOLDERS = ("POOL-2", "TABLE-1", "TABLE-2", "TABLE-3", "TABLE-4", "TABLE-5", "HASH-2")
Test = Callable[[Value], Value]


def follows(s: State, b: Value, h: Value) -> Value:
    """Whether b is cached and the hash before its own is h."""
    return both(s.hsh[b] != s.k.NOHASH, s.k.par(s.hsh[b]) == h)


def before(s: State, r: Value, b: Value) -> Value:
    """The block before b in r's table."""
    return s.tab[r, s.pos[r, b] - 1]


def holder_holds_parent(s: State, r: Value, b: Value) -> None:
    """Whoever holds a block holds, at the place before, one with the hash before."""
    h = s.k.par(s.hsh[b])
    require(s.evicted == 0, "no hash was evicted from outside")
    require(both(s.pos[r, b] >= 0, s.hsh[b] != s.k.NOHASH, h != s.k.ROOT), "a holder of a child")
    c = before(s, r, b)
    ensure(both(s.hsh[c] == h, s.pos[r, c] >= 0, s.k.mem(s.own[c], r)), "it holds the parent too")


def one_child(s: State, r: Value, b: Value, c: Value) -> None:
    """No request holds two blocks that follow one hash, nor two with one hash."""
    require(both(s.pos[r, b] >= 0, s.pos[r, c] >= 0, s.hsh[b] != s.k.NOHASH), "it holds both")
    require(follows(s, c, s.k.par(s.hsh[b])), "they follow one hash")
    ensure(b == c, "they are one block")


def one_of_a_hash(s: State, r: Value, b: Value, c: Value) -> None:
    """No request holds two blocks with one hash."""
    require(both(s.pos[r, b] >= 0, s.pos[r, c] >= 0, s.hsh[b] != s.k.NOHASH), "it holds both")
    require(s.hsh[b] == s.hsh[c], "they have one hash")
    ensure(b == c, "they are one block")


def counted_together(k: Any, a: Value, b: Value, union: Value) -> Value:
    """Axiom of finite sets: those of two sets that have no member in common add up."""
    apart = k.forall("R", lambda r: neg(both(k.mem(a, r), k.mem(b, r))))
    return implies(apart, k.card(union) == k.card(a) + k.card(b))


def no_fewer(k: Any, a: Value, b: Value) -> Value:
    """Axiom of finite sets: a set has no more members than one that contains it."""
    inside = k.forall("R", lambda r: implies(k.mem(a, r), k.mem(b, r)))
    return implies(inside, k.card(a) <= k.card(b))


@dataclass(frozen=True, slots=True)
class Count:
    """What is counted over the blocks listed so far: the references to those that pass a test,
    and who holds one of them.
    """

    name: str
    total: Term
    members: Term
    witness: Term
    passes: Test

    @classmethod
    def of(cls, name: str, passes: Test) -> "Count":
        """Symbols for a test: sum, set and witness after the first k blocks of the list."""
        members = z3.ArraySort(INT, z3.SetSort(SORTS["R"]))
        return cls(
            name,
            z3.Array(f"total_{name}", INT, INT),
            z3.Const(f"members_{name}", members),
            z3.Function(f"witness_{name}", SORTS["R"], INT),
            passes,
        )

    def held(self, s: State, k: Term) -> Term:
        """The induction hypothesis after k blocks: the references are as many as the holders, and
        these are just the holders of a listed block that passes.
        """
        r, j = z3.Const("r_held", SORTS["R"]), z3.Int("j_held")
        listed, at = LIST, self.witness(r)
        inside = z3.Select(self.members[k], r)
        found = both(0 <= at, at < k, self.passes(listed(at)), z3.Select(s.own[listed(at)], r))
        every = implies(
            both(0 <= j, j < k, self.passes(listed(j)), z3.Select(s.own[listed(j)], r)), inside
        )
        return z3.And(
            self.total[k] == s.k.card(self.members[k]),
            z3.ForAll([r], z3.Implies(inside, found), patterns=[inside]),
            z3.ForAll([r, j], every, patterns=[z3.Select(s.own[listed(j)], r)]),
        )


LIST = z3.Function("listed", INT, SORTS["B"])
"""The blocks of the pool, one after the other."""
PLACE = z3.Function("listed_at", SORTS["B"], INT)
LENGTH = z3.Int("num_listed")


def listed_once() -> Term:
    """Every block stands in the list, and once."""
    b, j = z3.Const("b_listed", SORTS["B"]), z3.Int("j_listed")
    there = z3.And(0 <= PLACE(b), PLACE(b) < LENGTH, LIST(PLACE(b)) == b)
    return z3.And(
        z3.ForAll([b], there, patterns=[PLACE(b)]),
        z3.ForAll([j], PLACE(LIST(j)) == j, patterns=[LIST(j)]),
    )


def _begin(s: State, count: Count) -> None:
    require(count.total[0] == 0, "the sum over no blocks")
    require(count.members[0] == s.k.empty("R"), "the holders of none")
    ensure(count.held(s, z3.IntVal(0)), f"{count.name}: no blocks")


def _extend(s: State, count: Count, k: Term, apart: Test) -> None:
    """One block more. `apart`: what is known of blocks that both pass."""
    b = LIST(k)
    require(listed_once(), "the list")
    require(count.held(s, k), "the first k blocks are counted")
    require(k >= 0, "k is a number of blocks")
    require(apart(b), "nobody holds two that pass")
    taken = count.passes(b)
    union = z3.SetUnion(count.members[k], s.own[b])
    r = z3.Const("r_next", SORTS["R"])
    seat = z3.Function(f"next_{count.witness.name()}", SORTS["R"], INT)
    was = z3.Select(count.members[k], r)
    require(z3.ForAll([r], seat(r) == z3.If(was, count.witness(r), k)), "a holder's witness")
    require(count.total[k + 1] == count.total[k] + z3.If(taken, s.ref[b], 0), "the sum")
    require(count.members[k + 1] == z3.If(taken, union, count.members[k]), "its holders")
    require(counted_together(s.k, count.members[k], s.own[b], union), "an axiom of finite sets")
    more = Count(count.name, count.total, count.members, seat, count.passes)
    ensure(more.held(s, k + 1), f"{count.name}: one block more")


def _apart(s: State, passes: Test) -> Test:
    """Nobody holds two blocks that pass: `one_child` or `one_of_a_hash`, for all blocks."""

    def of(b: Value) -> Value:
        return s.k.forall(
            "RB",
            lambda r, c: implies(
                both(passes(b), passes(c), s.k.mem(s.own[b], r), s.k.mem(s.own[c], r)), b == c
            ),
        )

    return of


def counts(s: State, h: Value) -> tuple[Count, Count]:
    """What is counted for a hash: the blocks that carry it, and those that follow it."""
    return (
        Count.of("parents", lambda b: s.hsh[b] == h),
        Count.of("children", lambda b: follows(s, b, h)),
    )


def counting(s: State, h: Value, k: Value) -> None:
    """The references to the blocks that pass a test are as many as those who hold one of them, if
    nobody holds two.
    """
    for count in counts(s, h):
        _begin(s, count)
        _extend(s, count, k, _apart(s, count.passes))


def counting_twice(s: State, h: Value, k: Value) -> None:
    """False: who holds two blocks that pass is counted once, and referred to twice."""
    for count in counts(s, h):
        _extend(s, count, k, lambda b: True)


def apart(s: State, h: Value) -> None:
    """Of the blocks that carry a hash, and of those that follow it, nobody holds two."""
    require(s.k.valid(h), "a chain hash")
    for count in counts(s, h):
        ensure(
            s.k.forall(
                "RBB",
                lambda r, b, c, passes=count.passes: implies(
                    both(passes(b), passes(c), s.k.mem(s.own[b], r), s.k.mem(s.own[c], r)),
                    b == c,
                ),
            ),
            f"{count.name}: nobody holds two",
        )


def conclusion(s: State, h: Value) -> None:
    """All blocks counted, those who hold a child are among those who hold a parent."""
    require(both(s.evicted == 0, s.k.valid(h)), "a chain hash, and none evicted from outside")
    parents, children = counts(s, h)
    require(listed_once(), "the list")
    require(both(parents.held(s, LENGTH), children.held(s, LENGTH)), "all blocks are counted")
    r = z3.Const("r_some", SORTS["R"])
    child = LIST(children.witness(r))
    mine = before(s, r, child)
    inside = z3.Select(children.members[LENGTH], r)
    ensure(
        implies(
            inside, both(s.hsh[mine] == h, s.k.mem(s.own[mine], r), LIST(PLACE(mine)) == mine)
        ),
        "who holds a child holds a parent",
    )
    ensure(
        implies(inside, z3.Select(parents.members[LENGTH], r)),
        "who holds a child is counted with the parents",
    )
    every = z3.ForAll([r], implies(inside, z3.Select(parents.members[LENGTH], r)))
    require(every, "that was any request")
    require(no_fewer(s.k, children.members[LENGTH], parents.members[LENGTH]), "finite sets")
    ensure(parents.total[LENGTH] >= children.total[LENGTH], "no fewer references to the parents")


def references(s: State, h: Value) -> tuple[int, int]:
    """On a concrete state: the references to the blocks that carry h, and to those that follow
    it.
    """
    blocks = s.k.domain("B")
    return (
        sum(s.ref[b] for b in blocks if s.hsh[b] == h),
        sum(s.ref[b] for b in blocks if follows(s, b, h)),
    )


def outnumbered(s: State) -> str | None:
    """A chain hash with fewer references than what follows it; None: there is none."""
    for h in sorted({s.k.par(x) for x in s.hsh.values() if x is not None} - {s.k.ROOT}):
        parents, children = references(s, h)
        if parents < children:
            return f"chain {h}: {parents} references, and {children} to what follows it"
    return None


def holder_holds_parent_ever(s: State, r: Value, b: Value) -> None:
    """False: a parent's hash may have been evicted from outside."""
    h = s.k.par(s.hsh[b])
    require(both(s.pos[r, b] >= 0, s.hsh[b] != s.k.NOHASH, h != s.k.ROOT), "a holder of a child")
    ensure(s.hsh[before(s, r, b)] == h, "it holds the parent too")


@theorem(
    "THEOREM-5",
    engine="Z3, unbounded; induction over the blocks of the pool",
    rests_on=HOLDERS,
    assumes=(
        IDEAL,
        UNTOUCHED,
        "finite sets: disjoint ones add up, a subset has no more members",
        "induction over the natural numbers",
    ),
    canaries={
        "evictions from outside are allowed": lambda: followed(
            "canary", holder_holds_parent_ever, "RB", HOLDERS
        ),
        "block by block instead of hash by hash": lambda: followed(
            "canary", parent_is_held, "B", (*HOLDERS, "HASH-4")
        ),
        "a request may hold two children": lambda: followed(
            "canary", counting_twice, "HI", ("POOL-2",)
        ),
        "tables hold what they like": lambda: followed("canary", apart, "H", ("HASH-2",)),
    },
)
def parents_have_references() -> Found:
    """The blocks of a chain hash have together at least as many references as all the blocks that
    follow it, between any two rules.
    """
    where = "THEOREM-5"
    return (
        *followed(where, holder_holds_parent, "RB", HOLDERS),
        *followed(where, one_child, "RBB", HOLDERS),
        *followed(where, one_of_a_hash, "RBB", HOLDERS),
        *followed(where, apart, "H", HOLDERS),
        *followed(where, counting, "HI", ("POOL-2",)),
        *followed(where, conclusion, "H", HOLDERS),
    )
