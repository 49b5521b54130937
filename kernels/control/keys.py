"""Keys: what a full block is cached under, so that equal keys mean equal content (HASH-1).

The content of a block is all that comes before it, its tokens, and what else tells it apart
(`Requests.extra`). As a polynomial it has, for block j of a request, the coefficients

    extra, token + 1, token + 1, ...    at the powers    j * (block_size + 1), and on

over the integers modulo PRIME = 2**61 - 1. The key is the value of that polynomial at two secret
points, drawn when the engine is made; the first is stored plus one, so that no key is (0, 0).

Two different contents are two different polynomials (the last coefficient is not zero), and their
difference has at most n roots, n the number of their coefficients. So for any two contents of up
to n tokens and extras, chosen without knowledge of the points, the probability over the points
that their keys are equal is at most (n / PRIME) ** 2: for a million tokens 2**-82. That is what
stands here for the specification's ideal hash; the NumPy engine, which compares tokens, needs no
such assumption. Keys must not be shown to strangers.

The key of a block is the key of the one before it plus what the block itself contributes: so keys
of a whole prompt are one prefix sum.
"""

import triton
import triton.language as tl

from nullblock.kernels.control.faults import COUNT, bounded
from nullblock.kernels.control.state import State
from nullblock.kernels.control.weights import PRIME
from nullblock.kernels.index import row_entry

_PRIME = tl.constexpr(PRIME)
_LOW = tl.constexpr((1 << 30) - 1)
"""Sums of numbers modulo PRIME are taken of their low 30 bits and of the others."""


@triton.jit
def reduced(x):
    """A number below 2**63, modulo PRIME."""
    x = (x & _PRIME) + (x >> 61)
    return tl.where(x >= _PRIME, x - _PRIME, x)


@triton.jit
def times(x, y):
    """A product modulo PRIME, of uint64 below PRIME. 2**61 is 1 there, and so 2**64 is 8."""
    low = x * y
    return reduced((low & _PRIME) + ((low >> 61) | (tl.umulhi(x, y) << 3)))


@triton.jit
def joined(low, high):
    """A sum modulo PRIME: of the low 30 bits of some numbers, and of what stands above them."""
    # high * 2**30: what stands above bit 31 of it would stand above bit 61, where 2**61 is 1.
    low, high = low.to(tl.uint64), high.to(tl.uint64)
    return reduced(reduced(low) + reduced((high >> 31) + ((high & 0x7FFFFFFF) << 30)))


@triton.jit
def _value(a, tokens, first, column, there, point: tl.constexpr, z: tl.constexpr):
    """The values of blocks at a point: their tokens, one block a line, and first coefficients."""
    nth = tl.arange(0, z.block_lanes)
    weights = a.weights.inner + point * (z.block_size + 1) + 1 + nth
    weight = tl.load(weights, mask=nth < z.block_size, other=0).to(tl.uint64)
    terms = times(tokens, weight[None, :])
    low = tl.sum((terms & _LOW).to(tl.int64), 1)
    value = reduced(joined(low, tl.sum((terms >> 30).to(tl.int64), 1)) + first)
    outer = a.weights.outer + point * z.row_blocks + column
    return times(value, tl.load(outer, mask=there, other=0).to(tl.uint64))


@triton.jit
def contributions(a, row, column, there, z: tl.constexpr):
    """What full blocks contribute to the keys of their requests, for both points (HASH-1).

    `row`, `column`: of the blocks, one a lane. Returns two uint64 a lane below PRIME; 0 where not
    `there`.
    """
    row, column = row.to(tl.int64), column.to(tl.int64)
    extra = a.requests.extra + row_entry(row, 2, (column > 0).to(tl.int64))
    first = tl.load(extra, mask=there, other=0).to(tl.uint64)
    nth = tl.arange(0, z.block_lanes)
    at = row_entry(row, z.row_tokens, column * z.block_size)[:, None] + nth[None, :]
    inside = there[:, None] & (nth < z.block_size)[None, :]
    tokens = tl.load(a.requests.tokens + at, mask=inside, other=-1).to(tl.int64) + 1
    tokens = tokens.to(tl.uint64)
    return (
        _value(a, tokens, first, column, there, 0, z),
        _value(a, tokens, first, column, there, 1, z),
    )


