"""What the attention kernels share on the device: rows of queries against tiles of keys.

A program holds some rows, each a query head of a token, in the order of heads. It goes through the
keys of one key/value head in tiles, and keeps for each row the softmax of what it has seen:

    top    [ROWS]             the largest score yet, times log2(e); -inf before the first
    total  [ROWS]             the sum of 2**(score - top)
    acc    [ROWS, HEAD_PAD]   the sum of 2**(score - top) * value

Scores, sums and the accumulator are float32 whatever the cache holds. Row ``i`` sees the first
``seen[i]`` keys of its request; a tile that a row sees nothing of leaves that row's bits as they
were. Multiply-adds are spelled out, so that a tile gives the same bits with and without masks, and
a row the same bits in any company.
"""

import triton
import triton.language as tl

from nullblock.kernels.index import block_index, block_offset, cache_entry, head_entry, row_entry

LN_2 = tl.constexpr(0.6931471805599453)


@triton.jit
def nothing_seen(ROWS: tl.constexpr, HEAD_PAD: tl.constexpr):
    """The softmax of no key."""
    top = tl.full([ROWS], float("-inf"), tl.float32)
    return top, tl.zeros([ROWS], tl.float32), tl.zeros([ROWS, HEAD_PAD], tl.float32)


@triton.jit
def load_rows(base, token, head, valid, token_stride, head_stride, HEAD_SIZE, HEAD_PAD, COMPUTE):
    """Query rows ``[ROWS, HEAD_PAD]``; 0 where a row is not valid and past the head's end."""
    column = tl.arange(0, HEAD_PAD)
    row = head_entry(token.to(tl.int64), head.to(tl.int64), token_stride, head_stride)
    mask = valid[:, None] & (column < HEAD_SIZE)[None, :]
    return tl.load(base + row[:, None] + column[None, :], mask=mask, other=0.0).to(COMPUTE)


@triton.jit
def load_keys(cache, block, offset, known, strides, HEAD_SIZE, HEAD_PAD, COMPUTE):
    """A tile of keys or values ``[TILE, HEAD_PAD]``; 0 where the token is not known.

    ``cache`` points to the head's first row. Offsets have 64 bits: a pool may pass 2**31 elements.
    """
    column = tl.arange(0, HEAD_PAD)
    row = cache_entry(block.to(tl.int64), offset.to(tl.int64), 0, 0, strides[0], strides[1], 0)
    mask = known[:, None] & (column < HEAD_SIZE)[None, :]
    return tl.load(cache + row[:, None] + column[None, :], mask=mask, other=0.0).to(COMPUTE)


@triton.jit
def blocks_of(table, at, end, BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr):
    """The blocks of a tile of tokens, from token ``at``; of those from ``end`` on, any."""
    token = at + tl.arange(0, TILE)
    return tl.load(table + block_index(token, BLOCK_SIZE), mask=token < end, other=1)


@triton.jit
def absorb(
    top, total, acc, wrong, block,
    query, seen, at, end, keys, values, key_strides, value_strides, num_blocks, scale,
    BLOCK_SIZE: tl.constexpr, HEAD_SIZE: tl.constexpr, HEAD_PAD: tl.constexpr,
    TILE: tl.constexpr, COMPUTE: tl.constexpr, MASKED: tl.constexpr,
):  # fmt: skip
    """One tile of keys, from token ``at`` in blocks ``block``; ``wrong`` collects lanes whose
    block is none.

    Without MASKED every row sees every key of the tile.
    """
    token = at + tl.arange(0, TILE)
    # Block 0, the null block, holds no token: a table that nobody filled in names it.
    known = (block > 0) & (block < num_blocks)
    if MASKED:
        inside = token < end
        wrong |= (inside & (known == 0)).to(tl.int32)
        known = known & inside
    else:
        wrong |= (known == 0).to(tl.int32)
    offset = block_offset(token, BLOCK_SIZE)
    key = load_keys(keys, block, offset, known, key_strides, HEAD_SIZE, HEAD_PAD, COMPUTE)
    score = tl.dot(query, tl.trans(key), input_precision="ieee")
    if MASKED:
        score = tl.where(token[None, :] < seen[:, None], score, float("-inf"))
    new_top = tl.maximum(top, tl.max(score, 1) * scale)
    # A row that has seen nothing: 0 instead of -inf, which subtracted from itself is no number.
    level = tl.where(new_top == float("-inf"), 0.0, new_top)
    weight = tl.exp2(tl.fma(score, scale, -level[:, None]))
    fade = tl.exp2(top - level)
    total = tl.fma(total, fade, tl.sum(weight, 1))
    value = load_keys(values, block, offset, known, value_strides, HEAD_SIZE, HEAD_PAD, COMPUTE)
    acc = acc * fade[:, None]
    acc = tl.dot(weight.to(COMPUTE), value, acc, input_precision="ieee")
    return new_top, total, acc, wrong


