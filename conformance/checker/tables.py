"""Block tables in a whole state: what it has to tell of them, and what none can be."""

from collections.abc import Iterator
from typing import Any

from msgspec import UNSET

from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.trace.records import RequestState
from nullblock.spec.aligned import is_aligned
from nullblock.spec.cross import is_cross
from nullblock.spec.fields import RUNNING
from nullblock.spec.mamba import beside
from nullblock.spec.sizes import blocks_of


def missing(k: Any, seen: RequestState) -> str | None:
    """What of its tables a record does not tell, so that the rules cannot go on from it; None:
    nothing.
    """
    many = len(k.groups)
    told = (seen.blocks, seen.num_cached, seen.states_before)
    if any(len(of_groups or k.groups) != many for of_groups in told):
        return f"the block tables of request {seen.id}, one for each KV cache group"
    if k.aligns and seen.blocks and seen.states_before is UNSET:
        return f"`states_before` of request {seen.id}"
    if _may_end_at_junction(k, seen):
        return f"at which ends of blocks the steps of request {seen.id} stop (GROUP-69)"
    return None


def _may_end_at_junction(k: Any, seen: RequestState) -> bool:
    """Whether a request that computes its prompt may have been hit by one kind of layers further
    than by all of them, which no state tells.
    """
    computes = any(seen.blocks or ()) and seen.computed < seen.tokens - 1
    notes = k.aligns and k.caching and k.sem.chunks_end_at_junctions
    return bool(notes and k.several and computes)


def impossible(s: Any, r: int) -> Iterator[Mismatch]:
    """What a recorded state says that no block tables of a request can be."""
    of_tokens = [t for t in s.k.tables(r) if not is_cross(s, t)]
    for t in s.k.tables(r):
        blocks = [s.tab[t, i] for i in range(s.tlen[t])]
        # Of what is longer than max_model_len vLLM counts blocks that there are not.
        if s.ncached[t] > s.tlen[t] and s.ntok[r] <= s.k.max_len:
            what = f"the cached blocks of request {r}"
            yield Mismatch("TABLE-5", what, f"0 to {s.tlen[t]}", s.ncached[t], r)
        yield from _nulls(s, r, t, blocks)
        if is_cross(s, t):
            yield from _attended(s, r, t)
        elif _are_alike(s, t, of_tokens[0]):
            yield from _length(s, r, t, of_tokens[0])
        else:
            yield from _tokens(s, r, t, of_tokens[0])


def _attended(s: Any, r: int, t: Any) -> Iterator[Mismatch]:
    """A table of cross-attention layers has the blocks of all that its request attends to, as long
    as the request runs, and otherwise none. A session keeps them while it waits, and has none for
    the items of later chunks; vLLM 0.22.1 has none for what an encoder connector loads.
    """
    whole = blocks_of(s, t, s.k.encoder_tokens(r))
    if s.stage[r] != RUNNING and not s.k.resumable(r):
        whole = 0
    elif s.k.resumable(r) or s.k.loads_items:
        whole = min(whole, s.tlen[t])
    if s.tlen[t] != whole:
        what = f"how many blocks request {r} has for what its encoder makes"
        yield Mismatch("GROUP-50", what, whole, s.tlen[t], r)


def _nulls(s: Any, r: int, t: Any, blocks: list[int]) -> Iterator[Mismatch]:
    """Where the null block stands in a table."""
    nulls, what = blocks.count(s.k.NULL), f"the blocks of request {r}"
    if is_aligned(s, t):
        held = blocks[-1 - beside(s, t) :]
        if s.stage[r] == RUNNING and s.k.NULL in held:
            yield Mismatch("GROUP-33", what, "no null block at the end", blocks, r)
    elif nulls and (any(blocks[:nulls]) or not (s.k.window_of(t) or s.k.chunk_of(t))):
        rule = "GROUP-9" if any(blocks[:nulls]) else "GROUP-8"
        yield Mismatch(rule, what, "no null block there", blocks, r)


def _are_alike(s: Any, t: Any, u: Any) -> bool:
    """Whether two tables of a request have as many places for the same tokens."""
    if is_aligned(s, t) or is_aligned(s, u):
        return False
    return (s.k.size_of(t), beside(s, t)) == (s.k.size_of(u), beside(s, u))


def _length(s: Any, r: int, t: Any, first: Any) -> Iterator[Mismatch]:
    """Tables that are alike are equally long, and as many blocks are cached of them."""
    mine, others = (s.ncached[t] for t in (t, first))
    beyond = t if mine > others else first
    if s.k.connector and s.tlen[t] == s.tlen[first] and mine != others:
        # More may count as cached of one of them where the null block stands there.
        if s.tab[beyond, max(mine, others) - 1] != s.k.NULL:
            what = f"what is cached of the block tables of request {r}"
            yield Mismatch("REMOTE-53", what, others, mine, r)
    elif (s.tlen[t], mine) != (s.tlen[first], others):
        what = f"how long the block tables of request {r} are, and what is cached of each"
        ours = [s.tlen[first], s.ncached[first]]
        yield Mismatch("GROUP-16", what, ours, [s.tlen[t], s.ncached[t]], r)


def _tokens(s: Any, r: int, t: Any, first: Any) -> Iterator[Mismatch]:
    """Other tables have places for the same tokens, and as many of these are cached: a hit, and
    what is cached, ends where a block of every group does. An aligned one has no places for drafts
    to come.
    """
    is_cached_alike = s.ncached[t] * s.k.size_of(t) == s.ncached[first] * s.k.size_of(first)
    may_differ = s.k.connector or s.k.in_turn  # which null blocks count, or how far a kind reaches
    if not (may_differ or is_cached_alike):
        what = f"the tokens that are cached of the block tables of request {r}"
        told = [s.ncached[u] * s.k.size_of(u) for u in (first, t)]
        yield Mismatch("GROUP-18", what, told[0], told[1], r)
    if is_aligned(s, t) or is_aligned(s, first) or s.k.connector:
        return
    low, high = zip(_places(s, t), _places(s, first), strict=True)
    if max(low) >= min(high) and (s.tlen[t] or s.tlen[first]):
        what = f"how long the block tables of request {r} are"
        yield Mismatch("GROUP-16", what, s.tlen[first], s.tlen[t], r)


def _places(s: Any, t: Any) -> tuple[int, int]:
    """Table t is as long as more tokens than the first number need, and at most the second."""
    size, places = s.k.size_of(t), s.tlen[t] - beside(s, t)
    return (places - 1) * size, places * size
