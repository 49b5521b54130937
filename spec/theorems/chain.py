"""The hash chain: what a miss says of later blocks, and what an equal hash says of a prefix."""

import z3  # type: ignore[import-untyped]

from nullblock.spec.kernel import State, Value, both, ensure, ite, neg, require
from nullblock.spec.prover.symbols import Term
from nullblock.spec.state import is_hit
from nullblock.spec.theorems.theorem import Found, Text, entailed, followed, theorem

HOLDING = ("POOL-2", "TABLE-1", "TABLE-2", "TABLE-3", "TABLE-4", "TABLE-5")
CHAIN = (*HOLDING, "POOL-1", "HASH-2", "HASH-4")
IDEAL = "equal chain hashes stand for equal prefixes (THEOREM-4 says when), and ROOT is none"
UNTOUCHED = "no hash was evicted from outside since the last reset (HASH-13)"
FULL = "full attention: a request holds all its blocks from the first on"


def parent(s: State, b: Value) -> Value:
    """A block that carries the hash before b's: of a block in use, the one before it in the table
    of a holder; of a free one, the one before it in the table that released it last.
    """
    r = s.k.some(s.own[b])
    return ite(s.ref[b] == 0, s.pw[b], s.tab[r, s.pos[r, b] - 1])


def has_parent(s: State, b: Value) -> Value:
    """Whether b is cached, and no chain begins with it."""
    return both(s.hsh[b] != s.k.NOHASH, s.k.par(s.hsh[b]) != s.k.ROOT)


def no_orphan(s: State, b: Value) -> None:
    """Every cached block has its parent's hash cached."""
    require(s.evicted == 0, "no hash was evicted from outside")
    require(has_parent(s, b), "the block is cached and not the first of its chain")
    ensure(s.hsh[parent(s, b)] == s.k.par(s.hsh[b]), "its parent's hash is cached")


def no_orphan_ever(s: State, b: Value) -> None:
    """False: evictions from outside make orphans."""
    require(has_parent(s, b), "the block is cached and not the first of its chain")
    ensure(s.hsh[parent(s, b)] == s.k.par(s.hsh[b]), "its parent's hash is cached")


def parent_is_held(s: State, b: Value) -> None:
    """False: a parent need not be held by as many as its child; there may be two of it."""
    require(s.evicted == 0, "no hash was evicted from outside")
    require(both(has_parent(s, b), s.ref[b] > 0), "a block in use that is not the first")
    ensure(s.ref[parent(s, b)] >= s.ref[b], "its parent is held by as many")


def hit_before(s: State, r: Value, j: Value) -> None:
    """If a block of a request is cached, so is the one before it."""
    require(both(s.evicted == 0, j > 0), "no hash was evicted, and it is not the first block")
    b = s.k.first("B", lambda c: s.hsh[c] == s.k.want(r, j), lambda c: s.hstamp[c])
    require(is_hit(s, s.k.want(r, j)), "the block is cached")
    no_orphan(s, b)
    ensure(is_hit(s, s.k.want(r, j - 1)), "the block before it is cached")


def _induction(skip: int = 0) -> Found:
    """From one block to all that follow, by induction over the distance n: if block j of a request
    is cached, so is block j - n.
    """
    hit = z3.Function("hit", z3.IntSort(), z3.BoolSort())
    j, n, i = z3.Ints("j n i")
    step = z3.ForAll([j], z3.Implies(z3.And(j > skip, hit(j)), hit(j - 1)), patterns=[hit(j)])

    def claim(n: Term) -> Term:
        there = z3.And(j - n >= 0, hit(j))
        return z3.ForAll([j], z3.Implies(there, hit(j - n)), patterns=[hit(j)])

    where = "THEOREM-1"
    miss = z3.Implies(z3.And(0 <= i, i < j, z3.Not(hit(i))), z3.Not(hit(j)))
    return (
        entailed(where, "distance 0", [step], claim(z3.IntVal(0))),
        entailed(where, "distance n + 1", [step, n >= 0, claim(n)], claim(n + 1)),
        entailed(where, "a miss at i is a miss at j", [claim(j - i)], miss),
    )


@theorem(
    "THEOREM-1",
    engine="Z3, unbounded; induction over the distance",
    rests_on=(*CHAIN, "HASH-19"),
    assumes=(IDEAL, UNTOUCHED, FULL, "induction over the natural numbers"),
    canaries={
        "evictions from outside are allowed": lambda: followed(
            "canary", no_orphan_ever, "B", CHAIN
        ),
        "nothing is known of free blocks": lambda: followed("canary", no_orphan, "B", HOLDING),
        "the chain of a request may have a gap": lambda: _induction(skip=1),
    },
)
def a_miss_stays_a_miss() -> Found:
    """For full attention, a block that is not cached has no later block of its chain cached: a
    miss in the hash chain implies a miss at every later block, in every state.
    """
    return (
        *followed("THEOREM-1", hit_before, "RI", CHAIN),
        *_induction(),
    )


