"""Runs: many requests with some entries of their tables each, walked over as one list of items.

A run is a request's entries from one column of its table on. Runs that are not empty are numbered
in the order of their lanes, and their items are counted through: item t belongs to the last run
that starts at or before t. So a kernel deals with all blocks of all requests at its full width,
however unevenly they are spread.
"""

import triton
import triton.language as tl

from nullblock.kernels.control.faults import COUNT, bounded


@triton.jit
def lay_out(a, row, first, count, there, z: tl.constexpr):
    """Lay out runs of `count` entries from column `first` on, for the lanes `there`. One that does
    not fit a table is left out, and sets COUNT.

    Returns the number of items and the number of runs.
    """
    first = bounded(a, tl.where(there, first, 0), z.row_blocks, COUNT)
    count = bounded(a, tl.where(there, count, 0), z.row_blocks - first, COUNT)
    start = tl.cumsum(count, 0) - count
    some = (count > 0).to(tl.int32)
    run = tl.cumsum(some, 0) - some
    tl.debug_barrier()  # whoever walked over other runs has done so
    tl.store(a.scratch.run_row + run, row, mask=some > 0)
    tl.store(a.scratch.run_start + run, start, mask=some > 0)
    tl.store(a.scratch.run_column + run, first - start, mask=some > 0)
    tl.debug_barrier()
    return tl.sum(count, 0), tl.sum(some, 0)


@triton.jit
def lay_out_one(a, row, first, count, z: tl.constexpr):
    """Lay out one run, if it fits a table; returns the number of items and the number of runs."""
    count = bounded(a, count, z.row_blocks - first, COUNT)
    tl.debug_barrier()  # whoever walked over other runs has done so
    tl.store(a.scratch.run_row, row)
    tl.store(a.scratch.run_start, 0)
    tl.store(a.scratch.run_column, first)
    tl.debug_barrier()
    return count, (count > 0).to(tl.int32)


@triton.jit
def run_of(a, item, there, items, runs, z: tl.constexpr):
    """The run of each item of the lanes `there`: by halving, no wider than there are runs. Where
    all runs are of one item, as in a decode, they are the items."""
    low = item
    if items > runs:
        low = item * 0
        high = low + runs
        for _ in range(z.run_bits):
            middle = (low + high) // 2
            open_ = there & (high - low > 1)
            start = tl.load(a.scratch.run_start + middle, mask=open_, other=0)
            low = tl.where(open_ & (start <= item), middle, low)
            high = tl.where(open_ & (start > item), middle, high)
    return low


@triton.jit
def entry_of(a, item, run, there):
    """The row and the column of each item of the lanes `there`."""
    row = tl.load(a.scratch.run_row + run, mask=there, other=0)
    return row, item + tl.load(a.scratch.run_column + run, mask=there, other=0)
