"""The holes of the free queue, closed: other kernels do it themselves when the ring is full."""

import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend, use_triton
from nullblock.kernels.control.ring import (
    close_holes,
    close_holes_torch,
    load_queue,
    store_queue,
)
from nullblock.kernels.control.state import State


def compact_queue(state: State, backend: Backend = "auto") -> None:
    """Move all free blocks together, in their order (QUEUE-10)."""
    if not use_triton(state.arrays.words, backend):
        return close_holes_torch(state)
    compact_kernel[(1,)](state.arrays, state.sizes, num_warps=state.sizes.num_warps)


compact_queue_torch = close_holes_torch


@triton.jit
def compact_kernel(a, z: tl.constexpr):
    """One program."""
    head, tail, free = load_queue(a, z)
    store_queue(a, head, close_holes(a, head, tail, z), free)
