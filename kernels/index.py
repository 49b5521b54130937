"""Where things stand in memory: every index expression of the kernels, stated once.

Each function is compiled into the kernels that use it, and its ``.fn`` is the same text as plain
Python arithmetic, so that a prover reads what the device runs. They take whatever has ``+``,
``-``, ``*``, ``//`` and ``%``: none converts a type or calls another.

Callers see to it that a product which may pass 2**31 is made of 64-bit integers. Operands are not
negative: there ``//`` and ``%`` mean the same on a device, in Python and in logic.
"""

import triton
import triton.language as tl  # noqa: F401  (the interpreter wants to see it here)


@triton.jit
def block_index(n, block_size):
    """Of the n-th token of a request, the column of its block table; of a slot, the block."""
    return n // block_size


@triton.jit
def block_offset(n, block_size):
    """The place of a token, or of a slot, within its block."""
    return n % block_size


@triton.jit
def slot_index(block, offset, block_size):
    """The slot of a place in a block: slots count the tokens that fit the pool."""
    return block * block_size + offset


@triton.jit
def row_entry(row, stride, column):
    """An entry of a matrix whose rows lie `stride` elements apart."""
    return row * stride + column


@triton.jit
def cache_entry(block, offset, head, column, block_stride, slot_stride, head_stride):
    """An element of a paged cache ``[blocks, block_size, heads, head_size]``, of any strides."""
    return block * block_stride + offset * slot_stride + head * head_stride + column


@triton.jit
def head_entry(token, head, token_stride, head_stride):
    """Where a token's head begins in a tensor ``[tokens, heads, ...]``, of any strides."""
    return token * token_stride + head * head_stride


@triton.jit
def first_tile(query_start, request, width):
    """The first tile of a request among tiles of `width` tokens, each of one request. A request
    has at most one tile more than its tokens fill, so no other request has this one."""
    return query_start // width + request


@triton.jit
def token_position(num_computed, token, query_start):
    """The position in its request of a batch's token, whose request begins at `query_start`."""
    return num_computed + (token - query_start)


@triton.jit
def blocks_for(num_tokens, block_size):
    """How many blocks hold so many tokens."""
    return (num_tokens + block_size - 1) // block_size


@triton.jit
def ring_place(position, capacity):
    """Where a queue's absolute position stands in a ring."""
    return position % capacity


@triton.jit
def tile_entry(tile, width, lane):
    """What a lane of a tile works on."""
    return tile * width + lane
