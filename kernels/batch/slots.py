"""Every token of a batch gets its id, its position and its slot: prefills and decodes alike.

Lanes are tokens, not requests: a decode is one lane and a prompt of a thousand tokens is a
thousand, so that a mixed batch keeps all programs equally busy. A lane finds its request by
bisection in ``query_start_loc``.
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels import errors, index
from nullblock.kernels.arguments import Backend, check_error, lanes, use_triton
from nullblock.kernels.batch.layout import PAD_SLOT, Batch, Inputs, Requests
from nullblock.kernels.batch.search import last_not_above
from nullblock.kernels.errors import BLOCK, ROW, TABLE, Error, report
from nullblock.kernels.index import (
    block_index,
    block_offset,
    row_entry,
    slot_index,
    tile_entry,
    token_position,
)
from nullblock.kernels.twins import load

MOST_LANES = 1024
PAD: tl.constexpr = tl.constexpr(PAD_SLOT)


def place_tokens(
    requests: Requests,
    batch: Batch,
    inputs: Inputs,
    error: torch.Tensor,
    *,
    block_size: int,
    num_blocks: int,
    backend: Backend = "auto",
) -> None:
    """Write ``input_ids``, ``positions`` and ``slot_mapping`` for a batch, padding included.

    Needs ``query_start_loc`` (`compute_lengths`). Token t of request i stands at position
    ``num_computed_tokens + t - query_start_loc[i]``; its slot is that position's place in the
    block of its table (TABLE-8: there is one). `num_blocks` is the size of the pool, of which
    block 0 is the null block. Sets ROW, TABLE, BLOCK in the error word; such tokens get PAD_SLOT.
    Raises ValueError for tensors that do not belong together.
    """
    device = requests.check()
    batch.check(device)
    inputs.check(batch, device)
    check_error(error, device)
    if block_size < 1:
        raise ValueError(f"block_size is {block_size}: give at least 1")
    if not use_triton(error, backend):
        place_tokens_torch(
            requests, batch, inputs, error, block_size=block_size, num_blocks=num_blocks
        )
        return
    most, room = batch.rows.shape[0], inputs.positions.shape[0]
    if not room:
        return
    width = lanes(room, MOST_LANES)
    _slots_kernel[(triton.cdiv(room, width),)](
        batch.rows,
        inputs.query_start_loc,
        requests.num_computed_tokens,
        requests.token_ids,
        requests.token_ids.stride(0),
        requests.token_ids.shape[1],
        requests.block_table,
        requests.block_table.stride(0),
        requests.block_table.shape[1],
        requests.num_blocks,
        inputs.input_ids,
        inputs.positions,
        inputs.slot_mapping,
        error,
        most,
        requests.num_blocks.shape[0],
        room,
        num_blocks,
        BLOCK_SIZE=block_size,
        TURNS=most.bit_length(),
        W=width,
        num_warps=4,
    )


def place_tokens_torch(
    requests: Requests,
    batch: Batch,
    inputs: Inputs,
    error: torch.Tensor,
    *,
    block_size: int,
    num_blocks: int,
) -> None:
    """Find each token's request in ``query_start_loc``, then look everything up."""
    starts = inputs.query_start_loc
    token = torch.arange(inputs.positions.shape[0], device=starts.device)
    there = token < starts[-1]
    place = torch.searchsorted(starts, token, right=True, out_int32=False) - 1
    row = load(batch.rows, there, place)
    known = (row >= 0) & (row < requests.num_blocks.shape[0])
    errors.report_torch(error, there & ~known, Error.ROW)
    there &= known
    computed = load(requests.num_computed_tokens, there, row).long()
    start = load(starts, there, place)
    position = torch.where(there, index.token_position.fn(computed, token, start), 0)
    column = index.block_index.fn(position, block_size)
    has = load(requests.num_blocks, there, row).clamp(max=requests.block_table.shape[1])
    fits = there & (position >= 0) & (position < requests.token_ids.shape[1]) & (column < has)
    errors.report_torch(error, there & ~fits, Error.TABLE)
    block = load(requests.block_table, fits, row, column).long()
    good = fits & (block > 0) & (block < num_blocks)
    errors.report_torch(error, fits & ~good, Error.BLOCK)
    slot = index.slot_index.fn(block, index.block_offset.fn(position, block_size), block_size)
    inputs.input_ids[:] = load(requests.token_ids, fits, row, position)
    inputs.positions[:] = torch.where(fits, position, 0)
    inputs.slot_mapping[:] = torch.where(good, slot, PAD_SLOT)


@triton.jit
def _slots_kernel(
    rows, query_start_loc, num_computed, token_ids, token_stride, max_model_len,
    block_table, table_stride, columns, filled, input_ids, positions, slot_mapping, error,
    most, num_rows, room, num_blocks,
    BLOCK_SIZE: tl.constexpr, TURNS: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    token = tile_entry(tl.program_id(0), W, tl.arange(0, W))
    there = (token < tl.load(query_start_loc + most)) & (token < room)
    place = last_not_above(query_start_loc, token, there, most, TURNS)
    row = tl.load(rows + place, mask=there, other=0).to(tl.int64)
    unknown = there & ((row < 0) | (row >= num_rows))
    there = there & (unknown == 0)
    start = tl.load(query_start_loc + place, mask=there, other=0)
    computed = tl.load(num_computed + row, mask=there, other=0).to(tl.int64)
    position = tl.where(there, token_position(computed, token, start), 0)
    column = block_index(position, BLOCK_SIZE)
    has = tl.minimum(tl.load(filled + row, mask=there, other=0), columns)
    fits = there & (position >= 0) & (position < max_model_len) & (column < has)
    at = row_entry(row, table_stride, column)
    block = tl.load(block_table + at, mask=fits, other=0).to(tl.int64)
    at = row_entry(row, token_stride, position)
    ids = tl.load(token_ids + at, mask=fits, other=0)
    good = fits & (block > 0) & (block < num_blocks)
    slot = slot_index(block, block_offset(position, BLOCK_SIZE), BLOCK_SIZE)
    tl.store(input_ids + token, tl.where(fits, ids, 0), mask=token < room)
    tl.store(positions + token, tl.where(fits, position, 0), mask=token < room)
    tl.store(slot_mapping + token, tl.where(good, slot, PAD), mask=token < room)
    # One reduction says that all is well, as it nearly always is.
    if tl.max((unknown | (there & (good == 0))).to(tl.int32), 0) > 0:
        report(error, unknown, ROW)
        report(error, there & (fits == 0), TABLE)
        report(error, fits & (good == 0), BLOCK)
