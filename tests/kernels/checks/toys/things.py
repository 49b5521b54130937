"""Kernels: one that ships, one that does not compile, one that nobody declared."""

import triton
import triton.language as tl


@triton.jit
def _double(x):
    return x * 2


@triton.jit
def ships(x, out, n, WIDTH: tl.constexpr):
    """Declared, and compiles."""
    i = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    tl.store(out + i, _double(tl.load(x + i, mask=i < n, other=0)), mask=i < n)


@triton.jit
def breaks(x, WIDTH: tl.constexpr):
    """Declared; blocks that are no power of two do not compile."""
    tl.store(x + tl.arange(0, WIDTH), 0)


@triton.jit
def forgotten(x):
    """Nobody launches it."""
    tl.store(x, 0)
