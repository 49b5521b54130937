"""The readings of sizes: how many blocks of a table so many tokens need, fill, and may be hit by.

Where there is one group every block has one size, and these say what the core says. The blocks of
several groups may be of several sizes, each a multiple of what one hash covers: a request then has
tables of several lengths for the same tokens. A prefix hit ends where a block of every group does,
at a multiple of all sizes, and so does what is cached.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.cross import attended, is_cross
from nullblock.spec.kernel import State, Value, both, either, ite, least, neg
from nullblock.spec.mamba import beside, is_mamba


def blocks_of(s: State, t: Value, tokens: Value) -> Value:
    """Blocks of table t that so many tokens need: rounded up."""
    return -(-tokens // s.k.size_of(t)) if s.k.several else s.k.blocks(tokens)


def needed(s: State, t: Value, tokens: Value) -> Value:
    """Blocks that table t needs for so many tokens, those beside included (GROUP-23); of
    cross-attention layers for what it attends to (GROUP-50).
    """
    if is_cross(s, t):
        return blocks_of(s, t, attended(s, t))
    n = blocks_of(s, t, tokens)
    return n + beside(s, t) if s.k.mamba else n


def full_of(s: State, t: Value, tokens: Value) -> Value:
    """Blocks of table t that so many tokens fill: rounded down."""
    return tokens // s.k.size_of(t) if s.k.several else s.k.full(tokens)


def tokens_of(s: State, t: Value, blocks: Value) -> Value:
    """Tokens in so many blocks of table t."""
    return blocks * s.k.size_of(t) if s.k.several else s.k.tokens(blocks)


def hit_tokens(s: State) -> Value:
    """Tokens that the hits of a lookup cover."""
    return s.span if s.k.spans else s.k.tokens(s.nhit)


def reached(s: State, r: Value) -> Value:
    """Tokens of r that are computed, or that the pending hits cover."""
    hit = either(s.na < s.nhit, s.span < 0) if s.k.several else s.na < s.nhit
    return ite(hit, hit_tokens(s), s.comp[r])


def kept_behind(s: State, t: Value) -> Value:
    """How many blocks of table t are cached behind where a hit may end, to be looked at there and
    dropped: one, or none.
    """
    if neg(both(s.k.several, s.k.sem.dropped_hits_reach_on)):
        return 0
    return s.k.drops_of(t)


@clause("GROUP-18")
def cacheable(s: State, t: Value, tokens: Value) -> Value:
    """Of several groups as many tokens are cached as a prefix hit may cover: a multiple of the
    sizes of all their blocks.

    Source: HybridKVCacheCoordinator.cache_blocks, get_num_cacheable_tokens. A full block behind
    the last such multiple waits, in a group of smaller blocks too. In vllm-0.32.0 it does not
    where a lookup drops it.
    """
    return in_hits(s, t, tokens) if s.k.several else tokens


def in_hits(s: State, t: Value, tokens: Value) -> Value:
    """Of so many tokens those that lookups of several groups look at in table t."""
    hit = tokens // s.k.span_unit * s.k.span_unit
    further = hit + kept_behind(s, t) * s.k.size_of(t)
    return ite(hit > 0, least(tokens, further), 0)


def cached_of(s: State, t: Value, tokens: Value) -> Value:
    """Blocks of table t that are cached once so many tokens are."""
    return full_of(s, t, cacheable(s, t, tokens))


@clause("GROUP-19")
def is_left_out(s: State, t: Value, i: Value) -> Value:
    """A block that no prefix hit can need is counted as cached and gets no hash: of a window, with
    blocks smaller than a hit's unit, one that lies before the window of each end a hit may have.

    Source: SlidingWindowManager._cache_block_mask. With a window of one token that is every block,
    and such a group is never hit; in vllm-0.32.0 blocks may be as large as the unit, and there may
    be one group, unless a lookup drops a hit there. What it drops lies behind the end, and is
    cached in that line.
    """
    if not s.k.several:
        return is_too_narrow(s, t)
    n, place = num_left_out(s, t), i - kept_behind(s, t)
    before = both(n > 0, either(place < 0, place % in_unit(s, t) < n))
    return either(is_too_narrow(s, t), before)


def is_too_narrow(s: State, t: Value) -> Value:
    """Whether a window of table t has one token, which needs no block of what is before it, in
    lines that cache none.
    """
    if not s.k.sem.narrow_windows_uncached:
        return False
    return both(s.k.window_of(t) == 1, s.k.drops_of(t) == 0)


def in_unit(s: State, t: Value) -> Value:
    """How many blocks of table t there are in a hit's unit."""
    return s.k.span_unit // s.k.size_of(t)


def num_left_out(s: State, t: Value) -> Value:
    """How many blocks of table t are left out of each unit of a hit, the first ones of it; where
    one is kept behind an end, the first ones behind that.
    """
    if not s.k.several:
        return 0
    seen = -(-(s.k.window_of(t) - 1) // s.k.size_of(t)) + kept_behind(s, t)
    n = in_unit(s, t) - seen
    masked = both(s.k.window_of(t) > 0, neg(is_mamba(s, t)), in_unit(s, t) > 1, n > 0)
    return ite(masked, n, 0)


def is_in_place(s: State, t: Value) -> Value:
    """Whether there is a place for the next block that is cached of table t, or nobody asks for
    one: a prompt longer than max_model_len fills more blocks than it has places.

    Source: BlockPool.cache_full_blocks, which asserts it where only some blocks are cached.
    """
    leaves_out = either(is_too_narrow(s, t), num_left_out(s, t) > 0)
    return either(s.ncached[t] < s.tlen[t], neg(leaves_out))


def is_hashless(s: State, t: Value, i: Value) -> Value:
    """Whether block i of table t has no hash though it is counted as cached."""
    return either(i >= s.ncached[t], is_left_out(s, t, i))
