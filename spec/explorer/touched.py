"""Which table a rule has just touched, where a request has several. For stories and witnesses."""

from typing import Any

from nullblock.spec.hybrid import hits_of
from nullblock.spec.kernel import State, both, either, neg
from nullblock.spec.sizes import tokens_of


def grown(s: State, r: Any) -> Any:
    """The table of r that got a new block last, while r is given slots."""
    if not s.k.several:
        return r

    def has_grown(g: int) -> Any:
        t = s.k.table(r, g)
        return s.tlen[t] > (hits_of(s, t) if s.looking == 2 else s.told[t])

    return s.k.table(r, s.k.first("G", lambda g: either(g == 0, has_grown(g)), lambda g: -g))


def cached_last(s: State, r: Any) -> Any:
    """The block of r that was cached last; the null block or none counts, of one group."""
    if s.k.several:
        return s.k.first("B", lambda b: s.hstamp[b] == s.hclock - 1, lambda b: b)
    return s.tab[r, s.ncached[r] - 1]


def shrunk(s: State, r: Any) -> Any:
    """The table of r that lost its last block just now, while r leaves: the last one in which the
    block behind the end is held no more.
    """
    if not s.k.several:
        return r

    def lost(g: int) -> Any:
        t = s.k.table(r, g)
        b = s.tab[t, s.tlen[t]]
        return both(b is not None, neg(s.k.mem(s.own[b], t)))

    return s.k.table(r, s.k.first("G", lost, lambda g: -g))


def withdrawn(s: State, r: Any, many: int) -> Any:
    """The table of r that lost the last of so many hashes, while r leaves."""
    if not s.k.several:
        return r
    tables = s.k.tables(r)
    left = [tokens_of(s, t, s.ncached[t]) for t in tables]
    each = max(left)
    if s.k.sizes.count(s.k.block_size) == len(tables):
        each = s.k.tokens((many + sum(s.ncached[t] for t in tables)) // len(tables))
    return [t for t, n in zip(tables, left, strict=True) if n < each or t == tables[0]][-1]
