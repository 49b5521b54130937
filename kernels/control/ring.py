"""The free queue: device functions that pop, push, and close holes, and what twins do instead.

The queue is what stands in the ring from HEAD to TAIL, holes left out. Kernels keep both ends in
registers: functions take them and return the end that moved. All are for one program.
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels.control.faults import POOL, RING, Fault, bounded
from nullblock.kernels.control.state import State
from nullblock.kernels.control.words import HEAD, HOLE, NOT_FREE, NUM_FREE, TAIL
from nullblock.kernels.index import ring_place


@triton.jit
def place_of(position, z: tl.constexpr):
    """Where a position stands in the ring."""
    return ring_place(position, z.ring_capacity).to(tl.int32)


@triton.jit
def load_queue(a, z: tl.constexpr):
    """The queue's ends and its length: head, tail (int64), blocks (int32). It is empty, and RING
    is set, if it is longer than the ring."""
    head = tl.load(a.words + HEAD)
    tail = head + bounded(a, tl.load(a.words + TAIL) - head, z.ring_capacity, RING)
    free = bounded(a, tl.load(a.words + NUM_FREE), tail - head, RING)
    return head, tail, free.to(tl.int32)


@triton.jit
def store_queue(a, head, tail, free):
    """Write back what `load_queue` gave and others moved."""
    tl.debug_barrier()  # all threads have read it
    tl.store(a.words + HEAD, head)
    tl.store(a.words + TAIL, tail)
    tl.store(a.words + NUM_FREE, free.to(tl.int64))


@triton.jit
def pop_front(a, head, tail, n, z: tl.constexpr):
    """Move the first n blocks to `scratch.blocks`, in order (QUEUE-10); returns the new head.

    Each turn but the last passes `lanes` positions: their number is bounded by the ring. Sets
    POOL if there are fewer blocks.
    """
    lane = tl.arange(0, z.lanes)
    got = tl.zeros([], tl.int32)
    while (got < n) & (head < tail):
        place = place_of(head + lane, z)
        block = tl.load(a.pool.ring + place, mask=head + lane < tail, other=HOLE)
        there = (block >= 0).to(tl.int32)
        rank = got + tl.cumsum(there, 0)
        take = (there > 0) & (rank <= n)
        tl.debug_barrier()
        tl.store(a.scratch.blocks + rank - 1, block, mask=take)
        tl.store(a.pool.ring + place, HOLE, mask=take)
        tl.store(a.pool.position + block, NOT_FREE, mask=take)
        found = tl.sum(there, 0)
        last = tl.max(tl.where(take, lane, -1), 0)
        head += tl.where(got + found < n, z.lanes, last + 1)
        got += tl.minimum(found, n - got)
        tl.debug_barrier()
    if got < n:
        tl.atomic_or(a.error, POOL)
    return tl.minimum(head, tail)


@triton.jit
def take_out(a, block, there, z: tl.constexpr):
    """Take the free blocks of the lanes `there` out of the queue, wherever they stand."""
    position = tl.load(a.pool.position + block, mask=there, other=0)
    tl.store(a.pool.ring + place_of(position, z), HOLE, mask=there)
    tl.store(a.pool.position + block, NOT_FREE, mask=there)


@triton.jit
def put(a, block, position, there, z: tl.constexpr):
    """Let the blocks of the lanes `there` stand at positions of the queue."""
    tl.store(a.pool.ring + place_of(position, z), block, mask=there)
    tl.store(a.pool.position + block, position, mask=there)


@triton.jit
def close_holes(a, head, tail, z: tl.constexpr):
    """Move all blocks together, behind the head; returns the new tail.

    A hole is made only by a touch, and the ring is four times the pool: between two calls there
    are at least twice as many touches as the pool has blocks.
    """
    lane = tl.arange(0, z.lanes)
    new = head
    at = head
    while at < tail:
        there = at + lane < tail
        place = place_of(at + lane, z)
        block = tl.load(a.pool.ring + place, mask=there, other=HOLE)
        live = (block >= 0).to(tl.int64)
        tl.debug_barrier()  # what is read here may be written here in the same turn
        tl.store(a.pool.ring + place, HOLE, mask=there)
        tl.debug_barrier()
        put(a, block, new + tl.cumsum(live, 0) - live, live > 0, z)
        new += tl.sum(live, 0)
        at += z.lanes
        tl.debug_barrier()
    return new


@triton.jit
def make_room(a, head, tail, n, z: tl.constexpr):
    """See that n blocks have room at either end; returns the tail, which may have moved."""
    if tail - head + n > z.ring_capacity:
        tail = close_holes(a, head, tail, z)
        if tail - head + n > z.ring_capacity:
            tl.atomic_or(a.error, RING)
    return tail


# The twins' part --------------------------------------------------------------------------------


def free_blocks(state: State) -> torch.Tensor:
    """The free queue: int32 [NUM_FREE], next one first."""
    blocks = state.arrays.pool.ring[_places(state, state.word(HEAD), state.word(TAIL))]
    return blocks[blocks != HOLE.value]


def _places(state: State, first: int, last: int) -> torch.Tensor:
    positions = torch.arange(first, last, device=state.device)
    return positions % state.sizes.ring_capacity


def pop_front_torch(state: State, n: int) -> torch.Tensor:
    """The first n blocks, which leave; as many as there are, and POOL, if there are fewer."""
    blocks = free_blocks(state)[:n]
    if len(blocks) < n:
        state.report(Fault.POOL)
    if len(blocks):
        last = int(state.arrays.pool.position[int(blocks[-1])])
        take_out_torch(state, blocks)
        state.set_word(HEAD, last + 1)
    return blocks


def take_out_torch(state: State, blocks: torch.Tensor) -> None:
    """Free blocks leave the queue, wherever they stand."""
    pool, blocks = state.arrays.pool, blocks.long()
    pool.ring[pool.position[blocks] % state.sizes.ring_capacity] = HOLE.value
    pool.position[blocks] = NOT_FREE.value
    state.arrays.words[NUM_FREE.value] -= len(blocks)


def append_torch(state: State, blocks: torch.Tensor) -> None:
    """Blocks join the queue behind all others, in their order."""
    make_room_torch(state, len(blocks))
    tail = state.word(TAIL)
    _put_torch(state, blocks, tail)
    state.set_word(TAIL, tail + len(blocks))
    state.arrays.words[NUM_FREE.value] += len(blocks)


def prepend_torch(state: State, blocks: torch.Tensor) -> None:
    """Blocks join the queue before all others, in their order."""
    make_room_torch(state, len(blocks))
    head = state.word(HEAD) - len(blocks)
    _put_torch(state, blocks, head)
    state.set_word(HEAD, head)
    state.arrays.words[NUM_FREE.value] += len(blocks)


def _put_torch(state: State, blocks: torch.Tensor, first: int) -> None:
    pool, last = state.arrays.pool, first + len(blocks)
    pool.ring[_places(state, first, last)] = blocks.to(torch.int32)
    pool.position[blocks.long()] = torch.arange(first, last, device=state.device)


def make_room_torch(state: State, n: int) -> None:
    """See that n blocks have room at either end."""
    if state.word(TAIL) - state.word(HEAD) + n > state.sizes.ring_capacity:
        close_holes_torch(state)


def close_holes_torch(state: State) -> None:
    """Move all blocks together, behind the head."""
    blocks, head = free_blocks(state), state.word(HEAD)
    state.arrays.pool.ring.fill_(HOLE.value)
    _put_torch(state, blocks, head)
    state.set_word(TAIL, head + len(blocks))
