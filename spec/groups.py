"""The readings of a KV-cache group: what layers that see a part of the past add to a decision.

The core is written for full attention, where every token sees all before it. With a sliding window
or chunked local attention a token sees the last few: what is before them is given back while the
request runs, the null block takes its place in the table, and a prefix hit needs only what the
next token sees. Each reading asks `s.k.windowed` first, and where that is off says what the core
says; whoever cares for full attention need not read on. Of several groups, for which
`nullblock.spec.hybrid` is there, each table has layers of its own kind.
"""

from collections.abc import Callable

from nullblock.spec.aligned import goes_back, goes_back_at_last, is_aligned
from nullblock.spec.catalogue import clause
from nullblock.spec.kernel import State, Value, both, either, ite, least, neg
from nullblock.spec.mamba import settled_states
from nullblock.spec.sessions import chain, continues, has_ended
from nullblock.spec.sizes import blocks_of, full_of


def window(s: State, t: Value) -> Value:
    """What a token sees in the layers of table t, itself among it; 0: no window."""
    return s.k.window_of(t) if s.k.several else s.k.window


def chunk(s: State, t: Value) -> Value:
    """How many tokens a chunk has there; 0: no chunks."""
    return s.k.chunk_of(t) if s.k.several else s.k.chunk


def sees_part(s: State, t: Value) -> Value:
    """Whether the layers of table t see only a part of the past."""
    if s.k.several:
        return either(s.k.window_of(t) > 0, s.k.chunk_of(t) > 0)
    return s.k.windowed


@clause("GROUP-66")
def finds_less(s: State, r: Value) -> Value:
    """Of a prompt without tokens, which normative refuses, several layers that all see only a part
    of the past find a hit of less than nothing, and a token is computed that there is not.

    Source: HybridKVCacheCoordinator.find_longest_cache_hit, max_cache_hit_length. A lookup of full
    attention raises; in vllm-0.32.0 not where it drops its last hit.
    """

    def finds(t: Value) -> Value:
        drops = s.k.drops_of(t) == 1 if s.k.sem.dropped_hits_reach_on else False
        return either(sees_part(s, t), drops)

    every = s.k.forall("G", lambda g: finds(s.k.table(r, g))) if s.k.several else s.k.windowed
    return both(s.ntok[r] == 0, every)


def has_prefix(s: State, r: Value) -> Value:
    """Whether a lookup of r comes to an end, and leaves it something to compute."""
    return either(s.ntok[r] != 0, finds_less(s, r) if s.k.several else False)


def raises_when_looked_up(s: State, r: Value) -> Value:
    """Whether vLLM raises where it looks up the prefix of r: an empty one in layers that see all
    of the past, or chunks that nobody can look up (WAIT-6).
    """
    stumbles = either(both(s.ntok[r] == 0, neg(finds_less(s, r))), s.k.stumbles)
    return both(s.k.caching, neg(s.k.skip_read(r)), stumbles)


@clause("GROUP-1")
def passed(s: State, t: Value, tokens: Value) -> Value:
    """The leading blocks that no token sees any more once so many are computed: those wholly
    before the window of the next token, or before the chunk that it lies in.

    Source: SlidingWindowManager.get_num_skipped_tokens,
    ChunkedLocalAttentionManager.get_num_skipped_tokens.
    """
    return full_of(s, t, tokens_passed(s, t, tokens))


def tokens_passed(s: State, t: Value, tokens: Value) -> Value:
    """The leading tokens that no token sees any more once so many are computed."""
    if chunk(s, t):
        return tokens // chunk(s, t) * chunk(s, t)
    unseen = tokens - window(s, t) + 1
    return ite(both(window(s, t) > 0, unseen > 0), unseen, 0)


def is_null(s: State, t: Value, i: Value) -> Value:
    """Whether the null block stands at place i of table t."""
    return s.tab[t, i] == s.k.NULL if s.k.windowed else False


def stands_still(was: State, s: State, t: Value, i: Value) -> Value:
    """Whether the block at place i of table t is what it was, or no token sees it any more."""
    same = s.tab[t, i] == was.tab[t, i]
    return either(same, is_null(s, t, i)) if s.k.windowed else same


def in_table(s: State, t: Value, i: Value) -> Value:
    """Whether table t holds a block at place i."""
    inside = both(0 <= i, i < s.tlen[t])
    return both(inside, neg(is_null(s, t, i))) if s.k.windowed else inside


def in_all(s: State, r: Value, of: Callable[[Value], Value]) -> Value:
    """The sum of something of each table of r."""
    return s.k.sum_over("G", lambda g: of(s.k.table(r, g))) if s.k.several else of(r)