@triton.jit
def attend(
    query, seen, begin, least, end,
    table, keys, values, key_strides, value_strides, num_blocks, scale,
    BLOCK_SIZE: tl.constexpr, HEAD_SIZE: tl.constexpr, HEAD_PAD: tl.constexpr,
    ROWS: tl.constexpr, TILE: tl.constexpr, COMPUTE: tl.constexpr,
):  # fmt: skip
    """The keys of tokens ``begin`` to ``end - 1``; every row sees those before ``least``.

    Returns the softmax and whether a block was none. Both loops are bounded by ``end``, which the
    caller keeps within the block table. A tile's blocks are loaded while the one before is worked
    on, so that loads of keys wait for no other load.
    """
    top, total, acc = nothing_seen(ROWS, HEAD_PAD)
    wrong = tl.zeros([TILE], tl.int32)
    seen = tl.minimum(seen, end)
    full = begin + tl.maximum(tl.minimum(least, end) - begin, 0) // TILE * TILE
    block = blocks_of(table, begin, end, BLOCK_SIZE, TILE)
    for at in range(begin, full, TILE):
        next_block = blocks_of(table, at + TILE, end, BLOCK_SIZE, TILE)
        top, total, acc, wrong = absorb(
            top, total, acc, wrong, block,
            query, seen, at, end, keys, values, key_strides, value_strides, num_blocks,
            scale, BLOCK_SIZE, HEAD_SIZE, HEAD_PAD, TILE, COMPUTE, False,
        )  # fmt: skip
        block = next_block
    for at in range(full, end, TILE):
        next_block = blocks_of(table, at + TILE, end, BLOCK_SIZE, TILE)
        top, total, acc, wrong = absorb(
            top, total, acc, wrong, block,
            query, seen, at, end, keys, values, key_strides, value_strides, num_blocks,
            scale, BLOCK_SIZE, HEAD_SIZE, HEAD_PAD, TILE, COMPUTE, True,
        )  # fmt: skip
        block = next_block
    return top, total, acc, tl.max(wrong, 0) > 0


@triton.jit
def rounded(x, DTYPE: tl.constexpr):
    """float32 to another type, to nearest, ties to even: also bfloat16 in the interpreter, whose
    own conversion cuts off."""
    if DTYPE == tl.bfloat16:
        bits = x.to(tl.uint32, bitcast=True)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
        # A NaN's bits may be all ones, and would wrap around.
        bits = tl.where(x == x, bits, 0x7FC0)
        return bits.to(tl.uint16).to(tl.bfloat16, bitcast=True)
    return x.to(DTYPE)


@triton.jit
def store_rows(
    out, lse, top, total, acc, refused, token, head, valid, value_scale,
    token_stride, head_stride, num_heads, HEAD_SIZE: tl.constexpr, HEAD_PAD: tl.constexpr,
):  # fmt: skip
    """The result of rows: 0 and -inf of those that saw nothing, NaN of a refused request."""
    column = tl.arange(0, HEAD_PAD)
    something = tl.where(total == 0.0, 1.0, total)
    share = value_scale / something
    poison = tl.where(refused, float("nan"), 0.0)
    result = acc * share[:, None] + poison
    row = head_entry(token.to(tl.int64), head.to(tl.int64), token_stride, head_stride)
    mask = valid[:, None] & (column < HEAD_SIZE)[None, :]
    tl.store(
        out + row[:, None] + column[None, :], rounded(result, out.dtype.element_ty), mask=mask
    )
    if lse is not None:
        logs = (top + tl.log2(something)) * LN_2 + poison
        tl.store(lse + row_entry(token.to(tl.int64), num_heads, head), logs, mask=valid)
