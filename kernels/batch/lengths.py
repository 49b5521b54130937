"""Where each request of a batch begins, and how long it will be: query_start_loc and seq_lens.

One program, because everything after it waits for its prefix sum; a batch of 4,096 requests is
two turns of its loop.
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels import errors
from nullblock.kernels.arguments import Backend, check_error, lanes, use_triton
from nullblock.kernels.batch.layout import Batch, Inputs, Requests
from nullblock.kernels.errors import COUNT, ROW, TOKENS, Error, report
from nullblock.kernels.index import tile_entry
from nullblock.kernels.twins import load

MOST_LANES = 2048
LONGEST = 2**31 - 1
"""What a length that fits no int32 becomes: longer than any table, so that whoever reads it
refuses it."""
LONGEST_TOLD: tl.constexpr = tl.constexpr(LONGEST)


def compute_lengths(
    requests: Requests,
    batch: Batch,
    inputs: Inputs,
    error: torch.Tensor,
    *,
    backend: Backend = "auto",
) -> None:
    """Write ``query_start_loc`` and ``seq_lens`` for a batch, padding included.

    A request at place i computes ``num_scheduled_tokens[i]`` tokens (ALLOC-3: at least one), so
    that its length becomes ``num_computed_tokens[rows[i]] + num_scheduled_tokens[i]``. Sets COUNT,
    ROW, TOKENS in the error word; who is refused computes nothing, and no start lies beyond T.
    Raises ValueError for tensors that do not belong together.
    """
    device = requests.check()
    batch.check(device)
    inputs.check(batch, device)
    check_error(error, device)
    if not use_triton(error, backend):
        compute_lengths_torch(requests, batch, inputs, error)
        return
    most = batch.rows.shape[0]
    _lengths_kernel[(1,)](
        batch.rows,
        batch.num_reqs,
        batch.num_scheduled_tokens,
        requests.num_computed_tokens,
        inputs.query_start_loc,
        inputs.seq_lens,
        error,
        most,
        requests.num_blocks.shape[0],
        inputs.positions.shape[0],
        W=lanes(most, MOST_LANES),
        num_warps=8,
    )


def compute_lengths_torch(
    requests: Requests, batch: Batch, inputs: Inputs, error: torch.Tensor
) -> None:
    """Counts, their running sum, and lengths; places without a request are empty."""
    most, room = batch.rows.shape[0], inputs.positions.shape[0]
    device = batch.rows.device
    errors.report_torch(error, (batch.num_reqs < 0) | (batch.num_reqs > most), Error.COUNT)
    there = torch.arange(most, device=device) < batch.num_reqs
    count = batch.num_scheduled_tokens.long()
    known = (batch.rows >= 0) & (batch.rows < requests.num_blocks.shape[0])
    errors.report_torch(error, there & ~known, Error.ROW)
    some = (count >= 1) & (count <= room)
    errors.report_torch(error, there & ~some, Error.TOKENS)
    good = there & known & some
    count = torch.where(good, count, 0)
    ends = count.cumsum(0)
    errors.report_torch(error, ends > room, Error.TOKENS)
    inputs.query_start_loc[:1].zero_()  # [0] = 0 copies from the host, which no graph captures
    inputs.query_start_loc[1:] = ends.clamp(max=room)
    computed = load(requests.num_computed_tokens, good, batch.rows)
    inputs.seq_lens[:] = torch.where(good, (computed + count).clamp(max=LONGEST), 0)


@triton.jit
def _lengths_kernel(
    rows, num_reqs, num_scheduled, num_computed, query_start_loc, seq_lens, error,
    most, num_rows, room, W: tl.constexpr,
):  # fmt: skip
    n = tl.load(num_reqs)
    if (n < 0) | (n > most):
        tl.atomic_or(error, COUNT)
    tl.store(query_start_loc, 0)
    total = tl.zeros([], tl.int64)
    for tile in range(0, tl.cdiv(most, W)):
        i = tile_entry(tile, W, tl.arange(0, W))
        there = (i < n) & (i < most)
        row = tl.load(rows + i, mask=there, other=0).to(tl.int64)
        count = tl.load(num_scheduled + i, mask=there, other=1).to(tl.int64)
        known = (row >= 0) & (row < num_rows)
        report(error, there & (known == 0), ROW)
        some = (count >= 1) & (count <= room)
        report(error, there & (some == 0), TOKENS)
        good = there & known & some
        count = tl.where(good, count, 0)
        ends = total + tl.cumsum(count, 0)
        report(error, (i < most) & (ends > room), TOKENS)
        tl.store(query_start_loc + 1 + i, tl.minimum(ends, room).to(tl.int32), mask=i < most)
        computed = tl.load(num_computed + row, mask=good, other=0)
        length = tl.minimum(tl.where(good, computed + count, 0), LONGEST_TOLD)
        tl.store(seq_lens + i, length.to(tl.int32), mask=i < most)
        total += tl.sum(count, 0)
