"""Finding the piece of a ragged array that something belongs to."""

import triton
import triton.language as tl


@triton.jit
def last_not_above(starts, wanted, there, count, TURNS: tl.constexpr):
    """By bisection, the last i < `count` with ``starts[i] <= wanted``, or 0. Of pieces that start
    at the same place that is the one which is not empty. TURNS: bits of `count`."""
    low = wanted * 0
    high = low + count
    for _ in range(TURNS):
        middle = (low + high) // 2
        inside = there & (high - low > 1)
        right = inside & (tl.load(starts + middle, mask=inside, other=0) <= wanted)
        low = tl.where(right, middle, low)
        high = tl.where(inside & (right == 0), middle, high)
    return low
