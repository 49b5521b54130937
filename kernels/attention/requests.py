"""Which request a token or a tile belongs to, and whether its metadata can be trusted."""

import triton
import triton.language as tl

from nullblock.kernels.errors import BLOCK, COUNT
from nullblock.kernels.index import first_tile

COUNTS = (
    "num_tokens",
    "num_heads",
    "num_blocks",
    "num_reqs",
    "longest",
    "split",
    "prefix",
    "prefix_slots",
    "slots",
)
"""What changes from step to step. No kernel is compiled anew because one of them is 1, or a
multiple of 16; strides are what alignment is read from."""


@triton.jit
def request_of(place, starts, last, WIDTH: tl.constexpr, BITS: tl.constexpr):
    """The last request from 0 to ``last`` that begins at ``place`` or before it.

    Without WIDTH ``place`` is a token: that is whose it is. With WIDTH it is a tile of so many
    tokens (``first_tile``). A search by bits; ``last < 2**BITS``.
    """
    found = place * 0
    for bit in tl.static_range(BITS):
        request = found + (1 << (BITS - 1 - bit))
        inside = request <= last
        start = tl.load(starts + request, mask=inside, other=0)
        if WIDTH is not None:
            start = first_tile(start, request, WIDTH)
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
def scaled(factor, scale):
    """A factor, times what stands on the device; None if nothing does."""
    if scale is not None:
        factor = factor * tl.load(scale)
    return factor


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