def is_pending(s: State, i: Value) -> Value:
    """Whether place i of the lookup is a block that is still to be adopted."""
    inside = both(s.na <= i, i < s.nhit)
    return both(inside, s.hit[i] != s.k.NULL) if s.k.windowed else inside


def is_padding(s: State) -> Value:
    """Whether the next hit to be adopted is the null block."""
    return s.hit[s.na] == s.k.NULL if s.k.windowed else False


def is_cached_block(s: State, t: Value, i: Value) -> Value:
    """Whether some block carries the hash of block i of table t."""
    h = chain(s, t, i)
    return s.k.exists("B", lambda b: s.hsh[b] == h, by=("hsh", h))


def are_cached(s: State, t: Value, first: Value, end: Value) -> Value:
    """Whether for each block of table t from the first on, up to an end, one is cached."""
    return s.k.forall(
        "I", lambda i: is_cached_block(s, t, i), span=lambda: (first, end), by=("cached", t)
    )


def ends_run(s: State, t: Value, n: Value, drops: Value) -> Value:
    """Whether the blocks that are seen before block n of table t are cached, and one at least;
    where the last is dropped one more.
    """
    run = blocks_of(s, t, window(s, t) - 1) + drops
    least_run = ite(run > 1, run, 1)
    return are_cached(s, t, ite(least_run < n, n - least_run, 0), n)


def accepts(s: State, t: Value, tokens: Value, drops: Value) -> Value:
    """Whether the blocks are cached that the token after so many hit ones sees in the layers of
    t, and so many more as are dropped.
    """
    n = full_of(s, t, tokens) + drops
    if s.k.window_of(t) > 0:
        return ends_run(s, t, n, drops)
    return are_cached(s, t, passed(s, t, tokens), n)


@clause("GROUP-2")
def unseen(s: State, r: Value) -> Value:
    """A lookup passes over the blocks that the next token does not see: with a window those before
    the last run of cached blocks that is as long as one, or that begins with the prompt; with
    chunks those before the chunk of the last token, whatever was computed of them.

    Source: SlidingWindowManager.find_longest_cache_hit,
    ChunkedLocalAttentionManager.find_longest_cache_hit.
    """
    if s.k.chunk:
        return passed(s, r, s.ntok[r] - 1)
    return passed(s, r, s.k.tokens(longest_run(s, r)))


def longest_run(s: State, r: Value) -> Value:
    """How many blocks a lookup hits with a window, those before it included."""
    run = s.k.first(
        "I",
        lambda n: both(0 <= n, n <= s.k.full(s.ntok[r] - 1), ends_run(s, r, n, s.k.drops_of(r))),
        lambda n: -n,
        by="window",
    )
    return ite(both(s.k.eagle, run > 0), run - 1, run)


def hits_alone(s: State, r: Value) -> Value:
    """How many blocks a lookup hits where there is one group of such layers."""
    if not s.k.chunk:
        return longest_run(s, r)
    last = s.ntok[r] - 1

    def ends(n: Value) -> Value:
        return either(n == s.k.full(last), neg(is_cached_block(s, r, n)))

    return s.k.first(
        "I",
        lambda n: both(passed(s, r, last) <= n, n <= s.k.full(last), ends(n)),
        lambda n: n,
        by="chunk",
    )


def passed_over_to(s: State, r: Value) -> Value:
    """The place at which the lookup of r comes to what its next token sees."""
    if not s.k.windowed:
        return 0
    looks = neg(either(s.k.skip_read(r), continues(s, r)))
    return ite(both(s.k.caching, looks), unseen(s, r), 0)


def verified(s: State, r: Value) -> Value:
    """Computed tokens of r that stay so, whatever the model says of the drafts in flight.

    Source: Scheduler.schedule, num_computed_tokens. vllm-0.22.1 counts the drafts in flight as
    well, and gives back what is needed again when they are rejected (upstream 47728).
    """
    return s.comp[r] - s.pd[r] if s.k.sem.windows_await_verdicts else s.comp[r]


def outlived(s: State, t: Value) -> Value:
    """The leading blocks of table t that no later token of its request sees.

    Source: KVCacheManager.allocate_slots. vllm-0.32.0 waits for the outputs of whatever is in
    flight.
    """
    return passed(s, t, num_settled(s, t))


def num_settled(s: State, t: Value) -> Value:
    """How many tokens of table t count as computed when blocks are given back."""
    if s.k.sem.windows_await_outputs:
        r = s.k.owner(t)
        settled = least(s.comp[r], s.k.max_len) - s.aloft[r]
        return ite(settled > 0, settled, 0)
    return settled_states(s, t, least(verified(s, s.k.owner(t)), s.k.max_len))


