"""Requests give their blocks back, in the very order of the specification, all at once (POOL-12).

One after another each request releases its blocks, the last one first; who has no holder left
queues behind all others or, with `freed_unhashed_first`, if it is cached: those that are not go
before all others, in their order. A block that several of the requests held leaves with the last
of them. Items are the releases, in that order, counted through. So

* a block leaves at its greatest item, if it has as many holders as releases;
* behind, blocks stand in the order of the items they leave at;
* in front, the group of a later request stands before that of an earlier one, and within a group
  the order is that of the items: the block that is number k of all that go in front, of a request
  with the groups up to it ending at E and beginning at B, goes to position head - E + (k - B).
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend, check, use_triton
from nullblock.kernels.control.faults import REFERENCES, Fault
from nullblock.kernels.control.ring import (
    append_torch,
    load_queue,
    make_room,
    prepend_torch,
    put,
    store_queue,
)
from nullblock.kernels.control.runs import entry_of, lay_out, run_of
from nullblock.kernels.control.state import State
from nullblock.kernels.index import row_entry


def release_rows(state: State, rows: torch.Tensor, backend: Backend = "auto") -> None:
    """Take all blocks of these requests from them, int32 [at most max_num_seqs], one request after
    another; what they computed is lost with it (POOL-12, RUN-17).

    Sets REFERENCES if a block is released more often than it is held.
    """
    check("rows", rows, (torch.int32,), (None,), state.device)
    if len(rows) > state.sizes.max_num_seqs:
        raise ValueError(f"{len(rows)} rows: at most {state.sizes.max_num_seqs} requests run")
    if not use_triton(rows, backend):
        return release_rows_torch(state, rows)
    release_kernel[(1,)](
        state.arrays, rows, len(rows), state.sizes, num_warps=state.sizes.num_warps
    )


def release_rows_torch(state: State, rows: torch.Tensor) -> None:
    """One request after another."""
    requests, pool = state.arrays.requests, state.arrays.pool
    for row in rows.tolist():
        blocks = requests.table[row, : int(requests.num_blocks[row])].flip(0).long()
        pool.ref_cnt[blocks] -= 1
        if bool((pool.ref_cnt[blocks] < 0).any()):
            state.report(Fault.REFERENCES)
        freed = blocks[pool.ref_cnt[blocks] == 0]
        if state.sizes.freed_unhashed_first:
            cached = state.arrays.cache.carried[freed, 0] != 0
            prepend_torch(state, freed[~cached])
            freed = freed[cached]
        append_torch(state, freed)
        for column in (requests.num_blocks, requests.num_cached, requests.num_computed):
            column[row] = 0


@triton.jit
def release_kernel(a, rows, n, z: tl.constexpr):
    """One program."""
    lane = tl.arange(0, z.request_lanes)
    row = tl.load(rows + lane, mask=lane < n, other=0)
    head, tail, free = load_queue(a, z)
    head, tail, free = release(a, row, lane < n, head, tail, free, z)
    store_queue(a, head, tail, free)


@triton.jit
def release(a, row, there, head, tail, free, z: tl.constexpr):
    """The requests of the lanes `there` give all their blocks back, in the order of the lanes; no
    row is in two of them. Returns the queue.
    """
    held = tl.load(a.requests.num_blocks + row, mask=there, other=0)
    items, runs = lay_out(a, row, held * 0, held, there, z)
    if items > 0:
        _count(a, items, runs, z)
        if z.freed_unhashed_first:
            _group(a, items, runs, z)
        tail = make_room(a, head, tail, tl.minimum(items, z.num_blocks), z)
        head, tail, free = _place(a, items, runs, head, tail, free, z)
    tl.store(a.requests.num_blocks + row, 0, mask=there)
    tl.store(a.requests.num_cached + row, 0, mask=there)
    tl.store(a.requests.num_computed + row, 0, mask=there)
    return head, tail, free


@triton.jit
def _released(a, item, there, items, runs, z: tl.constexpr):
    """The block that each item releases, the last one of a request first; and its run."""
    run = run_of(a, item, there, items, runs, z)
    row, nth = entry_of(a, item, run, there)
    held = tl.load(a.requests.num_blocks + row, mask=there, other=1)
    entry = row_entry(row.to(tl.int64), z.row_blocks, held - 1 - nth)
    return tl.load(a.requests.table + entry, mask=there, other=0), run


@triton.jit
def _count(a, items, runs, z: tl.constexpr):
    """How often each block is released, and at which item last."""
    lane = tl.arange(0, z.lanes)
    base = tl.zeros([], tl.int32)
    while base < items:
        item = base + lane
        there = item < items
        block, _ = _released(a, item, there, items, runs, z)
        tl.atomic_add(a.scratch.releases + block, 1, mask=there)
        tl.atomic_max(a.scratch.last + block, item, mask=there)
        base += z.lanes
    tl.debug_barrier()


@triton.jit
def _leaves(a, block, item, there):
    """Whether a block is released for the last time here, whether it leaves its last holder, and
    how many holders it keeps."""
    last = there & (tl.load(a.scratch.last + block, mask=there, other=-1) == item)
    holders = tl.load(a.pool.ref_cnt + block, mask=last, other=1)
    keeps = holders - tl.load(a.scratch.releases + block, mask=last, other=0)
    return last, last & (keeps == 0), keeps


@triton.jit
def _group(a, items, runs, z: tl.constexpr):
    """To `run_front`, for each request: where its group in front begins, plus where it ends."""
    request = tl.arange(0, z.request_lanes)
    tl.store(a.scratch.run_front + request, 0, mask=request < runs)
    tl.debug_barrier()
    lane = tl.arange(0, z.lanes)
    base = tl.zeros([], tl.int32)
    while base < items:
        item = base + lane
        there = item < items
        block, run = _released(a, item, there, items, runs, z)
        last, leaves, keeps = _leaves(a, block, item, there)
        carried = a.cache.carried + 2 * block.to(tl.int64)
        in_front = leaves & (tl.load(carried, mask=leaves, other=1) == 0)
        tl.atomic_add(a.scratch.run_front + run, 1, mask=in_front)
        base += z.lanes
    tl.debug_barrier()
    size = tl.load(a.scratch.run_front + request, mask=request < runs, other=0)
    ends = tl.cumsum(size, 0)
    tl.debug_barrier()
    tl.store(a.scratch.run_front + request, ends + ends - size, mask=request < runs)
    tl.debug_barrier()


@triton.jit
def _place(a, items, runs, head, tail, free, z: tl.constexpr):
    """Put the blocks that leave where they belong; returns the queue."""
    lane = tl.arange(0, z.lanes)
    in_front = tl.zeros([], tl.int64)
    behind = tl.zeros([], tl.int64)
    base = tl.zeros([], tl.int32)
    while base < items:
        item = base + lane
        there = item < items
        block, run = _released(a, item, there, items, runs, z)
        last, leaves, keeps = _leaves(a, block, item, there)
        back = leaves
        if z.freed_unhashed_first:
            carried = a.cache.carried + 2 * block.to(tl.int64)
            back = leaves & (tl.load(carried, mask=leaves, other=0) != 0)
        front = leaves & (back == 0)
        tl.debug_barrier()  # all lanes have read what is written now
        rank = back.to(tl.int64)
        put(a, block, tail + behind + tl.cumsum(rank, 0) - rank, back, z)
        behind += tl.sum(rank, 0)
        if z.freed_unhashed_first:
            rank = front.to(tl.int64)
            nth = in_front + tl.cumsum(rank, 0) - rank
            bounds = tl.load(a.scratch.run_front + run, mask=front, other=0)
            # head - E + (k - B), which is at most one position before the head.
            put(a, block, head - bounds + nth, front, z)
            in_front += tl.sum(rank, 0)
        tl.store(a.pool.ref_cnt + block, keeps, mask=last)
        tl.store(a.scratch.releases + block, 0, mask=last)
        tl.store(a.scratch.last + block, -1, mask=last)
        if tl.min(tl.where(last, keeps, 0), 0) < 0:
            tl.atomic_or(a.error, REFERENCES)
        base += z.lanes
        tl.debug_barrier()
    return head - in_front, tail + behind, free + (in_front + behind).to(tl.int32)
