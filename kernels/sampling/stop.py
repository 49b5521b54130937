"""Sampled tokens are taken in, and requests stop (UPD-3, UPD-4)."""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from nullblock.kernels import errors
from nullblock.kernels.arguments import (
    INTEGERS,
    Backend,
    check,
    check_error,
    lanes,
    use_triton,
)
from nullblock.kernels.batch.layout import NO_TOKEN, Batch, Requests
from nullblock.kernels.errors import COUNT, ROOM, ROW, Error, report
from nullblock.kernels.index import row_entry, tile_entry
from nullblock.kernels.twins import load

CONTINUE, STOPPED, STOPPED_BY_ID, LENGTH = range(4)
"""How a request goes on, as the specification numbers it."""
MOST_LANES = 1024
ON: tl.constexpr = tl.constexpr(CONTINUE)
BY_EOS: tl.constexpr = tl.constexpr(STOPPED)
BY_ID: tl.constexpr = tl.constexpr(STOPPED_BY_ID)
BY_LENGTH: tl.constexpr = tl.constexpr(LENGTH)
NOTHING: tl.constexpr = tl.constexpr(NO_TOKEN)


@dataclass(frozen=True, slots=True)
class Limits:
    """When the request in each row stops. R rows; tokens are counted prompt included."""

    limit: torch.Tensor
    """``[R]``: tokens at which it ends: the lesser of max_model_len and prompt plus max_tokens."""
    at_least: torch.Tensor
    """``[R]``: tokens below which it goes on: prompt plus min_tokens."""
    eos: torch.Tensor
    """``[R]``: a token, or NO_TOKEN."""
    stop_ids: torch.Tensor
    """``[R, S]`` int32: tokens; NO_TOKEN in unused places."""

    def check(self, rows: int, device: torch.device) -> None:
        """ValueError, in one line, unless they belong together."""
        for name in ("limit", "at_least", "eos"):
            check(name, getattr(self, name), INTEGERS, (rows,), device)
        check("stop_ids", self.stop_ids, (torch.int32,), (rows, None), device)


def take_tokens(
    requests: Requests,
    batch: Batch,
    limits: Limits,
    sampled: torch.Tensor,
    why: torch.Tensor,
    error: torch.Tensor,
    *,
    length_before_min_tokens: bool = True,
    backend: Backend = "auto",
) -> None:
    """Each scheduled request takes its sampled token, if it has one (UPD-3), and stops or not.

    `sampled` is ``[B]``, NO_TOKEN for whoever did not reach its last token; `why`, ``[B]`` int32,
    becomes CONTINUE, STOPPED, STOPPED_BY_ID or LENGTH, in this order (UPD-4): below ``at_least``
    nothing stops a request but its limit, and not even that unless `length_before_min_tokens`;
    then eos; then a stop id; then the limit. Sets COUNT, ROW, and ROOM for a token that its row
    has no room for, which is not taken. Raises ValueError for tensors that do not belong together.
    """
    device, most = requests.check(), len(batch.rows)
    batch.check(device)
    limits.check(len(requests.num_tokens), device)
    check("sampled", sampled, INTEGERS, (most,), device)
    check("why", why, (torch.int32,), (most,), device)
    check_error(error, device)
    if not use_triton(error, backend):
        take_tokens_torch(
            requests, batch, limits, sampled, why, error,
            length_before_min_tokens=length_before_min_tokens,
        )  # fmt: skip
        return
    if not most:
        return
    width = lanes(most, MOST_LANES)
    _take_kernel[(triton.cdiv(most, width),)](
        batch.rows, batch.num_reqs, sampled, requests.token_ids, requests.token_ids.stride(0),
        requests.token_ids.shape[1], requests.num_tokens, limits.limit, limits.at_least,
        limits.eos, limits.stop_ids, limits.stop_ids.stride(0), why, error,
        most, len(requests.num_tokens), NUM_STOP=limits.stop_ids.shape[1],
        EARLY=LENGTH if length_before_min_tokens else CONTINUE, W=width, num_warps=4,
    )  # fmt: skip


