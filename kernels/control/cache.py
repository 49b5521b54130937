"""The prefix cache's index: device functions that insert, find and forget, and their twins.

Every cached block has an entry of its own, in an open-addressed table; of several blocks with one
key the one that was inserted first is found (HASH-10). So to forget a block is one store, for any
number of blocks at once, and no entry depends on another. Slots are claimed by compare-and-swap:
where entries stand depends on who is faster, what is found does not.

A slot that is given up stays DELETED, so that searches pass over it; it is used again. When half
of the slots have been in use the table is built anew: that takes at least a quarter of the table,
as many insertions as the pool has blocks, since the last time.
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels.control.faults import INDEX
from nullblock.kernels.control.state import State
from nullblock.kernels.control.words import DELETED, EMPTY, SLOTS_USED, STAMP

NEVER = tl.constexpr(1 << 62)
"""Later than any stamp."""
_NO_VALUE = tl.constexpr(-3)
"""What no slot holds: a swap that expects it fails."""


@triton.jit
def first_slot(key, z: tl.constexpr):
    """Where the search for a key (its first word) begins."""
    mixed = key.to(tl.uint64)
    mixed = (mixed ^ (mixed >> 32)) * 0x9E3779B97F4A7C15
    mixed = mixed ^ (mixed >> 29)
    return (mixed & (z.index_capacity - 1)).to(tl.int32)


@triton.jit
def claim_slots(a, block, key, there, z: tl.constexpr):
    """Give each block of the lanes `there` a slot near its key; how many were EMPTY before.

    A lane that loses a slot to another one looks at it again and goes on from there. In each turn
    every lane moves on, or somebody wins: the number of turns is bounded. Sets INDEX if a block
    got no slot.
    """
    slot = first_slot(key, z)
    todo = there
    used = tl.zeros([], tl.int32)
    turns = tl.zeros([], tl.int32)
    while (tl.max(todo.to(tl.int32), 0) > 0) & (turns < z.index_capacity + z.lanes):
        held = tl.load(a.cache.slots + slot, mask=todo, other=0, volatile=True)
        tries = todo & (held < 0)
        expected = tl.where(tries, held, _NO_VALUE)
        found = tl.atomic_cas(a.cache.slots + slot, expected, block)
        won = tries & (found == held)
        tl.store(a.cache.slot + block, slot, mask=won)
        used += tl.sum((won & (held == EMPTY)).to(tl.int32), 0)
        todo = todo & (won == 0)
        slot = tl.where(todo & (tries == 0), (slot + 1) & (z.index_capacity - 1), slot)
        turns += 1
    if tl.max(todo.to(tl.int32), 0) > 0:
        tl.atomic_or(a.error, INDEX)
    return used


@triton.jit
def insert(a, block, key, second, there, stamp, z: tl.constexpr):
    """Cache blocks that are not, in the order of the lanes, each under its key (HASH-12).

    `key`, `second`: the two words of the key. `stamp`: that of the first one. Returns how many
    slots are in use that were not. The caller has called `make_index_room`.
    """
    used = claim_slots(a, block, key, there, z)
    rank = there.to(tl.int64)
    rank = tl.cumsum(rank, 0) - rank
    tl.store(a.cache.carried + 2 * block.to(tl.int64), key, mask=there)
    tl.store(a.cache.carried + 2 * block.to(tl.int64) + 1, second, mask=there)
    tl.store(a.cache.stamp + block, stamp + rank, mask=there)
    return used


@triton.jit
def forget(a, block, there):
    """The blocks of the lanes `there` are cached no more; nothing happens to those that were not
    (POOL-10, HASH-13). No block is in two lanes.
    """
    carried = a.cache.carried + 2 * block.to(tl.int64)
    cached = there & (tl.load(carried, mask=there, other=0) != 0)
    slot = tl.load(a.cache.slot + block, mask=cached, other=0)
    tl.store(a.cache.slots + slot, DELETED, mask=cached)
    tl.store(carried, 0, mask=cached)
    tl.store(carried + 1, 0, mask=cached)


@triton.jit
def find(a, key, second, there, z: tl.constexpr):
    """The block that was cached first under each key; 0, the null block: there is none (HASH-10).

    All lanes search at once, each from its own slot to the first one that was never in use.
    """
    slot = first_slot(key, z)
    todo = there
    best = slot * 0
    earliest = key * 0 + NEVER
    turns = tl.zeros([], tl.int32)
    while (tl.max(todo.to(tl.int32), 0) > 0) & (turns <= z.index_capacity):
        held = tl.load(a.cache.slots + slot, mask=todo, other=EMPTY)
        live = todo & (held >= 0)
        carried = a.cache.carried + 2 * held.to(tl.int64)
        equal = live & (tl.load(carried, mask=live, other=0) == key)
        equal = equal & (tl.load(carried + 1, mask=live, other=0) == second)
        stamp = tl.load(a.cache.stamp + held, mask=equal, other=NEVER)
        best = tl.where(stamp < earliest, held, best)
        earliest = tl.minimum(stamp, earliest)
        todo = todo & (held != EMPTY)
        slot = (slot + 1) & (z.index_capacity - 1)
        turns += 1
    if tl.max(todo.to(tl.int32), 0) > 0:
        tl.atomic_or(a.error, INDEX)
    return best


@triton.jit
def clear_slots(a, z: tl.constexpr):
    """No slot was ever in use."""
    lane = tl.arange(0, z.lanes)
    for base in range(0, z.index_capacity, z.lanes):
        at = base + lane
        tl.store(a.cache.slots + at, EMPTY, mask=at < z.index_capacity)


@triton.jit
def rebuild(a, z: tl.constexpr):
    """Build the index anew, without what was deleted; returns how many slots are in use."""
    tl.debug_barrier()  # evictions before this are done
    clear_slots(a, z)
    tl.debug_barrier()
    lane = tl.arange(0, z.lanes)
    used = tl.zeros([], tl.int32)
    for base in range(0, z.num_blocks, z.lanes):
        block = base + lane
        there = block < z.num_blocks
        key = tl.load(a.cache.carried + 2 * block.to(tl.int64), mask=there, other=0)
        used += claim_slots(a, block, key, key != 0, z)
    tl.debug_barrier()
    return used


@triton.jit
def make_index_room(a, used, n, z: tl.constexpr):
    """See that n blocks can be inserted; returns the slots in use, which may have become fewer."""
    if used + n > z.index_limit:
        used = rebuild(a, z)
    return used


# The twins' part --------------------------------------------------------------------------------


def insert_torch(state: State, blocks: torch.Tensor, keys: torch.Tensor) -> None:
    """Cache blocks that are not, in this order; `keys` is int64 [n, 2] (HASH-12)."""
    cache, stamp = state.arrays.cache, state.word(STAMP)
    if state.word(SLOTS_USED) + len(blocks) > state.sizes.index_limit:
        rebuild_torch(state)
    for i, block in enumerate(blocks.tolist()):
        cache.carried[block] = keys[i]
        cache.stamp[block] = stamp + i
        _claim_slot_torch(state, block)
    state.set_word(STAMP, stamp + len(blocks))


def _claim_slot_torch(state: State, block: int) -> None:
    """Give a cached block the first slot from its own on that is nobody's."""
    cache, size = state.arrays.cache, state.sizes.index_capacity
    slot = _first_slot_torch(state, int(cache.carried[block, 0]))
    while int(cache.slots[slot]) >= 0:
        slot = (slot + 1) % size
    state.arrays.words[SLOTS_USED.value] += cache.slots[slot] == EMPTY.value
    cache.slots[slot], cache.slot[block] = block, slot


