"""The programs of paged decode attention; what they are for, and by which rules: ``decode.py``."""

import triton
import triton.language as tl

from nullblock.kernels.attention.partials import combine_row, store_partial
from nullblock.kernels.attention.requests import COUNTS, is_refused, report, scaled, splits_of
from nullblock.kernels.attention.tiles import attend, load_rows, store_rows


@triton.jit
def query_of(request, starts):
    """The first token of a request in the query, and how many it has there."""
    if starts is None:
        start = request
        count = request * 0 + 1
    else:
        start = tl.load(starts + request)
        count = tl.load(starts + request + 1) - start
    return start, count


@triton.jit(do_not_specialize=COUNTS)
def decode_kernel(
    query, keys, values, block_table, seq_lens, starts, out, lse, error,
    key_scale, value_scale,
    partial_acc, partial_top, partial_total,
    key_factor, value_factor, num_tokens, num_heads, num_blocks, longest, split,
    prefix, prefix_slots, slots,
    query_token, query_head, key_block, key_slot, key_head, value_block, value_slot, value_head,
    table_row, out_token, out_head,
    GROUP: tl.constexpr, BLOCK_SIZE: tl.constexpr, HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, COMPUTE: tl.constexpr,
    CASCADE: tl.constexpr,
):  # fmt: skip
    """Program (kv head, split, request): the query heads of one token against one split of keys.

    A request of one split writes its result, one of more writes partials. Requests with more than
    one token in the query are another kernel's; their metadata is checked here.
    """
    kv_head = tl.program_id(0)
    own = tl.program_id(1)
    request = tl.program_id(2)
    start, count = query_of(request, starts)
    length = tl.load(seq_lens + request)
    refused = is_refused(length, start, count, num_tokens, longest)
    report(error, refused & (own == 0) & (kv_head == 0), False)
    length = tl.where(refused, 0, length)
    splits = splits_of(length, prefix, split)
    if (count == 1) & (start >= 0) & (start < num_tokens) & (own < splits):
        row = tl.arange(0, ROWS)
        token = start + row * 0
        head = kv_head * GROUP + row
        valid = row < GROUP
        begin = prefix + own * split
        end = tl.minimum(begin + split, length)
        scale = scaled(key_factor, key_scale)
        rows = load_rows(
            query, token, head, valid, query_token, query_head, HEAD_SIZE, HEAD_PAD, COMPUTE
        )
        top, total, acc, broken = attend(
            rows, length + row * 0, begin, end, end,
            block_table + request.to(tl.int64) * table_row,
            keys + kv_head.to(tl.int64) * key_head, values + kv_head.to(tl.int64) * value_head,
            (key_block, key_slot), (value_block, value_slot), num_blocks, scale,
            BLOCK_SIZE, HEAD_SIZE, HEAD_PAD, ROWS, TILE, COMPUTE,
        )  # fmt: skip
        report(error, False, broken)
        refused = refused | broken
        if CASCADE or splits > 1:
            store_partial(
                partial_acc, partial_top, partial_total, prefix_slots + own, slots,
                top, total, acc, refused, token, head, valid, num_heads, HEAD_SIZE, HEAD_PAD,
            )  # fmt: skip
        else:
            store_rows(
                out, lse, top, total, acc, refused, token, head, valid,
                scaled(value_factor, value_scale),
                out_token, out_head, num_heads, HEAD_SIZE, HEAD_PAD,
            )  # fmt: skip


@triton.jit(do_not_specialize=COUNTS)
def combine_kernel(
    partial_acc, partial_top, partial_total, seq_lens, starts, out, lse,
    value_scale, value_factor, num_tokens, num_heads, longest, split, slots, out_token, out_head,
    HEAD_SIZE: tl.constexpr, HEAD_PAD: tl.constexpr,
):  # fmt: skip
    """Program (query head, request): the sum of the splits of a request that has several."""
    head = tl.program_id(0)
    request = tl.program_id(1)
    start, count = query_of(request, starts)
    length = tl.load(seq_lens + request)
    refused = is_refused(length, start, count, num_tokens, longest)
    splits = splits_of(tl.where(refused, 0, length), 0, split)
    if (count == 1) & (splits > 1):
        combine_row(
            partial_acc, partial_top, partial_total, 0, splits, slots, start, head, num_heads,
            out, lse, scaled(value_factor, value_scale), out_token, out_head, HEAD_SIZE, HEAD_PAD,
        )  # fmt: skip
