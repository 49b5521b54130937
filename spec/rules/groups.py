"""Tables of layers that see only a part of the past: null blocks, and blocks given back early.

The core fires these where it looks a prefix up, gives slots and releases a table, if the layers
are of such a kind; all else about them is here and in `nullblock.spec.groups`.
"""

from nullblock.spec.fields import LEAVING
from nullblock.spec.groups import (
    holds_outlived,
    is_null,
    is_padding,
    last_outlived,
    passed,
    passes_over,
)
from nullblock.spec.kernel import State, Value, least, require, rule
from nullblock.spec.rules.pool import release
from nullblock.spec.state import turn


@rule("GROUP-4", "R")
def pass_over_block(s: State, r: Value) -> None:
    """In a lookup the null block stands for each block that the next token does not see; it counts
    as a hit.

    Source: SlidingWindowManager.find_longest_cache_hit,
    ChunkedLocalAttentionManager.find_longest_cache_hit.
    """
    require(s.looking == 1, "a lookup is open")
    require(r == s.lr, "for this request")
    require(passes_over(s, r), "the next token does not see the block")
    s.hit[s.nhit] = s.k.NULL
    s.nhit += 1


@rule("GROUP-5", "R")
def pad(s: State, r: Value) -> None:
    """The null block takes its place in a table and is counted among the blocks cached of it; it
    has no references and no holders.

    Source: SingleTypeKVCacheManager.allocate_new_computed_blocks.
    """
    require(s.looking == 2, "the lookup is over")
    require(turn(s, r), "the request is being given slots")
    require(s.na < s.nhit, "a hit is pending")
    require(is_padding(s), "it is the null block")
    i = s.tlen[r]
    if i >= passed(s, s.k.tokens(s.nhit)):
        s.k.on_null(s, 1)
    s.tab[r, i] = s.k.NULL
    s.tlen[r] = i + 1
    s.na += 1
    s.ncached[r] += 1
    s.comp[r] = s.k.tokens(s.na)


@rule("GROUP-6", "RB")
def let_go(s: State, r: Value, b: Value) -> None:
    """Whoever asks for slots first gives back the blocks that no later token sees, the last of
    them first; the null block takes their places. It is done even if the slots are then not free.

    Source: KVCacheManager.allocate_slots, SingleTypeKVCacheManager.remove_skipped_blocks.
    """
    require(turn(s, r), "the request asks for slots")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.na == 0, "no hit is adopted")
    require(holds_outlived(s, r), "it holds a block that no later token sees")
    i = last_outlived(s, r)
    require(b == s.tab[r, i], "the last such block goes first")
    s.tab[r, i] = s.k.NULL
    release(s, r, b, i)


@rule("GROUP-7", "R")
def drop_null(s: State, r: Value) -> None:
    """A table that is released loses its null blocks like the others, and nothing queues for it.

    Source: SingleTypeKVCacheManager.free, BlockPool.free_blocks.
    """
    n = s.tlen[r]
    require(s.stage[r] == LEAVING, "the request is leaving")
    require(n > 0, "the table is not empty")
    require(is_null(s, r, n - 1), "its last place is null")
    s.k.on_null(s, -1)
    s.tlen[r] = n - 1
    s.ncached[r] = least(s.ncached[r], n - 1)