@triton.jit
def load_keys(a, row, column, there, z: tl.constexpr):
    """The two words of keys, as they are stored; 0 where not `there`."""
    at = a.requests.keys + 2 * row_entry(row.to(tl.int64), z.row_blocks, column)
    return tl.load(at, mask=there, other=0), tl.load(at + 1, mask=there, other=0)


@triton.jit
def store_keys(a, row, column, first, second, there, z: tl.constexpr):
    """Store sums at the two points as the words of keys."""
    at = a.requests.keys + 2 * row_entry(row.to(tl.int64), z.row_blocks, column)
    tl.store(at, first.to(tl.int64) + 1, mask=there)
    tl.store(at + 1, second.to(tl.int64), mask=there)


@triton.jit
def add_key(a, row, column, there, z: tl.constexpr):
    """The keys of full blocks, one a lane, behind keys that are known (HASH-12)."""
    after = there & (column > 0)
    before, second_before = load_keys(a, row, column - 1, after, z)
    before = tl.where(after, before - 1, 0)
    first, second = contributions(a, row, column, there, z)
    first = reduced(first + before.to(tl.uint64))
    second = reduced(second + second_before.to(tl.uint64))
    store_keys(a, row, column, first, second, there, z)


@triton.jit
def sums(x):
    """Prefix sums modulo PRIME over the lanes, of uint64 below PRIME."""
    return joined(tl.cumsum((x & _LOW).to(tl.int64), 0), tl.cumsum((x >> 30).to(tl.int64), 0))


@triton.jit
def last_lane(x, z: tl.constexpr):
    """What stands in the last lane."""
    return tl.sum(tl.where(tl.arange(0, z.key_lanes) == z.key_lanes - 1, x.to(tl.int64), 0), 0)


@triton.jit
def name_row(a, row, z: tl.constexpr):
    """All keys of one request that are not known yet: one prefix sum (HASH-1)."""
    known = bounded(a, tl.load(a.requests.num_keys + row), z.row_blocks, COUNT)
    num_tokens = bounded(a, tl.load(a.requests.num_tokens + row), z.row_tokens, COUNT)
    full = num_tokens // z.block_size
    lane = tl.arange(0, z.key_lanes)
    before, second_before = load_keys(a, row, known - 1, known > 0, z)
    before = tl.where(known > 0, before - 1, 0)
    base = known
    while base < full:
        column = base + lane
        there = column < full
        first, second = contributions(a, row + lane * 0, column, there, z)
        first = reduced(sums(first) + before.to(tl.uint64))
        second = reduced(sums(second) + second_before.to(tl.uint64))
        store_keys(a, row + lane * 0, column, first, second, there, z)
        before, second_before = last_lane(first, z), last_lane(second, z)
        base += z.key_lanes
    tl.debug_barrier()  # all threads have read what is written now
    tl.store(a.requests.num_keys + row, tl.maximum(full, known))
    tl.debug_barrier()


# The twins' part --------------------------------------------------------------------------------


def name_row_torch(state: State, row: int) -> None:
    """All keys of one request that are not known yet, by the definition above."""
    requests, size = state.arrays.requests, state.sizes.block_size
    known, full = int(requests.num_keys[row]), int(requests.num_tokens[row]) // size
    for column in range(known, full):
        tokens = requests.tokens[row, column * size : (column + 1) * size].tolist()
        extra = int(requests.extra[row, min(column, 1)])
        coefficients = [extra, *(token + 1 for token in tokens)]
        for point in range(2):
            inner = state.arrays.weights.inner[point].tolist()
            outer = int(state.arrays.weights.outer[point, column])
            value = sum(c * w for c, w in zip(coefficients, inner, strict=True)) * outer
            if column:
                value += int(requests.keys[row, column - 1, point]) - (1 - point)
            requests.keys[row, column, point] = value % PRIME + (1 - point)
    requests.num_keys[row] = max(known, full)
