"""Which request a token or a tile belongs to, and whether its metadata can be trusted."""

import triton
import triton.language as tl

from nullblock.kernels.errors import BLOCK, COUNT


@triton.jit
def request_of(place, starts, last, WIDTH: tl.constexpr, STEP: tl.constexpr, BITS: tl.constexpr):
    """The last request ``r`` in 0 to ``last`` with ``starts[r] // WIDTH + r * STEP <= place``.

    With WIDTH 1 and STEP 0 that is whose token ``place`` is. With STEP 1 it is whose tile: a
    request takes at most one tile more than its tokens fill, so that its first one is given by
    that expression, and no two requests share one. A search by bits; ``last < 2**BITS``.
    """
    found = place * 0
    for bit in tl.static_range(BITS):
        request = found + (1 << (BITS - 1 - bit))
        inside = request <= last
        start = tl.load(starts + request, mask=inside, other=0) // WIDTH + request * STEP
        found = tl.where(inside & (start <= place), request, found)
    return found


@triton.jit
def is_refused(length, start, count, num_tokens, longest):
    """Whether the tokens ``start`` to ``start + count - 1`` of the query, of a request of
    ``length`` tokens, are impossible. A request without a token in the query is nobody's concern.
    """
    outside = (start < 0) | (count < 0) | (count > num_tokens - start)
    too_long = (length < 0) | (length > longest)
    too_short = (length > 0) & (length < count)
    return (count != 0) & (outside | too_long | too_short)


@triton.jit
def report(error, count_wrong, block_wrong):
    """Set bits of the error word; None if nobody asked."""
    if error is not None:
        bits = tl.where(count_wrong, COUNT, 0) | tl.where(block_wrong, BLOCK, 0)
        if bits != 0:
            tl.atomic_or(error, bits)


@triton.jit
def splits_of(length, prefix, split):
    """Into how many splits a request's keys past the common prefix fall: at least one."""
    return tl.maximum((length - prefix + split - 1) // split, 1)
