"""New blocks: popped off the front of the free queue, each with one holder (POOL-10)."""

import torch
import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend, use_triton
from nullblock.kernels.control.cache import forget, forget_torch
from nullblock.kernels.control.ring import load_queue, pop_front, pop_front_torch, store_queue
from nullblock.kernels.control.state import State


def take_blocks(state: State, n: int, backend: Backend = "auto") -> torch.Tensor:
    """The first n free blocks, next one first, held once and cached no more: int32 [n] (POOL-10).

    Sets POOL if there are fewer. Raises ValueError for more than the pool has.
    """
    if not 0 <= n < state.sizes.num_blocks:
        raise ValueError(f"n is {n}: 0 to {state.sizes.num_blocks - 1}")
    if not use_triton(state.arrays.words, backend):
        return take_blocks_torch(state, n)
    take_kernel[(1,)](state.arrays, n, state.sizes, num_warps=state.sizes.num_warps)
    return state.arrays.scratch.blocks[:n].clone()


def take_blocks_torch(state: State, n: int) -> torch.Tensor:
    """Pop, then count one holder and forget what was cached."""
    blocks = pop_front_torch(state, n)
    state.arrays.pool.ref_cnt[blocks.long()] = 1
    forget_torch(state, blocks)
    return blocks


@triton.jit
def take_kernel(a, n, z: tl.constexpr):
    """One program: n blocks to `scratch.blocks`."""
    head, tail, free = load_queue(a, z)
    head = pop_front(a, head, tail, n, z)
    lane = tl.arange(0, z.lanes)
    base = tl.zeros([], tl.int32)
    while base < n:
        there = base + lane < n
        block = tl.load(a.scratch.blocks + base + lane, mask=there, other=0)
        own(a, block, there)
        base += z.lanes
    store_queue(a, head, tail, free - n)


@triton.jit
def own(a, block, there):
    """Popped blocks: one holder each, and nothing cached (POOL-10)."""
    tl.store(a.pool.ref_cnt + block, 1, mask=there)
    forget(a, block, there)
