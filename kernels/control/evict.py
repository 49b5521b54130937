"""Blocks named from outside lose their hash and keep everything else (HASH-13)."""

import torch
import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend, check, use_triton
from nullblock.kernels.control.cache import forget, forget_torch
from nullblock.kernels.control.state import State


def evict_blocks(state: State, blocks: torch.Tensor, backend: Backend = "auto") -> None:
    """Take blocks, int32 [any], out of the prefix cache (HASH-13). No two are the same; nothing
    happens to one that is not cached, and whoever holds one keeps holding it.
    """
    check("blocks", blocks, (torch.int32,), (None,), state.device)
    if not use_triton(blocks, backend):
        return forget_torch(state, blocks)
    evict_kernel[(1,)](
        state.arrays, blocks, len(blocks), state.sizes, num_warps=state.sizes.num_warps
    )


evict_blocks_torch = forget_torch


@triton.jit
def evict_kernel(a, blocks, n, z: tl.constexpr):
    """One program, `lanes` blocks a turn."""
    lane = tl.arange(0, z.lanes)
    base = tl.zeros([], tl.int32)
    while base < n:
        there = base + lane < n
        block = tl.load(blocks + base + lane, mask=there, other=0)
        forget(a, block, there)
        base += z.lanes
