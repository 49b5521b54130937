"""Tables of layers that see only a part of the past: null blocks, and blocks given back early.

The core fires these where it looks a prefix up, gives slots and releases a table, if the layers
are of such a kind; all else about them is here and in `nullblock.spec.groups`.
"""

from nullblock.spec.deferred import goes_next
from nullblock.spec.fields import ADVANCE, LEAVING
from nullblock.spec.groups import (
    goes_first,
    holds_outlived,
    is_null,
    is_padding,
    last_outlived,
    outlived,
    passed,
)
from nullblock.spec.hybrid import (
    comes_next,
    covered,
    is_for,
    next_token,
)
from nullblock.spec.kernel import State, Value, ite, least, neg, require, rule
from nullblock.spec.nulls import held_to, is_passed_over, num_padding, num_passed_over
from nullblock.spec.rules.aligned import forget_before, sweep
from nullblock.spec.rules.pool import open_front, open_next, release
from nullblock.spec.state import turn


@rule("GROUP-4", "R")
def pass_over_blocks(s: State, r: Value) -> None:
    """In a lookup the null block stands for each block that the next token does not see; it counts
    as a hit. All that follow one another in a table are passed over at once.

    Source: SlidingWindowManager.find_longest_cache_hit,
    ChunkedLocalAttentionManager.find_longest_cache_hit.
    """
    require(s.looking == 1, "a lookup is open")
    require(r == s.lr, "for this request")
    require(is_passed_over(s, r), "the next token does not see the block")
    end = s.nhit + num_passed_over(s, r)
    s.k.fill(s.hit, s.nhit, end, s.k.NULL)
    s.nhit = end


@rule("GROUP-5", "T")
def pad(s: State, t: Value) -> None:
    """The null block takes its places in a table, all that are next, and is counted among the
    blocks cached of it; it has no references and no holders.

    Source: SingleTypeKVCacheManager.allocate_new_computed_blocks.
    """
    r = s.k.owner(t)
    require(s.looking == 2, "the lookup is over")
    require(turn(s, r), "the request is being given slots")
    require(s.na < s.nhit, "a hit is pending")
    require(is_for(s, t), "it is for this table")
    require(is_padding(s), "it is the null block")
    i, n = s.tlen[t], num_padding(s, t)
    seen = i + n - passed(s, t, next_token(s))
    s.k.on_null(s, least(n, ite(seen > 0, seen, 0)))
    s.k.fill_row(s.tab, t, i, i + n, s.k.NULL)
    s.tlen[t] = i + n
    s.na += n
    s.ncached[t] += n
    s.comp[r] = covered(s)


@rule("GROUP-6", "TB")
def let_go(s: State, t: Value, b: Value) -> None:
    """Whoever asks for slots first gives back the blocks that no later token sees, the last of
    them first; the null block takes their places. It is done even if the slots are then not free.

    Source: KVCacheManager.allocate_slots, SingleTypeKVCacheManager.remove_skipped_blocks.
    """
    require(turn(s, s.k.owner(t)), "the request asks for slots")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.na == 0, "no hit is adopted")
    require(holds_outlived(s, t), "it holds a block that no later token sees")
    require(comes_next(s, t, lambda u: neg(holds_outlived(s, u))), "tables before it hold none")
    i = last_outlived(s, t)
    require(b == s.tab[t, i], "the last such block goes first")
    if goes_first(s, t, i, outlived(s, t)):
        open_front(s, i + 1)
    s.tab[t, i] = s.k.NULL
    sweep(s, t, i, outlived(s, t))
    release(s, t, b, i)


@rule("GROUP-7", "T")
def drop_nulls(s: State, t: Value) -> None:
    """A table that is released loses its null blocks like the others, all that stand behind its
    last block, and nothing queues for them.

    Source: SingleTypeKVCacheManager.free, BlockPool.free_blocks.
    """
    n = s.tlen[t]
    require(s.stage[s.k.owner(t)] == LEAVING, "the request is leaving")
    require(n > 0, "the table is not empty")
    require(is_null(s, t, n - 1), "its last place is null")
    require(goes_next(s, t), "it is this table's turn")
    left = held_to(s, t)
    s.k.on_null(s, left - n)
    s.tlen[t] = left
    s.ncached[t] = least(s.ncached[t], left)
    s.told[t] = least(s.told[t], left)
    forget_before(s, t)
    open_next(s, t)


@rule("GROUP-20", "T")
def tell_table(s: State, t: Value) -> None:
    """Of several tables each is known to the worker, as it is, once the step is put in flight.

    Source: Scheduler.schedule, req_to_new_blocks. Of one table UPD-1 says it.
    """
    r = s.k.owner(t)
    require(s.phase == ADVANCE, "the step is decided")
    require(s.at < s.nr, "a running request is left")
    require(r == s.run[s.at], "it is the next one")
    require(s.sched[r] != 0, "it is scheduled")
    s.told[t] = s.tlen[t]