def _first_slot_torch(state: State, key: int) -> int:
    mixed = (key ^ key >> 32) * 0x9E3779B97F4A7C15 % (1 << 64)
    return (mixed ^ mixed >> 29) % state.sizes.index_capacity


def forget_torch(state: State, blocks: torch.Tensor) -> None:
    """Blocks are cached no more; nothing happens to those that were not (POOL-10, HASH-13)."""
    cache, blocks = state.arrays.cache, blocks.long()
    blocks = blocks[cache.carried[blocks, 0] != 0]
    cache.slots[cache.slot[blocks].long()] = DELETED.value
    cache.carried[blocks] = 0


def find_torch(state: State, key: torch.Tensor) -> int:
    """The block that was cached first under a key, int64 [2]; 0: there is none (HASH-10).

    Looks at all blocks, not into the index.
    """
    cache = state.arrays.cache
    held = (cache.carried == key).all(1).nonzero()[:, 0]
    return int(held[cache.stamp[held].argmin()]) if len(held) else 0


def rebuild_torch(state: State) -> None:
    """Build the index anew, without what was deleted."""
    state.arrays.cache.slots.fill_(EMPTY.value)
    state.set_word(SLOTS_USED, 0)
    for block in state.arrays.cache.carried[:, 0].nonzero()[:, 0].tolist():
        _claim_slot_torch(state, block)
