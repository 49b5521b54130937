"""The longest cached prefix of prompts, many at once (HASH-11).

The whole chain of a prompt is searched in parallel; the first miss is a minimum over the lanes.
One program a prompt: each reads what all share, and writes only to the row of its own.
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend, check, use_triton
from nullblock.kernels.control.cache import find, find_torch
from nullblock.kernels.control.faults import COUNT, bounded
from nullblock.kernels.control.keys import load_keys, name_row, name_row_torch
from nullblock.kernels.control.state import State


def look_up(
    state: State, rows: torch.Tensor, backend: Backend = "auto"
) -> tuple[torch.Tensor, torch.Tensor]:
    """How many leading blocks of each of these waiting requests are cached, and how many of those
    blocks nobody holds: two int32 [n], for `rows` int32 [n], no two the same.

    Computes the keys that are not known yet. The blocks found stand in the requests' tables, which
    mean nothing as long as they wait.
    """
    check("rows", rows, (torch.int32,), (None,), state.device)
    hits, unheld = torch.zeros_like(rows), torch.zeros_like(rows)
    if not use_triton(rows, backend):
        look_up_torch(state, rows, hits, unheld)
    elif len(rows):
        lookup_kernel[(len(rows),)](
            state.arrays, rows, hits, unheld, state.sizes, num_warps=state.sizes.num_warps
        )
    return hits, unheld


def look_up_torch(
    state: State, rows: torch.Tensor, hits: torch.Tensor, unheld: torch.Tensor
) -> None:
    """One prompt after another."""
    for i, row in enumerate(rows.tolist()):
        name_row_torch(state, row)
        blocks = prefix_torch(state, row)
        hits[i] = len(blocks)
        unheld[i] = (state.arrays.pool.ref_cnt[blocks.long()] == 0).sum()


def prefix_torch(state: State, row: int) -> torch.Tensor:
    """The blocks of the longest cached prefix of one request: of all its tokens but the last. They
    stand in its table."""
    requests = state.arrays.requests
    found = list[int]()
    for column in range(max(int(requests.num_tokens[row]) - 1, 0) // state.sizes.block_size):
        block = find_torch(state, requests.keys[row, column])
        if not block:
            break
        found.append(block)
    blocks = torch.tensor(found, dtype=torch.int32, device=state.device)
    requests.table[row, : len(blocks)] = blocks
    return blocks


@triton.jit
def lookup_kernel(a, rows, hits, unheld, z: tl.constexpr):
    """One program a prompt."""
    prompt = tl.program_id(0)
    row = tl.load(rows + prompt)
    name_row(a, row, z)
    found, free = find_prefix(a, row, z)
    tl.store(hits + prompt, found)
    tl.store(unheld + prompt, free)


@triton.jit
def find_prefix(a, row, z: tl.constexpr):
    """Write the cached prefix of a request to its table; how long it is, and how many of its
    blocks stand in the free queue (HASH-11, HASH-16). Its keys are known."""
    lane = tl.arange(0, z.lanes)
    num_tokens = bounded(a, tl.load(a.requests.num_tokens + row), z.row_tokens, COUNT)
    most = tl.maximum(num_tokens - 1, 0) // z.block_size
    table = a.requests.table + row.to(tl.int64) * z.row_blocks
    found = tl.zeros([], tl.int32)
    free = tl.zeros([], tl.int32)
    base = tl.zeros([], tl.int32)
    while (base < most) & (found == base):
        column = base + lane
        there = column < most
        key, second = load_keys(a, row + lane * 0, column, there, z)
        block = find(a, key, second, there, z)
        found = tl.min(tl.where(there & (block == 0), column, tl.minimum(most, base + z.lanes)), 0)
        hit = column < found
        tl.store(table + column, block, mask=hit)
        holders = tl.load(a.pool.ref_cnt + block, mask=hit, other=1)
        free += tl.sum((holders == 0).to(tl.int32), 0)
        base += z.lanes
    tl.debug_barrier()
    return found, free