def is_behind(s: State, t: Value, i: Value) -> Value:
    """Whether table t holds a block at place i that no later token of its request sees."""
    return both(in_table(s, t, i), i < outlived(s, t))


def may_go(s: State, t: Value, i: Value) -> Value:
    """Whether table t holds a block at place i that goes back before long, now or after others."""
    return either(is_behind(s, t, i), is_outlived(s, t, i))


def is_outlived(s: State, t: Value, i: Value) -> Value:
    """Whether it is one that goes back now: in an aligned table not each does (GROUP-28)."""
    if is_aligned(s, t):
        goes = either(
            goes_back(s, t, i, outlived(s, t)), goes_back_at_last(s, t, i, num_settled(s, t))
        )
        return both(in_table(s, t, i), goes)
    return is_behind(s, t, i)


def holds_outlived(s: State, t: Value) -> Value:
    """Whether table t holds a block that no later token of its request sees."""
    return s.k.exists("I", lambda i: is_outlived(s, t, i), by=("outlived", t))


def goes_first(s: State, t: Value, i: Value, behind: Value) -> Value:
    """Whether the block at place i is the first that table t gives back at once, of so many
    leading ones: those that follow keep to it in the free queue (POOL-12).
    """
    if both(is_aligned(s, t), s.k.sem.gaps_swept):
        return either(s.swept[t] == 0, i >= behind)
    return i == least(behind, s.tlen[t]) - 1


def last_outlived(s: State, t: Value) -> Value:
    """The last place at which table t holds such a block."""
    return s.k.first("I", lambda i: is_outlived(s, t, i), lambda i: -i, by=("outlived", t))


@clause("GROUP-3")
def missing(s: State, t: Value, blocks: Value, hits: Value, alone: Value) -> Value:
    """Of so many blocks a waiting request lacks those that it does not hit; of layers that see a
    part of the past it never asks for more than it takes at once.

    Source: SingleTypeKVCacheManager.get_num_blocks_to_allocate, max_admission_blocks_per_request.
    In vllm-0.22.1 hits, and what lies before a window with them, are taken off what it ever holds
    at once, so that the gate asks for too little.
    """
    if not s.k.windowed:
        n = blocks - s.tlen[t] - hits
        return ite(n > 0, n, 0) if s.k.connector or s.k.crosses else n
    if s.k.sem.gate_asks_behind_hits:
        return to_take(s, t, blocks - s.tlen[t] - hits, alone)
    lacks = least(blocks, cap(s, t)) - s.tlen[t] - hits
    return ite(lacks > 0, lacks, 0)


def cap(s: State, t: Value) -> Value:
    """How many blocks the gate takes table t to hold at once at most."""
    return s.k.cap_of(t) if s.k.several else s.k.admission_cap


def to_take(s: State, t: Value, lacks: Value, alone: Value) -> Value:
    """Of the blocks that table t lacks those that it takes at once besides what it has alone: what
    others hold too does not come free when it is given back.
    """
    n = least(lacks, cap(s, t) - alone)
    return ite(n > 0, n, 0)


def overlooked(s: State, t: Value) -> Value:
    """Blocks that table t lacks and nobody reckons with, of who has ended and is tried again with
    tokens computed (UPD-6): it holds none any more, and takes one for each of its places, those
    that its next token does not see among them.

    Source: SingleTypeKVCacheManager.get_num_blocks_to_allocate, num_skipped_blocks. Only in
    vllm-0.22.1.
    """
    if either(not s.k.windowed, not (s.k.connector or s.k.sessions)):
        return 0
    r = s.k.owner(t)
    n = passed(s, t, s.comp[r]) - s.tlen[t]
    return ite(both(has_ended(s, r), n > 0), n, 0)


def held_alone(s: State, t: Value) -> Value:
    """How many blocks table t holds that nobody else does."""
    return s.k.count("I", lambda i: both(in_table(s, t, i), s.ref[s.tab[t, i]] == 1))


@clause("GROUP-34")
def held_by_sinks(s: State) -> Value:
    """The blocks of a sink are nobody's: no request gets them, and a reset does not wait for
    them.

    Source: SinkFullAttentionManager, BlockPool.reset_prefix_cache. In vllm-0.22.1 they count as
    held, so that no reset is ever done (upstream 53696).
    """
    return 0 if s.k.sem.sinks_are_nobodys else s.k.sink_blocks


def most_held(s: State, t: Value, blocks: Value) -> Value:
    """How many of so many blocks table t ever holds at once."""
    if s.k.several:
        return least(blocks, s.k.held_of(t))
    return least(blocks, s.k.most_held) if s.k.windowed else blocks
