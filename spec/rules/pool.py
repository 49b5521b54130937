"""Blocks: taking, sharing, hashing and releasing them, one block at a time."""

from nullblock.spec.cache_events import cleared, removed
from nullblock.spec.fields import IDLE, LEAVING, RESETTING, RUNNING
from nullblock.spec.flight import computed_for_sure
from nullblock.spec.groups import is_null
from nullblock.spec.kernel import (
    State,
    Value,
    both,
    either,
    ensure,
    ite,
    least,
    neg,
    require,
    rule,
)
from nullblock.spec.state import hashable, is_lru, room, turn


def _dequeue(s: State, b: Value) -> None:
    ensure(s.stamp[b] != 0, "a block leaves the free queue only if it stands in it")
    s.stamp[b] = 0
    s.nfree -= 1
    s.freeset = s.k.remove(s.freeset, b)


def _enqueue(s: State, b: Value) -> None:
    if s.k.sem.freed_unhashed_first and s.hsh[b] == s.k.NOHASH:
        s.stamp[b] = s.gate
        s.gate += 1
    else:
        s.stamp[b] = s.back
        s.back += 1
    s.nfree += 1
    s.freeset = s.k.add(s.freeset, b)


def _append(s: State, r: Value, b: Value) -> None:
    i = s.tlen[r]
    s.tab[r, i] = b
    s.tlen[r] = i + 1
    s.pos[r, b] = i
    s.own[b] = s.k.add(s.own[b], r)


def _unhash(s: State, b: Value) -> None:
    s.k.tell(removed, s, b)
    s.hsh[b] = s.k.NOHASH
    s.hstamp[b] = 0


def release(s: State, r: Value, b: Value, i: Value) -> None:
    """Block b, which stood at place i, is no longer in the table of r."""
    s.pos[r, b] = -1
    s.own[b] = s.k.remove(s.own[b], r)
    ensure(s.ref[b] > 0, "a reference count never goes below zero")
    s.ref[b] -= 1
    if s.ref[b] == 0:
        s.done[b] = ite(i < s.k.full(s.comp[r]), 1, 0)
        s.pw[b] = ite(i > 0, s.tab[r, i - 1], b)
        _enqueue(s, b)


def _publish(s: State, r: Value) -> None:
    i = s.ncached[r]
    if i < s.tlen[r]:
        if neg(is_null(s, r, i)):
            b = s.tab[r, i]
            s.hsh[b] = s.k.want(r, i)
            s.hstamp[b] = s.hclock
            s.hclock += 1
    s.ncached[r] = i + 1


@rule("POOL-10", "RB")
def push_new(s: State, r: Value, b: Value) -> None:
    """A new block is taken from the front of the free queue, loses the hash it carried, and
    belongs to one request.

    Source: BlockPool.get_new_blocks, _maybe_evict_cached_block.
    """
    require(turn(s, r), "the request is being given slots")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.na == s.nhit, "hits are adopted before new blocks are taken")
    require(s.tlen[r] < room(s), "a block is still missing")
    require(is_lru(s, b), "the block is at the front of the free queue")
    _dequeue(s, b)
    ensure(s.ref[b] == 0, "a block from the free queue is unreferenced")
    _unhash(s, b)
    s.ref[b] = 1
    _append(s, r, b)


@rule("POOL-11", "RB")
def adopt(s: State, r: Value, b: Value) -> None:
    """A hit block is touched: it gains a reference and, if it stood in the free queue, leaves it.

    Source: BlockPool.touch, allocate_new_computed_blocks.
    """
    require(s.looking == 2, "the lookup is over")
    require(turn(s, r), "the request is being given slots")
    require(s.na < s.nhit, "a hit is pending")
    require(b == s.hit[s.na], "the hits are adopted in order")
    if s.ref[b] == 0:
        _dequeue(s, b)
        s.nevict -= 1
        s.evset = s.k.remove(s.evset, b)
    s.ref[b] += 1
    _append(s, r, b)
    s.na += 1
    s.ncached[r] += 1
    s.comp[r] = s.k.tokens(s.na)


@rule("HASH-12", "R")
def publish(s: State, r: Value) -> None:
    """A block that this step fills gets its chain hash at once, behind any earlier block with that
    hash.

    Blocks are registered before they are computed, and are visible to requests admitted later in
    the same step. Source: BlockPool.cache_full_blocks. In vllm-0.22.1 a prompt
    longer than max_model_len counts blocks it does not have.
    """
    i = s.ncached[r]
    require(turn(s, r), "the request is being given slots")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.na == s.nhit, "hits are adopted before blocks are cached")
    require(s.tlen[r] >= room(s), "the table is complete")
    require(i < hashable(s, r), "the block is filled by this step")
    _publish(s, r)


@rule("HASH-20", "R")
def publish_known(s: State, r: Value) -> None:
    """Scheduling ahead, a block gets its chain hash when the last token of it becomes known, while
    its request runs.

    Source: AsyncScheduler._update_request_with_output. Elsewhere the next step does it (HASH-12).
    """
    i = s.ncached[r]
    require(both(s.open == 1, r == s.taker), "it has a new token")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.stage[r] == RUNNING, "it runs")
    require(i < s.k.full(computed_for_sure(s, r)), "the block is computed and known")
    _publish(s, r)


@rule("PREEMPT-3", "R")
def uncache(s: State, v: Value) -> None:
    """A request withdrawn in the step that was to fill its blocks takes their hashes back, last
    block first.

    Normative only: vllm-0.22.1 leaves the hashes, and a later lookup hits content that nobody
    computed (upstream 43569).
    """
    i = s.ncached[v] - 1
    require(s.stage[v] == LEAVING, "the request is leaving")
    require(i >= s.k.full(s.comp[v]), "the block is not computed")
    _unhash(s, s.tab[v, i])
    s.ncached[v] = i


@rule("POOL-12", "RB")
def pop_block(s: State, r: Value, b: Value) -> None:
    """A request that leaves releases its last block first; a block nobody holds any more queues
    for reuse with its hash.

    Source: SingleTypeKVCacheManager.free, BlockPool.free_blocks. Children so queue before their
    parents and are evicted first.
    """
    n = s.tlen[r]
    require(s.stage[r] == LEAVING, "the request is leaving")
    require(n > 0, "it holds a block")
    require(b == s.tab[r, n - 1], "the last block goes first")
    if s.k.sem.withdraw_uncaches:
        require(s.ncached[r] <= s.k.full(s.comp[r]), "no hash names content that is not computed")
    s.tlen[r] = n - 1
    s.ncached[r] = least(s.ncached[r], n - 1)
    release(s, r, b, n - 1)


@rule("HASH-13", "B")
def evict_block(s: State, b: Value) -> None:
    """A block named from outside loses its hash and keeps everything else.

    Source: BlockPool.evict_blocks. Blocks cached behind it become orphans: unreachable until
    evicted.
    """
    require(s.phase == IDLE, "between steps")
    require(s.leaving == 0, "nobody is half-way out")
    _unhash(s, b)
    s.evicted = 1


@rule("HASH-14")
def wipe(s: State) -> None:
    """A reset forgets every hash, and happens only while no request holds a block.

    Source: BlockPool.reset_prefix_cache.
    """
    require(either(s.phase == IDLE, s.phase == RESETTING), "between steps")
    require(
        both(s.leaving == 0, neg(s.k.exists("B", lambda b: s.ref[b] > 0, by="held"))),
        "no block is held",
    )
    s.k.tell(cleared, s)
    s.hsh = s.k.blank("hsh")
    s.hstamp = s.k.blank("hstamp")
    s.evicted = 0
