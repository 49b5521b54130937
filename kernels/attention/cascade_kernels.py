"""The programs of shared-prefix attention; what they are for: ``cascade.py``."""

import triton
import triton.language as tl

from nullblock.kernels.attention.partials import combine_row, store_partial
from nullblock.kernels.attention.requests import (
    COUNTS,
    is_refused,
    report,
    request_of,
    scaled,
    splits_of,
)
from nullblock.kernels.attention.tiles import attend, load_rows
from nullblock.kernels.index import tile_entry


@triton.jit(do_not_specialize=COUNTS)
def prefix_kernel(
    query, keys, values, block_table, seq_lens, starts, out, lse, error,
    key_scale, value_scale,
    partial_acc, partial_top, partial_total,
    key_factor, value_factor, num_tokens, num_heads, num_blocks, num_reqs, longest,
    prefix, split, slots,
    query_token, query_head, key_block, key_slot, key_head, value_block, value_slot, value_head,
    table_row, out_token, out_head,
    GROUP: tl.constexpr, BLOCK_SIZE: tl.constexpr, HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, COMPUTE: tl.constexpr,
    BITS: tl.constexpr,
):  # fmt: skip
    """Program (tile and kv head, split): some tokens, of any requests, against some of the prefix.

    The blocks are those of the first row of the block table. Writes partials to slot ``split``.
    """
    TOKENS: tl.constexpr = ROWS // GROUP
    kv_heads = num_heads // GROUP
    kv_head = tl.program_id(0) % kv_heads
    tile = tl.program_id(0) // kv_heads
    slot = tl.program_id(1)
    row = tl.arange(0, ROWS)
    token = tile_entry(tile, TOKENS, row // GROUP)
    head = kv_head * GROUP + row % GROUP
    valid = (row < TOKENS * GROUP) & (token < num_tokens)
    request = request_of(token, starts, num_reqs, None, BITS)
    valid = valid & (request < num_reqs)
    start = tl.load(starts + request, mask=valid, other=0)
    count = tl.load(starts + request + 1, mask=valid, other=0) - start
    length = tl.load(seq_lens + request, mask=valid, other=0)
    valid = valid & (is_refused(length, start, count, num_tokens, longest) == 0)
    # Inside the prefix a token sees no further than itself; padding sees all, and is not stored.
    seen = length - count + (token - start) + 1
    begin = slot * split
    stop = tl.minimum(begin + split, prefix)
    end = tl.minimum(stop, tl.max(tl.where(valid, seen, 0), 0))
    least = tl.min(tl.where(valid, seen, end), 0)
    scale = scaled(key_factor, key_scale)
    rows = load_rows(
        query, token, head, valid, query_token, query_head, HEAD_SIZE, HEAD_PAD, COMPUTE
    )
    top, total, acc, broken = attend(
        rows, tl.where(valid, seen, end), begin, least, end, block_table,
        keys + kv_head.to(tl.int64) * key_head, values + kv_head.to(tl.int64) * value_head,
        (key_block, key_slot), (value_block, value_slot), num_blocks, scale,
        BLOCK_SIZE, HEAD_SIZE, HEAD_PAD, ROWS, TILE, COMPUTE,
    )  # fmt: skip
    report(error, False, broken)
    store_partial(
        partial_acc, partial_top, partial_total, slot, slots,
        top, total, acc, broken, token, head, valid, num_heads, HEAD_SIZE, HEAD_PAD,
    )  # fmt: skip


@triton.jit(do_not_specialize=COUNTS)
def cascade_combine_kernel(
    partial_acc, partial_top, partial_total, seq_lens, starts, out, lse,
    value_scale, value_factor, num_tokens, num_heads, num_reqs, longest, split, prefix,
    prefix_slots, slots, out_token, out_head,
    HEAD_SIZE: tl.constexpr, HEAD_PAD: tl.constexpr, BITS: tl.constexpr,
):  # fmt: skip
    """Program (token, query head): what it found in the prefix, and in its own keys.

    A decode has a partial for each split of its own keys, a token of a chunk has one. A refused
    request has no partial of the prefix, and one of its own, which is no number.
    """
    token = tl.program_id(0)
    head = tl.program_id(1)
    request = request_of(token, starts, num_reqs, None, BITS)
    if request < num_reqs:
        start = tl.load(starts + request)
        count = tl.load(starts + request + 1) - start
        length = tl.load(seq_lens + request)
        refused = is_refused(length, start, count, num_tokens, longest)
        own = tl.where(count == 1, splits_of(tl.where(refused, 0, length), prefix, split), 1)
        combine_row(
            partial_acc, partial_top, partial_total,
            tl.where(refused, prefix_slots, 0), prefix_slots + own, slots, token, head, num_heads,
            out, lse, scaled(value_factor, value_scale), out_token, out_head, HEAD_SIZE, HEAD_PAD,
        )  # fmt: skip
