"""Counters of rows: those who left are cleared, those who came are set, all advance (UPD-1)."""

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
from nullblock.kernels.batch.layout import Batch, Requests
from nullblock.kernels.errors import COUNT, ROW, Error, report
from nullblock.kernels.index import tile_entry

MOST_LANES = 1024


def clear_rows(
    requests: Requests,
    rows: torch.Tensor,
    num_rows: torch.Tensor,
    error: torch.Tensor,
    *,
    backend: Backend = "auto",
) -> None:
    """The first `num_rows` of `rows`, ``[K]``, are nobody's from now on (TABLE-7): they hold no
    token and no block. A row may be named twice. Sets COUNT, ROW in the error word."""
    device = requests.check()
    check("rows", rows, INTEGERS, (None,), device)
    check_count("num_rows", num_rows, device)
    check_error(error, device)
    if not use_triton(error, backend):
        clear_rows_torch(requests, rows, num_rows, error)
    elif len(rows):
        width = lanes(len(rows), MOST_LANES)
        _clear_kernel[(triton.cdiv(len(rows), width),)](
            rows, num_rows, requests.num_tokens, requests.num_computed_tokens,
            requests.num_blocks, error, len(rows), requests.num_blocks.shape[0], W=width,
        )  # fmt: skip


def clear_rows_torch(
    requests: Requests, rows: torch.Tensor, num_rows: torch.Tensor, error: torch.Tensor
) -> None:
    """Indexed assignment of zeros."""
    good = _known_torch(rows, num_rows, requests.num_blocks, error)
    for counter in (requests.num_tokens, requests.num_computed_tokens, requests.num_blocks):
        counter[rows[good].long()] = 0


def set_rows(
    counter: torch.Tensor,
    rows: torch.Tensor,
    num_rows: torch.Tensor,
    values: torch.Tensor,
    error: torch.Tensor,
    *,
    backend: Backend = "auto",
) -> None:
    """``counter[rows[k]] = values[k]`` for the first `num_rows` k. No row may be named twice with
    two values. Sets COUNT, ROW in the error word."""
    device = counter.device
    check("counter", counter, INTEGERS, (None,), device)
    check("rows", rows, INTEGERS, (None,), device)
    check_count("num_rows", num_rows, device)
    check("values", values, INTEGERS, (len(rows),), device)
    check_error(error, device)
    if not use_triton(error, backend):
        set_rows_torch(counter, rows, num_rows, values, error)
    elif len(rows):
        width = lanes(len(rows), MOST_LANES)
        _set_kernel[(triton.cdiv(len(rows), width),)](
            counter, rows, num_rows, values, error, len(rows), len(counter), W=width
        )


def set_rows_torch(
    counter: torch.Tensor,
    rows: torch.Tensor,
    num_rows: torch.Tensor,
    values: torch.Tensor,
    error: torch.Tensor,
) -> None:
    """Indexed assignment."""
    good = _known_torch(rows, num_rows, counter, error)
    counter[rows[good].long()] = values[good].to(counter.dtype)


def advance(
    requests: Requests, batch: Batch, error: torch.Tensor, *, backend: Backend = "auto"
) -> None:
    """What is scheduled counts as computed at once (UPD-1): ``num_computed_tokens`` of each
    scheduled row grows by what it was given. Sets COUNT, ROW in the error word."""
    device = requests.check()
    batch.check(device)
    check_error(error, device)
    if not use_triton(error, backend):
        advance_torch(requests, batch, error)
    elif len(batch.rows):
        width = lanes(len(batch.rows), MOST_LANES)
        _advance_kernel[(triton.cdiv(len(batch.rows), width),)](
            requests.num_computed_tokens, batch.rows, batch.num_reqs, batch.num_scheduled_tokens,
            error, len(batch.rows), requests.num_blocks.shape[0], W=width,
        )  # fmt: skip


def advance_torch(requests: Requests, batch: Batch, error: torch.Tensor) -> None:
    """Indexed addition."""
    computed = requests.num_computed_tokens
    good = _known_torch(batch.rows, batch.num_reqs, computed, error)
    computed[batch.rows[good].long()] += batch.num_scheduled_tokens[good].to(computed.dtype)


def _known_torch(
    rows: torch.Tensor, num_rows: torch.Tensor, counter: torch.Tensor, error: torch.Tensor
) -> torch.Tensor:
    """Which of the rows count and exist."""
    errors.report_torch(error, (num_rows < 0) | (num_rows > len(rows)), Error.COUNT)
    there = torch.arange(len(rows), device=rows.device) < num_rows
    known = (rows >= 0) & (rows < len(counter))
    errors.report_torch(error, there & ~known, Error.ROW)
    return there & known


@triton.jit
def _known(rows, num_rows, error, most, room, W: tl.constexpr):
    """Of a tile: places, their rows, and which of them count and exist."""
    k = tile_entry(tl.program_id(0), W, tl.arange(0, W))
    n = tl.load(num_rows)
    if (n < 0) | (n > most):
        tl.atomic_or(error, COUNT)
    there = (k < n) & (k < most)
    row = tl.load(rows + k, mask=there, other=0).to(tl.int64)
    known = (row >= 0) & (row < room)
    report(error, there & (known == 0), ROW)
    return k, row, there & known


@triton.jit
def _clear_kernel(
    rows, num_rows, num_tokens, num_computed, num_blocks, error, most, room, W: tl.constexpr
):
    k, row, known = _known(rows, num_rows, error, most, room, W)
    nothing = k * 0
    tl.store(num_tokens + row, nothing, mask=known)
    tl.store(num_computed + row, nothing, mask=known)
    tl.store(num_blocks + row, nothing, mask=known)


@triton.jit
def _set_kernel(counter, rows, num_rows, values, error, most, room, W: tl.constexpr):
    k, row, known = _known(rows, num_rows, error, most, room, W)
    tl.store(counter + row, tl.load(values + k, mask=known, other=0), mask=known)


@triton.jit
def _advance_kernel(counter, rows, num_rows, amounts, error, most, room, W: tl.constexpr):
    k, row, known = _known(rows, num_rows, error, most, room, W)
    before = tl.load(counter + row, mask=known, other=0)
    tl.store(counter + row, before + tl.load(amounts + k, mask=known, other=0), mask=known)