def scan_ends_at_a_miss(s: State, i: Value) -> None:
    """Behind a miss nothing is taken."""
    require(s.looking > 0, "a lookup is open")
    require(s.na <= i, "the block is not adopted yet")
    require(neg(is_hit(s, s.k.want(s.lr, i))), "it is not cached")
    if i < s.nhit:
        h = s.hsh[s.hit[i]]
        ensure(h == s.k.want(s.lr, i), "a pending hit carries the wanted hash")
    ensure(s.nhit <= i, "the scan has not gone beyond it")


def scan_skips_a_miss(s: State, i: Value) -> None:
    """False: a scan may take a block and miss one after it."""
    require(both(s.looking > 0, s.na < i), "a lookup is open")
    require(neg(is_hit(s, s.k.want(s.lr, i))), "the block is not cached")
    ensure(s.nhit < i, "the scan has not come to it")


@theorem(
    "THEOREM-2",
    engine="Z3, unbounded",
    rests_on=("HASH-8", "HASH-11", "HASH-15", "HASH-16"),
    assumes=("none but the text of the lookup: it stops at the first miss",),
    canaries={
        "the scan stops before the miss": lambda: followed(
            "canary", scan_skips_a_miss, "I", ("HASH-8",)
        ),
    },
)
def a_lookup_returns_a_prefix() -> Found:
    """A lookup takes nothing behind a miss: what it returns is a prefix of the chain, whatever is
    cached.
    """
    return followed("THEOREM-2", scan_ends_at_a_miss, "I", ("HASH-8",))


def _prefixes(injective: bool = True, outside: bool = True) -> Found:
    """By induction over the length of one chain: two chains with one hash have equal lengths and
    equal blocks.
    """
    hashes, contents, chains = (z3.DeclareSort(n) for n in ("Hash", "Content", "Chain"))
    h = z3.Function("h", hashes, contents, hashes)
    chain = z3.Function("chain", chains, z3.IntSort(), hashes)
    block = z3.Function("block", chains, z3.IntSort(), contents)
    before, content = z3.Function("before", hashes, hashes), z3.Function("of", hashes, contents)
    none, p, t = z3.Const("NONE_HASH", hashes), z3.Const("p", hashes), z3.Const("t", contents)
    q, a, b = z3.Consts("q a b", chains)
    n, m, k = z3.Ints("n m k")
    made = z3.If(n == 0, none, h(chain(q, n - 1), block(q, n - 1)))
    given = [z3.ForAll([q, n], z3.Implies(n >= 0, chain(q, n) == made), patterns=[chain(q, n)])]
    if injective:
        both_back = z3.And(before(h(p, t)) == p, content(h(p, t)) == t)
        given.append(z3.ForAll([p, t], both_back, patterns=[h(p, t)]))
    if outside:
        given.append(z3.ForAll([p, t], h(p, t) != none, patterns=[h(p, t)]))

    def equal(n: Term, m: Term) -> Term:
        same = z3.ForAll([k], z3.Implies(z3.And(0 <= k, k < n), block(a, k) == block(b, k)))
        return z3.Implies(chain(a, n) == chain(b, m), z3.And(n == m, same))

    known = z3.ForAll([m], z3.Implies(m >= 0, equal(n, m)), patterns=[chain(b, m)])
    where = "THEOREM-4"
    return (
        entailed(where, "an empty prefix", [*given, m >= 0], equal(z3.IntVal(0), m)),
        entailed(where, "one block more", [*given, n >= 0, m >= 0, known], equal(n + 1, m)),
    )


@theorem(
    "THEOREM-4",
    engine="Z3, unbounded; induction over the length",
    rests_on=("HASH-1",),
    assumes=(
        "the hash of a block is injective in the hash before it, the tokens and the extra keys",
        "NONE_HASH, with which every chain begins, is the hash of no block",
        "induction over the natural numbers",
    ),
    canaries={
        "NONE_HASH may be the hash of a block": lambda: _prefixes(outside=False),
        "the hash is not injective": lambda: _prefixes(injective=False),
    },
)
def equal_hash_equal_prefix() -> Found:
    """Equal chain hashes mean equal prefixes: as many blocks, and in each the same tokens and the
    same extra keys.
    """
    return _prefixes()


def collision(table: dict[tuple[int, str], int], none: int, longest: int) -> str | None:
    """Two different prefixes with one chain hash, for a hash given as a table from (hash before,
    content) to hash; None if there are none of that length. The shortest first.
    """
    contents = sorted({t for _, t in table})
    level: list[tuple[str, int]] = [("", none)]
    seen: dict[int, str] = {none: ""}
    for _ in range(longest):
        level = [(x + t, table[p, t]) for x, p in level for t in contents if (p, t) in table]
        for x, p in level:
            if seen.setdefault(p, x) != x:
                return f"the prefixes {seen[p]!r} and {x!r} have the chain hash {p}"
    return None


STATE_TEXTS: tuple[tuple[Text, str], ...] = (
    (no_orphan, "B"),
    (scan_ends_at_a_miss, "I"),
)
"""What the explorer's states are held against, too."""
