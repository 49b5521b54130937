"""The program of prefill attention; what it is for: ``mixed.py``."""

import triton
import triton.language as tl

from nullblock.kernels.attention.partials import store_partial
from nullblock.kernels.attention.requests import COUNTS, is_refused, report, request_of, scaled
from nullblock.kernels.attention.tiles import attend, load_rows, store_rows
from nullblock.kernels.index import first_tile


@triton.jit(do_not_specialize=COUNTS)
def prefill_kernel(
    query, keys, values, block_table, seq_lens, starts, out, lse, error,
    key_scale, value_scale,
    partial_acc, partial_top, partial_total,
    key_factor, value_factor, num_tokens, num_heads, num_blocks, num_reqs, longest,
    prefix, prefix_slots, slots,
    query_token, query_head, key_block, key_slot, key_head, value_block, value_slot, value_head,
    table_row, out_token, out_head,
    GROUP: tl.constexpr, BLOCK_SIZE: tl.constexpr, HEAD_SIZE: tl.constexpr,
    HEAD_PAD: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr, COMPUTE: tl.constexpr,
    CASCADE: tl.constexpr, BITS: tl.constexpr,
):  # fmt: skip
    """Program (tile and kv head): ``ROWS // GROUP`` tokens of one request, all their query heads.

    Tiles are taken from the last to the first: those with the most keys to see start first.
    Requests with one token in the query are another kernel's.
    """
    TOKENS: tl.constexpr = ROWS // GROUP
    kv_heads = num_heads // GROUP
    program = tl.num_programs(0) - 1 - tl.program_id(0)
    kv_head = program % kv_heads
    tile = program // kv_heads
    request = request_of(tile, starts, num_reqs - 1, TOKENS, BITS)
    start = tl.load(starts + request)
    count = tl.load(starts + request + 1) - start
    first = (tile - first_tile(start, request, TOKENS)) * TOKENS
    if (count != 1) & (first >= 0) & (first < count):
        length = tl.load(seq_lens + request)
        refused = is_refused(length, start, count, num_tokens, longest)
        length = tl.where(refused, 0, length)
        row = tl.arange(0, ROWS)
        place = first + row // GROUP
        token = start + place
        head = kv_head * GROUP + row % GROUP
        valid = (row < TOKENS * GROUP) & (place < count) & (token >= 0) & (token < num_tokens)
        past = length - count
        seen = past + place + 1
        end = tl.minimum(past + first + TOKENS, length)
        scale = scaled(key_factor, key_scale)
        rows = load_rows(
            query, token, head, valid, query_token, query_head, HEAD_SIZE, HEAD_PAD, COMPUTE
        )
        top, total, acc, broken = attend(
            rows, seen, prefix, past + first + 1, end,
            block_table + request.to(tl.int64) * table_row,
            keys + kv_head.to(tl.int64) * key_head, values + kv_head.to(tl.int64) * value_head,
            (key_block, key_slot), (value_block, value_slot), num_blocks, scale,
            BLOCK_SIZE, HEAD_SIZE, HEAD_PAD, ROWS, TILE, COMPUTE,
        )  # fmt: skip
        report(error, False, broken)
        refused = refused | broken
        if CASCADE:
            store_partial(
                partial_acc, partial_top, partial_total, prefix_slots, slots,
                top, total, acc, refused, token, head, valid, num_heads, HEAD_SIZE, HEAD_PAD,
            )  # fmt: skip
        else:
            store_rows(
                out, lse, top, total, acc, refused, token, head, valid,
                scaled(value_factor, value_scale),
                out_token, out_head, num_heads, HEAD_SIZE, HEAD_PAD,
            )  # fmt: skip
