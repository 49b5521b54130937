"""Hit blocks: one more holder each; those that nobody held leave the free queue (POOL-11)."""

import torch
import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend, check, use_triton
from nullblock.kernels.control.ring import load_queue, store_queue, take_out, take_out_torch
from nullblock.kernels.control.state import State


def touch_blocks(state: State, blocks: torch.Tensor, backend: Backend = "auto") -> None:
    """Hold blocks, int32 [any], no two the same and none of them the null block (POOL-11)."""
    check("blocks", blocks, (torch.int32,), (None,), state.device)
    if not use_triton(blocks, backend):
        return touch_blocks_torch(state, blocks)
    touch_kernel[(1,)](
        state.arrays, blocks, len(blocks), state.sizes, num_warps=state.sizes.num_warps
    )


def touch_blocks_torch(state: State, blocks: torch.Tensor) -> None:
    """Those without a holder leave the queue, wherever they stand; then all gain one."""
    ref_cnt, blocks = state.arrays.pool.ref_cnt, blocks.long()
    take_out_torch(state, blocks[ref_cnt[blocks] == 0])
    ref_cnt[blocks] += 1


@triton.jit
def touch_kernel(a, blocks, n, z: tl.constexpr):
    """One program, `lanes` blocks a turn."""
    head, tail, free = load_queue(a, z)
    lane = tl.arange(0, z.lanes)
    base = tl.zeros([], tl.int32)
    while base < n:
        there = base + lane < n
        block = tl.load(blocks + base + lane, mask=there, other=0)
        free -= touch(a, block, there, z)
        base += z.lanes
    store_queue(a, head, tail, free)


@triton.jit
def touch(a, block, there, z: tl.constexpr):
    """Hold the blocks of the lanes `there`; how many of them were free."""
    holders = tl.load(a.pool.ref_cnt + block, mask=there, other=1)
    was_free = there & (holders == 0)
    take_out(a, block, was_free, z)
    tl.store(a.pool.ref_cnt + block, holders + 1, mask=there)
    return tl.sum(was_free.to(tl.int32), 0)
