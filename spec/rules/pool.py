"""Blocks: taking, sharing, hashing and releasing them, one block at a time."""

from nullblock.spec.aligned import grows_otherwise
from nullblock.spec.cache_events import cleared, removed
from nullblock.spec.deferred import held_next
from nullblock.spec.fields import IDLE, LEAVING, REMOTE, RESETTING, RUNNING
from nullblock.spec.flight import computed_for_sure
from nullblock.spec.groups import is_null
from nullblock.spec.hybrid import are_held, comes_next, covered, has_blocks, is_for
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
from nullblock.spec.mamba import has_a_place
from nullblock.spec.rules.aligned import forget_before
from nullblock.spec.rules.mamba import note_state, note_taken
from nullblock.spec.sessions import chain
from nullblock.spec.sizes import cached_of, full_of, is_in_place, is_left_out
from nullblock.spec.slots import (
    hashable,
    known_now,
    lacks_end,
    lacks_state,
    place_again,
    prompt_end_of,
    room,
    slots,
)
from nullblock.spec.state import is_lru, is_tried, turn

EVERY_BLOCK_HAS_A_PLACE = "of which only some blocks are cached, each has its place"
EVERY_STATE_HAS_A_PLACE = "a state that is noted has its place"
"""The guard of caching that raises."""


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


def open_front(s: State, n: Value) -> None:
    """Places at the front for n blocks, so that those which go there keep their order."""
    if s.k.sem.freed_unhashed_first:
        s.gate = s.front - n
        s.front = s.gate - 1


def open_tables(s: State, r: Value, first: Value) -> None:
    """The same for the blocks of the first table of r, from that group on, that has any."""
    if s.k.sem.freed_unhashed_first:
        open_front(s, held_next(s, r, first))


def set_out(s: State, r: Value, whither: Value) -> None:
    """r is on its way out, its blocks still its own, of which none has gone back."""
    s.stage[r] = LEAVING
    open_tables(s, r, 0)
    s.leaving = whither
    s.leaver = r
    if s.k.aligns:
        s.swept = s.k.blank("swept")


def open_next(s: State, t: Value) -> None:
    """Tables are released one after the other: a later one's blocks go before an earlier one's."""
    if s.k.several:
        if both(s.tlen[t] == 0, s.k.group(t) < s.k.last_group):
            open_tables(s, s.k.owner(t), s.k.group(t) + 1)


def _append(s: State, t: Value, b: Value) -> None:
    i = s.tlen[t]
    s.tab[t, i] = b
    s.tlen[t] = i + 1
    s.pos[t, b] = i
    s.own[b] = s.k.add(s.own[b], t)


def _take(s: State, t: Value, b: Value) -> None:
    _dequeue(s, b)
    ensure(s.ref[b] == 0, "a block from the free queue is unreferenced")
    _unhash(s, b)
    note_taken(s, t, b)
    s.ref[b] = 1
    _append(s, t, b)


def _know(s: State, b: Value, h: Value) -> None:
    """Block b carries hash h from now on: of those that do it is the last to begin."""
    s.hsh[b] = h
    s.hstamp[b] = s.hclock
    s.hclock += 1


def _unhash(s: State, b: Value) -> None:
    s.k.tell(removed, s, b)
    s.hsh[b] = s.k.NOHASH
    s.hstamp[b] = 0


def release(s: State, t: Value, b: Value, i: Value) -> None:
    """Block b, which stood at place i, is no longer in table t."""
    s.pos[t, b] = -1
    s.own[b] = s.k.remove(s.own[b], t)
    ensure(s.ref[b] > 0, "a reference count never goes below zero")
    s.ref[b] -= 1
    if s.ref[b] == 0:
        s.done[b] = ite(i < full_of(s, t, s.comp[s.k.owner(t)]), 1, 0)
        s.pw[b] = ite(i > 0, s.tab[t, i - 1], b)
        _enqueue(s, b)


