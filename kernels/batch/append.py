"""Rows grow at their end: tables by blocks, token lists by tokens. Only what is new is written.

Two kernels. The first, one program, decides for each row where its values go, and that no row is
named twice; the second writes values, a lane each, however they are spread over rows.
"""

from dataclasses import dataclass
from typing import Self

import torch
import triton
import triton.language as tl

from nullblock.kernels import errors
from nullblock.kernels.arguments import (
    INTEGERS,
    Backend,
    check,
    check_count,
    check_error,
    lanes,
    use_triton,
)
from nullblock.kernels.batch.search import last_not_above
from nullblock.kernels.errors import COUNT, ROOM, ROW, Error, report
from nullblock.kernels.index import row_entry, tile_entry
from nullblock.kernels.twins import load

MOST_LANES = 1024
NOBODY = 2**31 - 1
NOBODY_YET: tl.constexpr = tl.constexpr(NOBODY)
REFUSED: tl.constexpr = tl.constexpr(-1)


@dataclass(frozen=True, slots=True)
class Growth:
    """What rows gain in a step. At most K rows and V values."""

    rows: torch.Tensor
    """``[K]``: which; none twice."""
    num_rows: torch.Tensor
    """``[1]``: how many of them count."""
    counts: torch.Tensor
    """``[K]``: how many values each gains; 0 is allowed."""
    replaces: torch.Tensor
    """``[K]`` int32: 1 where the values take the place of all that the row held (OUT-2)."""
    values: torch.Tensor
    """``[V]``: those of the first row, then those of the second, and so on."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """What the first kernel leaves to the second; the same tensors serve in every step."""

    owner: torch.Tensor
    """``[R]`` int32: NOBODY between calls."""
    starts: torch.Tensor
    """``[K + 1]`` int32: where each row's values begin."""
    columns: torch.Tensor
    """``[K]`` int32: where in its row the first of them goes, or -1: nowhere."""

    @classmethod
    def empty(cls, rows: int, most: int, device: torch.device | str) -> Self:
        """For matrices of so many rows, of which at most so many grow at once."""

        def full(size: int, value: int) -> torch.Tensor:
            return torch.full((size,), value, dtype=torch.int32, device=device)

        return cls(full(rows, NOBODY), full(most + 1, 0), full(most, 0))


def append_rows(
    matrix: torch.Tensor,
    lengths: torch.Tensor,
    growth: Growth,
    scratch: Scratch,
    error: torch.Tensor,
    *,
    backend: Backend = "auto",
) -> None:
    """Append to rows of `matrix`, ``[R, C]``, whose first ``lengths[row]`` entries count.

    All of a row's values or none: a row that does not exist, or was named before, sets ROW; one
    that has not enough room, or whose values do not all stand in `values`, sets ROOM; a negative
    count sets COUNT. The others grow as if those were not there. Raises ValueError for tensors
    that do not belong together.
    """
    _check(matrix, lengths, growth, scratch, error)
    if not use_triton(error, backend):
        append_rows_torch(matrix, lengths, growth, error)
        return
    most, room = growth.rows.shape[0], growth.values.shape[0]
    if not most:
        return
    _plan_kernel[(1,)](
        growth.rows, growth.num_rows, growth.counts, growth.replaces, lengths,
        scratch.owner, scratch.starts, scratch.columns, error,
        most, matrix.shape[0], matrix.shape[1], room,
        W=lanes(most, MOST_LANES), num_warps=4,
    )  # fmt: skip
    if not room:
        return
    width = lanes(room, MOST_LANES)
    _scatter_kernel[(triton.cdiv(room, width),)](
        growth.rows, growth.values, scratch.starts, scratch.columns, matrix, matrix.stride(0),
        most, room, TURNS=most.bit_length(), W=width, num_warps=4,
    )  # fmt: skip


def _check(
    matrix: torch.Tensor,
    lengths: torch.Tensor,
    growth: Growth,
    scratch: Scratch,
    error: torch.Tensor,
) -> None:
    """ValueError, in one line, unless they belong together."""
    device, rows, most = matrix.device, matrix.shape[0], growth.rows.shape[0]
    check("matrix", matrix, INTEGERS, (None, None), device)
    check("lengths", lengths, INTEGERS, (rows,), device)
    check("rows", growth.rows, INTEGERS, (None,), device)
    check_count("num_rows", growth.num_rows, device)
    check("counts", growth.counts, INTEGERS, (most,), device)
    check("replaces", growth.replaces, (torch.int32,), (most,), device)
    check("values", growth.values, (matrix.dtype,), (None,), device)
    check("owner", scratch.owner, (torch.int32,), (rows,), device)
    check("starts", scratch.starts, (torch.int32,), (most + 1,), device)
    check("columns", scratch.columns, (torch.int32,), (most,), device)
    check_error(error, device)


