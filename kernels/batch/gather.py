"""Block tables in the order of the batch: for attention that finds a table by place, not row.

Rule: of each running request the worker knows the table, or its beginning (OUT-7).
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels import errors
from nullblock.kernels.arguments import Backend, check, check_error, lanes, use_triton
from nullblock.kernels.batch.layout import Batch, Requests
from nullblock.kernels.errors import COUNT, ROW, TABLE, Error, report
from nullblock.kernels.index import row_entry, tile_entry

MOST_LANES = 1024
TILE = 4096


def gather_block_tables(
    requests: Requests,
    batch: Batch,
    tables: torch.Tensor,
    error: torch.Tensor,
    *,
    backend: Backend = "auto",
) -> None:
    """``tables[i, j] = block_table[rows[i], j]`` for the filled columns j of each request.

    `tables` is ``[B, columns]`` int32; what stands in it behind a table, or where no request is,
    is left as it was and means nothing. Sets COUNT, ROW, TABLE (more columns filled than there
    are) in the error word. Raises ValueError for tensors that do not belong together.
    """
    device = requests.check()
    batch.check(device)
    most, columns = len(batch.rows), requests.block_table.shape[1]
    check("tables", tables, (torch.int32,), (most, columns), device)
    check_error(error, device)
    if not use_triton(error, backend):
        gather_block_tables_torch(requests, batch, tables, error)
        return
    if not tables.numel():
        return
    width = lanes(columns, MOST_LANES)
    height = max(1, TILE // width)
    _gather_kernel[(triton.cdiv(most, height), triton.cdiv(columns, width))](
        batch.rows, batch.num_reqs, requests.block_table, requests.block_table.stride(0),
        requests.num_blocks, tables, tables.stride(0), error,
        most, requests.num_blocks.shape[0], columns, H=height, W=width, num_warps=4,
    )  # fmt: skip


def gather_block_tables_torch(
    requests: Requests, batch: Batch, tables: torch.Tensor, error: torch.Tensor
) -> None:
    """Whole rows, of which the filled columns are kept."""
    most, columns = tables.shape
    if not tables.numel():
        return
    errors.report_torch(error, (batch.num_reqs < 0) | (batch.num_reqs > most), Error.COUNT)
    there = torch.arange(most, device=tables.device) < batch.num_reqs
    known = (batch.rows >= 0) & (batch.rows < len(requests.num_blocks))
    errors.report_torch(error, there & ~known, Error.ROW)
    row = torch.where(there & known, batch.rows, 0).long()
    filled = torch.where(there & known, requests.num_blocks[row], 0)
    errors.report_torch(error, filled > columns, Error.TABLE)
    inside = torch.arange(columns, device=tables.device) < filled[:, None]
    tables[:] = torch.where(inside, requests.block_table[row], tables)


@triton.jit
def _gather_kernel(
    rows, num_reqs, block_table, table_stride, filled, tables, out_stride, error,
    most, num_rows, columns, H: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    i = tile_entry(tl.program_id(0), H, tl.arange(0, H))
    n = tl.load(num_reqs)
    if (n < 0) | (n > most):
        tl.atomic_or(error, COUNT)
    there = (i < n) & (i < most)
    row = tl.load(rows + i, mask=there, other=0).to(tl.int64)
    known = (row >= 0) & (row < num_rows)
    report(error, there & (known == 0), ROW)
    has = tl.load(filled + row, mask=there & known, other=0)
    report(error, has > columns, TABLE)
    j = tile_entry(tl.program_id(1), W, tl.arange(0, W))[None, :]
    inside = (j < has[:, None]) & (j < columns)
    blocks = tl.load(block_table + row_entry(row[:, None], table_stride, j), mask=inside, other=0)
    tl.store(tables + row_entry(i.to(tl.int64)[:, None], out_stride, j), blocks, mask=inside)
