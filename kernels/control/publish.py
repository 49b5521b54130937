"""Blocks that a step fills are cached at once, before they are computed (HASH-12)."""

import torch
import triton
import triton.language as tl

from nullblock.kernels.control.cache import insert, insert_torch, make_index_room
from nullblock.kernels.control.faults import COUNT, bounded
from nullblock.kernels.control.keys import add_key, load_keys, name_row_torch
from nullblock.kernels.control.runs import entry_of, lay_out, run_of
from nullblock.kernels.control.state import State
from nullblock.kernels.control.words import SLOTS_USED, STAMP
from nullblock.kernels.index import row_entry


@triton.jit
def publish(a, first, last, z: tl.constexpr):
    """Cache what the running requests from place `first` to `last` fill with the tokens that they
    are granted, one request after another (HASH-12)."""
    items, runs = _fills(a, first, last, z)
    if items > 0:
        stamp = tl.load(a.words + STAMP)
        used = tl.load(a.words + SLOTS_USED).to(tl.int32)
        used = make_index_room(a, used, items, z)
        lane = tl.arange(0, z.lanes)
        base = tl.zeros([], tl.int32)
        while base < items:
            item = base + lane
            there = item < items
            row, column = entry_of(a, item, run_of(a, item, there, items, runs, z), there)
            entry = row_entry(row.to(tl.int64), z.row_blocks, column)
            block = tl.load(a.requests.table + entry, mask=there, other=0)
            key, second = load_keys(a, row, column, there, z)
            used += insert(a, block, key, second, there, stamp + base, z)
            base += z.lanes
        tl.debug_barrier()
        tl.store(a.words + STAMP, stamp + items)
        tl.store(a.words + SLOTS_USED, used.to(tl.int64))
        tl.debug_barrier()


@triton.jit
def _fills(a, first, last, z: tl.constexpr):
    """Lay out runs of the blocks that are to be cached, their keys computed; how many items and
    runs there are."""
    lane = tl.arange(0, z.request_lanes)
    there = (lane >= first) & (lane < last)
    row = tl.load(a.queues.running + lane, mask=there, other=0)
    computed = tl.load(a.requests.num_computed + row, mask=there, other=0)
    granted = tl.load(a.requests.granted + row, mask=there, other=0)
    num_tokens = tl.load(a.requests.num_tokens + row, mask=there, other=0)
    full = tl.minimum(computed + granted, num_tokens) // z.block_size
    cached = tl.load(a.requests.num_cached + row, mask=there, other=0)
    there = there & (full > cached)
    _name(a, row, there, full, z)
    # Of a prompt longer than max_model_len vLLM 0.22.1 counts blocks that it does not have.
    held = tl.load(a.requests.num_blocks + row, mask=there, other=0)
    tl.store(a.requests.num_cached + row, full, mask=there)
    return lay_out(a, row, cached, tl.maximum(tl.minimum(full, held) - cached, 0), there, z)


@triton.jit
def _name(a, row, there, full, z: tl.constexpr):
    """Compute the keys that the leading `full` blocks lack, one of each request a turn: a decode
    takes one turn, and only for those that need it."""
    known = tl.load(a.requests.num_keys + row, mask=there, other=0)
    lacking = tl.where(there, tl.maximum(full - known, 0), 0)
    tl.store(a.requests.num_keys + row, full, mask=lacking > 0)
    turns = bounded(a, tl.max(lacking, 0), z.row_blocks, COUNT)
    lane = tl.arange(0, z.key_lanes)
    turn = tl.zeros([], tl.int32)
    while turn < turns:
        items, runs = lay_out(a, row, known + turn, (lacking > turn).to(tl.int32), there, z)
        base = tl.zeros([], tl.int32)
        while base < items:
            some = base + lane < items
            of, column = entry_of(a, base + lane, base + lane, some)
            add_key(a, of, column, some, z)
            base += z.key_lanes
        turn += 1


def publish_torch(state: State, row: int, full: int) -> None:
    """Cache the leading `full` blocks of one request, as far as they are not and it has them."""
    requests = state.arrays.requests
    name_row_torch(state, row)
    first, last = int(requests.num_cached[row]), min(full, int(requests.num_blocks[row]))
    if first < last:
        blocks: torch.Tensor = requests.table[row, first:last]
        insert_torch(state, blocks, requests.keys[row, first:last])
    requests.num_cached[row] = full