def _publish(s: State, t: Value) -> None:
    i = s.ncached[t]
    if i < s.tlen[t]:
        if neg(either(is_null(s, t, i), is_left_out(s, t, i))):
            b = s.tab[t, i]
            if s.k.several and s.k.sem.prompt_ends_cached:
                _unhash(s, b)
            _know(s, b, chain(s, t, i))
    s.ncached[t] = i + 1


@rule("POOL-10", "TB")
def push_new(s: State, t: Value, b: Value) -> None:
    """A new block is taken from the front of the free queue, loses the hash it carried, and
    belongs to one request.

    Source: BlockPool.get_new_blocks, _maybe_evict_cached_block.
    """
    require(turn(s, s.k.owner(t)), "the request is being given slots")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.na == s.nhit, "hits are adopted before new blocks are taken")
    require(s.tlen[t] < room(s, t), "a block is still missing")
    require(comes_next(s, t, lambda u: s.tlen[u] >= room(s, u)), "none is in tables before it")
    require(neg(grows_otherwise(s, t)), "there is no other way to get longer")
    require(is_lru(s, b), "the block is at the front of the free queue")
    _take(s, t, b)


@rule("POOL-11", "TB")
def adopt(s: State, t: Value, b: Value) -> None:
    """A hit block is touched: it gains a reference and, if it stood in the free queue, leaves it.

    Source: BlockPool.touch, allocate_new_computed_blocks.
    """
    r = s.k.owner(t)
    require(s.looking == 2, "the lookup is over")
    require(turn(s, r), "the request is being given slots")
    require(s.na < s.nhit, "a hit is pending")
    require(is_for(s, t), "it is for this table")
    require(b == s.hit[s.na], "the hits are adopted in order")
    if s.ref[b] == 0:
        _dequeue(s, b)
        s.nevict -= 1
        s.evset = s.k.remove(s.evset, b)
    s.ref[b] += 1
    _append(s, t, b)
    s.na += 1
    s.ncached[t] += 1
    s.comp[r] = covered(s)


@rule("HASH-12", "T")
def publish(s: State, t: Value) -> None:
    """A block that this step fills gets its chain hash at once, behind any earlier block with that
    hash.

    Blocks are registered before they are computed, and are visible to requests admitted later in
    the same step. Source: BlockPool.cache_full_blocks. In vllm-0.22.1 a prompt
    longer than max_model_len counts blocks it does not have.
    """
    r, i = s.k.owner(t), s.ncached[t]
    require(turn(s, r), "the request is being given slots")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.na == s.nhit, "hits are adopted before blocks are cached")
    require(has_blocks(s, r, slots(s)), "the table is complete")
    require(i < hashable(s, t), "the block is filled by this step")
    require(is_in_place(s, t), EVERY_BLOCK_HAS_A_PLACE)
    require(has_a_place(s, t), EVERY_STATE_HAS_A_PLACE)
    require(
        comes_next(s, t, lambda u: s.ncached[u] >= hashable(s, u)), "tables before it are done"
    )
    _publish(s, t)
    note_state(s, t, i)


@rule("HASH-20", "T")
def publish_known(s: State, t: Value) -> None:
    """Scheduling ahead, a block gets its chain hash when the last token of it becomes known, while
    its request runs.

    Source: AsyncScheduler._update_request_with_output. Elsewhere the next step does it (HASH-12).
    """
    r, i = s.k.owner(t), s.ncached[t]
    require(both(s.open == 1, r == s.taker), "it has a new token")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.stage[r] == RUNNING, "it runs")
    known = computed_for_sure(s, r)
    require(i < cached_of(s, t, known), "the block is computed and known")
    require(is_in_place(s, t), EVERY_BLOCK_HAS_A_PLACE)
    require(has_a_place(s, t), EVERY_STATE_HAS_A_PLACE)
    require(
        comes_next(s, t, lambda u: s.ncached[u] >= cached_of(s, u, known)),
        "tables before it are done",
    )
    _publish(s, t)


