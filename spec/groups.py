"""The readings of KV-cache groups: what layers that see only a part of the past add to a decision.

The core is written for full attention, where every token sees all before it. With a sliding window
or chunked local attention a token sees the last few: what is before them is given back while the
request runs, the null block takes its place in the table, and a prefix hit needs only what the
next token sees. Each reading asks `s.k.windowed` first, and where that is off says what the core
says; whoever cares for full attention need not read on.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.kernel import State, Value, both, either, ite, least, neg


@clause("GROUP-1")
def passed(s: State, tokens: Value) -> Value:
    """The leading blocks that no token sees any more once so many are computed: those wholly
    before the window of the next token, or before the chunk that it lies in.

    Source: SlidingWindowManager.get_num_skipped_tokens,
    ChunkedLocalAttentionManager.get_num_skipped_tokens.
    """
    if s.k.chunk:
        return s.k.full(tokens // s.k.chunk * s.k.chunk)
    unseen = tokens - s.k.window + 1
    return s.k.full(ite(unseen > 0, unseen, 0))


def is_null(s: State, r: Value, i: Value) -> Value:
    """Whether the null block stands at place i of r's table."""
    return s.tab[r, i] == s.k.NULL if s.k.windowed else False


def stands_still(was: State, s: State, r: Value, i: Value) -> Value:
    """Whether the block at place i of r's table is what it was, or no token sees it any more."""
    same = s.tab[r, i] == was.tab[r, i]
    return either(same, is_null(s, r, i)) if s.k.windowed else same


def in_table(s: State, r: Value, i: Value) -> Value:
    """Whether r holds a block at place i of its table."""
    inside = both(0 <= i, i < s.tlen[r])
    return both(inside, neg(is_null(s, r, i))) if s.k.windowed else inside


def is_pending(s: State, i: Value) -> Value:
    """Whether place i of the lookup is a block that is still to be adopted."""
    inside = both(s.na <= i, i < s.nhit)
    return both(inside, s.hit[i] != s.k.NULL) if s.k.windowed else inside


def is_padding(s: State) -> Value:
    """Whether the next hit to be adopted is the null block."""
    return s.hit[s.na] == s.k.NULL if s.k.windowed else False


def is_cached_block(s: State, r: Value, i: Value) -> Value:
    """Whether some block carries the hash of r's block i."""
    h = s.k.want(r, i)
    return s.k.exists("B", lambda b: s.hsh[b] == h, by=("hsh", h))


def ends_run(s: State, r: Value, n: Value) -> Value:
    """Whether the blocks that are seen before block n of r's are cached, and one at least; with an
    EAGLE-like method one more, which is dropped.
    """
    least_run = ite(s.k.window > 1, s.k.blocks(s.k.window - 1), 1) + (1 if s.k.eagle else 0)

    def span() -> tuple[Value, Value]:
        return ite(least_run < n, n - least_run, 0), n

    return s.k.forall("I", lambda i: is_cached_block(s, r, i), span=span)


@clause("GROUP-2")
def unseen(s: State, r: Value) -> Value:
    """A lookup passes over the blocks that the next token does not see: with a window those before
    the last run of cached blocks that is as long as one, or that begins with the prompt; with
    chunks those before the chunk of the last token, whatever was computed of them.

    Source: SlidingWindowManager.find_longest_cache_hit,
    ChunkedLocalAttentionManager.find_longest_cache_hit.
    """
    last = s.ntok[r] - 1
    if s.k.chunk:
        return passed(s, last)
    run = s.k.first(
        "I",
        lambda n: both(0 <= n, n <= s.k.full(last), ends_run(s, r, n)),
        lambda n: -n,
        by="window",
    )
    return passed(s, s.k.tokens(ite(both(s.k.eagle, run > 0), run - 1, run)))


def passes_over(s: State, r: Value) -> Value:
    """Whether the lookup has not come yet to what the next token of r sees."""
    if not s.k.windowed:
        return False
    return both(s.k.caching, neg(s.k.skip_read(r)), s.nhit < unseen(s, r))


def is_outlived(s: State, r: Value, i: Value) -> Value:
    """Whether r holds a block at place i that no later token of it sees."""
    return both(in_table(s, r, i), i < passed(s, least(s.comp[r], s.k.max_len)))


def holds_outlived(s: State, r: Value) -> Value:
    """Whether r holds a block that no later token of it sees."""
    return s.k.exists("I", lambda i: is_outlived(s, r, i))


def last_outlived(s: State, r: Value) -> Value:
    """The last place at which r holds such a block."""
    return s.k.first("I", lambda i: is_outlived(s, r, i), lambda i: -i, by="outlived")


@clause("GROUP-3")
def missing(s: State, r: Value, blocks: Value) -> Value:
    """Of so many blocks a waiting request lacks those that it does not hit; of layers that see a
    part of the past it never asks for more than it holds at once, and hits are taken off that.

    Source: SingleTypeKVCacheManager.get_num_blocks_to_allocate, max_admission_blocks_per_request.
    What lies before a window counts as a hit too, so that the gate asks for too little.
    """
    if not s.k.windowed:
        return blocks - s.tlen[r] - (s.nhit - s.na)
    lacks = least(blocks, s.k.admission_cap) - s.tlen[r] - (s.nhit - s.na)
    return ite(lacks > 0, lacks, 0)


def most_held(s: State, blocks: Value) -> Value:
    """How many of so many blocks a request ever holds at once."""
    return least(blocks, s.k.most_held) if s.k.windowed else blocks