def take_tokens_torch(
    requests: Requests,
    batch: Batch,
    limits: Limits,
    sampled: torch.Tensor,
    why: torch.Tensor,
    error: torch.Tensor,
    *,
    length_before_min_tokens: bool = True,
) -> None:
    """The rule as a chain of choices, over all requests at once."""
    most = len(batch.rows)
    errors.report_torch(error, (batch.num_reqs < 0) | (batch.num_reqs > most), Error.COUNT)
    there = torch.arange(most, device=why.device) < batch.num_reqs
    known = (batch.rows >= 0) & (batch.rows < len(requests.num_tokens))
    errors.report_torch(error, there & ~known, Error.ROW)
    takes = there & known & (sampled >= 0)
    row = torch.where(takes, batch.rows, 0).long()
    at = load(requests.num_tokens, takes, row)
    fits = takes & (at >= 0) & (at < requests.token_ids.shape[1])
    errors.report_torch(error, takes & ~fits, Error.ROOM)
    rows, columns = row[fits], at[fits].long()
    requests.token_ids[rows, columns] = sampled[fits].to(requests.token_ids.dtype)
    requests.num_tokens[rows] += 1
    num_tokens = at + 1
    at_limit = num_tokens >= load(limits.limit, fits, row)
    below = num_tokens < load(limits.at_least, fits, row)
    by_eos = sampled == load(limits.eos, fits, row)
    stops = limits.stop_ids[row] == sampled[:, None] if len(limits.stop_ids) else by_eos[:, None]
    early = LENGTH if length_before_min_tokens else CONTINUE
    answer = verdict_torch(at_limit, below, by_eos, stops.any(1), early)
    why[:] = torch.where(fits, answer, CONTINUE)


def verdict_torch(
    at_limit: torch.Tensor,
    below: torch.Tensor,
    by_eos: torch.Tensor,
    by_id: torch.Tensor,
    early: int,
) -> torch.Tensor:
    """The twin of `verdict`; `early`: how one stops whose limit comes before its min_tokens."""
    answer = torch.where(at_limit, LENGTH, CONTINUE)
    answer = torch.where(by_id, STOPPED_BY_ID, answer)
    answer = torch.where(by_eos, STOPPED, answer)
    return torch.where(below, torch.where(at_limit, early, CONTINUE), answer)


@triton.jit
def verdict(at_limit, below, by_eos, by_id, EARLY: tl.constexpr):
    """UPD-4, last rule first: each line overrules those above it."""
    answer = tl.where(at_limit, BY_LENGTH, ON)
    answer = tl.where(by_id, BY_ID, answer)
    answer = tl.where(by_eos, BY_EOS, answer)
    return tl.where(below, tl.where(at_limit, EARLY, ON), answer)


@triton.jit
def _take_kernel(
    rows, num_reqs, sampled, token_ids, token_stride, room, num_tokens, limit, at_least, eos,
    stop_ids, stop_stride, why, error, most, num_rows,
    NUM_STOP: tl.constexpr, EARLY: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    i = tile_entry(tl.program_id(0), W, tl.arange(0, W))
    n = tl.load(num_reqs)
    if (n < 0) | (n > most):
        tl.atomic_or(error, COUNT)
    there = (i < n) & (i < most)
    row = tl.load(rows + i, mask=there, other=0).to(tl.int64)
    token = tl.load(sampled + i, mask=there, other=NOTHING)
    known = (row >= 0) & (row < num_rows)
    report(error, there & (known == 0), ROW)
    takes = there & known & (token >= 0)
    at = tl.load(num_tokens + row, mask=takes, other=0)
    fits = takes & (at >= 0) & (at < room)
    report(error, takes & (fits == 0), ROOM)
    tl.store(token_ids + row_entry(row, token_stride, at), token, mask=fits)
    tl.store(num_tokens + row, at + 1, mask=fits)
    at_limit = at + 1 >= tl.load(limit + row, mask=fits, other=0)
    below = at + 1 < tl.load(at_least + row, mask=fits, other=0)
    by_eos = token == tl.load(eos + row, mask=fits, other=NOTHING)
    by_id = token < 0
    for s in tl.static_range(NUM_STOP):
        stop = tl.load(stop_ids + row_entry(row, stop_stride, s), mask=fits, other=NOTHING)
        by_id = by_id | (stop == token)
    answer = verdict(at_limit, below, by_eos, by_id, EARLY)
    tl.store(why + i, tl.where(fits, answer, ON), mask=i < most)