@rule("GROUP-67", "T")
def publish_end(s: State, t: Value) -> None:
    """A block that is not full is known by the end of a prompt in it (GROUP-41), where a block
    behind a hit's unit is cached to be dropped: until it is full, or a session's prompt ends later
    in it.

    Nothing looks it up by that, but it is not reused before others once it is free (POOL-12).
    Source: FullAttentionManager._cache_partial_tail_block, BlockPool.cache_partial_block. Only in
    vllm-0.32.0.
    """
    r = s.k.owner(t)
    takes = both(s.open == 1, r == s.taker)
    came = both(is_tried(s, r), s.awaits[r] == REMOTE, s.came[r] == 1)
    require(either(turn(s, r), takes, came), "blocks of the request are being cached")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.ncached[t] >= cached_of(s, t, known_now(s, r)), "the full ones are cached")
    require(lacks_end(s, t), "the block of the prompt's end is not known by it")
    end = prompt_end_of(s, t)
    b = s.tab[t, full_of(s, t, end)]
    _unhash(s, b)
    _know(s, b, s.k.end_hash(t, end))


@rule("GROUP-71", "T")
def publish_again(s: State, t: Value) -> None:
    """The state that a prompt can be hit by is cached again, if it was evicted from outside, as
    long as its request computes no further block; and so is an inner state (GROUP-72) until its
    request is scheduled again.

    Source: MambaManager._cache_partial_tail_block, BlockPool.cache_partial_block. Only in
    vllm-0.32.0.
    """
    r = s.k.owner(t)
    takes = both(s.open == 1, r == s.taker)
    require(either(turn(s, r), takes), "blocks of the request are being cached")
    require(s.leaving == 0, "nobody is half-way out")
    require(s.ncached[t] >= cached_of(s, t, known_now(s, r)), "the full ones are cached")
    require(lacks_state(s, t), "the state is there, and known by nothing")
    i = place_again(s, t)
    _know(s, s.tab[t, i], chain(s, t, i))


@rule("PREEMPT-3", "T")
def uncache(s: State, t: Value) -> None:
    """A request withdrawn in the step that was to fill its blocks takes their hashes back, last
    block first.

    Normative only: vllm-0.22.1 leaves the hashes, and a later lookup hits content that nobody
    computed (upstream 43569).
    """
    v, i = s.k.owner(t), s.ncached[t] - 1
    require(s.stage[v] == LEAVING, "the request is leaving")
    known = s.comp[v]
    require(i >= full_of(s, t, known), "the block is not computed")
    require(
        comes_next(s, t, lambda u: s.ncached[u] <= full_of(s, u, known)),
        "tables before it are done",
    )
    _unhash(s, s.tab[t, i])
    s.ncached[t] = i


@rule("POOL-12", "TB")
def pop_block(s: State, t: Value, b: Value) -> None:
    """A request that leaves releases its last block first; a block nobody holds any more queues
    for reuse with its hash.

    Source: SingleTypeKVCacheManager.free, BlockPool.free_blocks. Children so queue before their
    parents and are evicted first.
    """
    r, n = s.k.owner(t), s.tlen[t]
    require(s.stage[r] == LEAVING, "the request is leaving")
    require(n > 0, "it holds a block")
    require(b == s.tab[t, n - 1], "the last block goes first")
    require(comes_next(s, t, lambda u: s.tlen[u] == 0), "tables before it are empty")
    if s.k.sem.withdraw_uncaches:
        require(
            s.ncached[t] <= full_of(s, t, s.comp[r]), "no hash names content that is not computed"
        )
    s.tlen[t] = n - 1
    s.ncached[t] = least(s.ncached[t], n - 1)
    s.told[t] = least(s.told[t], n - 1)
    forget_before(s, t)
    release(s, t, b, n - 1)
    open_next(s, t)


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
    require(both(s.leaving == 0, neg(are_held(s))), "no block is held")
    s.k.tell(cleared, s)
    s.hsh = s.k.blank("hsh")
    s.hstamp = s.k.blank("hstamp")
    s.evicted = 0
