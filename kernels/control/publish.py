"""Blocks that a step fills are cached at once, before they are computed (HASH-12)."""

import torch
import triton
import triton.language as tl

from nullblock.kernels.control.cache import insert, insert_torch, make_index_room
from nullblock.kernels.control.keys import add_key, load_keys, name_row_torch
from nullblock.kernels.control.runs import entry_of, lay_out, run_of
from nullblock.kernels.control.state import State
from nullblock.kernels.control.words import SLOTS_USED, STAMP
from nullblock.kernels.index import row_entry


@triton.jit
def publish(a, row, there, full, cached, held, z: tl.constexpr):
    """Cache what the requests of the lanes `there` have filled: of the leading `full` blocks those
    behind the `cached` ones, as far as they are held, one request after another.
    """
    _name(a, row, there, full, z)
    tl.store(a.requests.num_cached + row, full, mask=there)
    # Of a prompt longer than max_model_len vLLM 0.22.1 counts blocks that it does not have.
    count = tl.maximum(tl.minimum(full, held) - cached, 0)
    items, runs = lay_out(a, row, cached, count, there)
    if items > 0:
        stamp = tl.load(a.words + STAMP)
        used = tl.load(a.words + SLOTS_USED).to(tl.int32)
        used = make_index_room(a, used, items, z)
        lane = tl.arange(0, z.lanes)
        base = tl.zeros([], tl.int32)
        while base < items:
            item = base + lane
            some = item < items
            run = run_of(a, item, some, runs, z)
            of, column = entry_of(a, item, run, some)
            entry = row_entry(of.to(tl.int64), z.row_blocks, column)
            block = tl.load(a.requests.table + entry, mask=some, other=0)
            key, second = load_keys(a, of, column, some, z)
            used += insert(a, block, key, second, some, stamp + base, z)
            base += z.lanes
        tl.debug_barrier()
        tl.store(a.words + STAMP, stamp + items)
        tl.store(a.words + SLOTS_USED, used.to(tl.int64))
        tl.debug_barrier()


@triton.jit
def _name(a, row, there, full, z: tl.constexpr):
    """Compute the keys that the leading `full` blocks lack: in a decode, one at most."""
    known = tl.load(a.requests.num_keys + row, mask=there, other=0)
    lacks = there & (known < full)
    turns = tl.zeros([], tl.int32)
    while (tl.max(lacks.to(tl.int32), 0) > 0) & (turns < z.row_blocks):
        add_key(a, row, known, lacks, z)
        known += lacks.to(tl.int32)
        lacks = there & (known < full)
        turns += 1
        tl.debug_barrier()


def publish_torch(state: State, row: int, full: int) -> None:
    """Cache the leading `full` blocks of one request, as far as they are not and it has them."""
    requests = state.arrays.requests
    name_row_torch(state, row)
    first, last = int(requests.num_cached[row]), min(full, int(requests.num_blocks[row]))
    if first < last:
        blocks: torch.Tensor = requests.table[row, first:last]
        insert_torch(state, blocks, requests.keys[row, first:last])
    requests.num_cached[row] = full