def append_rows_torch(
    matrix: torch.Tensor, lengths: torch.Tensor, growth: Growth, error: torch.Tensor
) -> None:
    """Rows that may grow, then one indexed assignment of all their values."""
    most, room, device = len(growth.rows), len(growth.values), matrix.device
    if not most:
        return
    errors.report_torch(error, (growth.num_rows < 0) | (growth.num_rows > most), Error.COUNT)
    k = torch.arange(most, device=device)
    there = k < growth.num_rows
    known = there & (growth.rows >= 0) & (growth.rows < matrix.shape[0])
    row = torch.where(known, growth.rows, 0).long()
    owner = torch.full((matrix.shape[0] + 1,), NOBODY, device=device)
    owner.scatter_reduce_(0, torch.where(known, row, matrix.shape[0]), k, "amin")
    first = known & (owner[row] == k)
    errors.report_torch(error, there & ~first, Error.ROW)
    errors.report_torch(error, there & (growth.counts < 0), Error.COUNT)
    count = torch.where(there, growth.counts, 0).clamp(min=0).long()
    starts = count.cumsum(0) - count
    column = torch.where(growth.replaces != 0, 0, load(lengths, first, row)).long()
    fits = (column >= 0) & (column + count <= matrix.shape[1]) & (starts + count <= room)
    errors.report_torch(error, first & ~fits, Error.ROOM)
    good = first & fits & (growth.counts >= 0)
    lengths[row[good]] = (column + count)[good].to(lengths.dtype)
    count = torch.where(good, count, 0)
    whose = torch.repeat_interleave(k, count)
    nth = torch.arange(len(whose), device=device) - (count.cumsum(0) - count)[whose]
    matrix[row[whose], column[whose] + nth] = growth.values[starts[whose] + nth]


@triton.jit
def _claim(rows, n, owner, most, num_rows, W: tl.constexpr):
    """Of places that name one row, the first one owns it."""
    for tile in range(0, tl.cdiv(most, W)):
        k = tile_entry(tile, W, tl.arange(0, W))
        there = (k < n) & (k < most)
        row = tl.load(rows + k, mask=there, other=0).to(tl.int64)
        known = there & (row >= 0) & (row < num_rows)
        tl.atomic_min(owner + row, k, mask=known)


@triton.jit
def _release(rows, n, owner, most, num_rows, W: tl.constexpr):
    """Nobody owns anything any more."""
    for tile in range(0, tl.cdiv(most, W)):
        k = tile_entry(tile, W, tl.arange(0, W))
        there = (k < n) & (k < most)
        row = tl.load(rows + k, mask=there, other=0).to(tl.int64)
        known = there & (row >= 0) & (row < num_rows)
        tl.store(owner + row, NOBODY_YET, mask=known)


@triton.jit
def _plan_kernel(
    rows, num_rows_given, counts, replaces, lengths, owner, starts, columns, error,
    most, num_rows, num_columns, room, W: tl.constexpr,
):  # fmt: skip
    n = tl.load(num_rows_given)
    if (n < 0) | (n > most):
        tl.atomic_or(error, COUNT)
    _claim(rows, n, owner, most, num_rows, W)
    tl.debug_barrier()
    tl.store(starts, 0)
    total = tl.zeros([], tl.int64)
    for tile in range(0, tl.cdiv(most, W)):
        k = tile_entry(tile, W, tl.arange(0, W))
        there = (k < n) & (k < most)
        row = tl.load(rows + k, mask=there, other=0).to(tl.int64)
        known = there & (row >= 0) & (row < num_rows)
        first = known & (tl.load(owner + row, mask=known, other=0) == k)
        given = tl.load(counts + k, mask=there, other=0).to(tl.int64)
        count = tl.maximum(given, 0)
        ends = total + tl.cumsum(count, 0)
        replace = tl.load(replaces + k, mask=first, other=0) != 0
        held = tl.load(lengths + row, mask=first, other=0).to(tl.int64)
        column = tl.where(replace, 0, held)
        fits = (column >= 0) & (column + count <= num_columns) & (ends <= room)
        good = first & fits & (given >= 0)
        tl.store(starts + 1 + k, tl.minimum(ends, room).to(tl.int32), mask=k < most)
        tl.store(columns + k, tl.where(good, column, REFUSED).to(tl.int32), mask=k < most)
        tl.store(lengths + row, column + count, mask=good)
        if tl.max((there & (good == 0)).to(tl.int32), 0) > 0:
            report(error, there & (first == 0), ROW)
            report(error, there & (given < 0), COUNT)
            report(error, first & (fits == 0), ROOM)
        total += tl.sum(count, 0)
    tl.debug_barrier()
    _release(rows, n, owner, most, num_rows, W)


@triton.jit
def _scatter_kernel(
    rows, values, starts, columns, matrix, stride, most, room,
    TURNS: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    v = tile_entry(tl.program_id(0), W, tl.arange(0, W))
    there = (v < tl.load(starts + most)) & (v < room)
    k = last_not_above(starts, v, there, most, TURNS)
    column = tl.load(columns + k, mask=there, other=REFUSED)
    good = there & (column >= 0)
    row = tl.load(rows + k, mask=good, other=0).to(tl.int64)
    nth = v - tl.load(starts + k, mask=good, other=0)
    value = tl.load(values + v, mask=good, other=0)
    tl.store(matrix + row_entry(row, stride, column + nth), value, mask=good)
