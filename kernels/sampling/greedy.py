"""Greedy sampling: the token with the largest logit.

**Ties** go to the lowest token. **NaN** counts as larger than everything, as it does for
torch.argmax, so the lowest NaN wins, and NOT_A_NUMBER is set in the error word: a model that gives
NaN is broken, and hiding it in a plausible token would be worse. ``-0.0`` equals ``0.0``.

Value and token are packed into one 64-bit integer whose order is the order wanted, so that a
maximum in any order of evaluation gives the same token: over lanes, tiles and programs alike.

Rule: a request that has caught up takes one sampled token (UPD-3); which requests those are is
asked when the tokens are taken (``stop.py``).
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels import errors
from nullblock.kernels.arguments import (
    Backend,
    check,
    check_count,
    check_error,
    lanes,
    use_triton,
)
from nullblock.kernels.batch.layout import NO_TOKEN
from nullblock.kernels.errors import COUNT, NOT_A_NUMBER, Error, report
from nullblock.kernels.index import row_entry, tile_entry

FLOATS = (torch.float32, torch.float16, torch.bfloat16)
MOST_COLUMNS = 4096
TILE = 4096
"""Logits that a program looks at in one turn."""
SPLITS = 64
"""Programs that share a row, at most: one row of a large vocabulary keeps a GPU busy."""
NOTHING: tl.constexpr = tl.constexpr(NO_TOKEN)
LEAST: tl.constexpr = tl.constexpr(-(2**63))
LOW: tl.constexpr = tl.constexpr(0x7FFFFFFF)
"""Also the rank of NaN: above that of infinity, 0x7F800000."""


def greedy_tokens(
    logits: torch.Tensor,
    num_reqs: torch.Tensor,
    tokens: torch.Tensor,
    partial: torch.Tensor,
    error: torch.Tensor,
    *,
    backend: Backend = "auto",
) -> None:
    """``tokens[i]``: the token with the largest of ``logits[i]``; NO_TOKEN from `num_reqs` on.

    `logits` is ``[B, vocab_size]`` float32, float16 or bfloat16, rows may lie apart; `num_reqs`
    ``[1]``; `tokens` ``[B]`` int32 or int64; `partial`, ``[B, SPLITS]`` int64, is scratch space.
    Sets COUNT, NOT_A_NUMBER in the error word. Raises ValueError for tensors that do not belong
    together, and for a vocabulary that is empty.
    """
    device = logits.device
    check("logits", logits, FLOATS, (None, None), device)
    most, vocab = logits.shape
    if not vocab:
        raise ValueError("logits has shape [any, 0]: a vocabulary has at least one token")
    check_count("num_reqs", num_reqs, device)
    check("tokens", tokens, (torch.int32, torch.int64), (most,), device)
    check("partial", partial, (torch.int64,), (most, SPLITS), device)
    check_error(error, device)
    if not use_triton(error, backend):
        greedy_tokens_torch(logits, num_reqs, tokens, error)
        return
    if not most:
        return
    width = lanes(vocab, MOST_COLUMNS)
    height = max(1, TILE // width)
    splits = min(SPLITS, triton.cdiv(vocab, width))
    _best_kernel[(triton.cdiv(most, height), splits)](
        logits, logits.stride(0), num_reqs, partial, partial.stride(0), most, vocab,
        TURNS=triton.cdiv(vocab, width * splits), H=height, W=width, num_warps=4,
    )  # fmt: skip
    height = max(1, min(TILE // SPLITS, triton.next_power_of_2(most)))
    _token_kernel[(triton.cdiv(most, height),)](
        partial, partial.stride(0), num_reqs, tokens, error, most, splits,
        H=height, S=SPLITS, num_warps=4,
    )  # fmt: skip


def greedy_tokens_torch(
    logits: torch.Tensor, num_reqs: torch.Tensor, tokens: torch.Tensor, error: torch.Tensor
) -> None:
    """The first NaN; if there is none, the first of those that equal the largest."""
    most, vocab = logits.shape
    errors.report_torch(error, (num_reqs < 0) | (num_reqs > most), Error.COUNT)
    there = torch.arange(most, device=logits.device) < num_reqs
    bad = logits.isnan()
    errors.report_torch(error, there & bad.any(1), Error.NOT_A_NUMBER)
    largest = torch.where(bad, -torch.inf, logits).amax(1, keepdim=True)
    wins = torch.where(bad.any(1, keepdim=True), bad, logits == largest)
    first = torch.where(wins, torch.arange(vocab, device=logits.device), vocab).amin(1)
    tokens[:] = torch.where(there, first, NO_TOKEN)


@triton.jit
def _packed(x, token):
    """A logit and its token as one integer: the larger, the better; of equals the lower token."""
    bits = x.to(tl.int32, bitcast=True)
    rank = tl.where(bits < 0, bits ^ LOW, bits)
    rank = tl.where(x == 0.0, 0, tl.where(x != x, LOW, rank))
    return (rank.to(tl.int64) << 32) | (token ^ LOW).to(tl.int64)


@triton.jit
def _best_kernel(
    logits, stride, num_reqs, partial, partial_stride, most, vocab,
    TURNS: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    row = tile_entry(tl.program_id(0), H, tl.arange(0, H))
    there = ((row < tl.load(num_reqs)) & (row < most))[:, None]
    row = row.to(tl.int64)
    best = tl.full([H, W], LEAST, tl.int64)
    for turn in range(TURNS):
        tile = turn * tl.num_programs(1) + tl.program_id(1)
        token = tile_entry(tile, W, tl.arange(0, W))[None, :]
        inside = there & (token < vocab)
        at = row_entry(row[:, None], stride, token)
        x = tl.load(logits + at, mask=inside, other=0.0).to(tl.float32)
        best = tl.maximum(best, tl.where(inside, _packed(x, token), LEAST))
    at = row_entry(row, partial_stride, tl.program_id(1))
    tl.store(partial + at, tl.max(best, 1), mask=row < most)


@triton.jit
def _token_kernel(
    partial, stride, num_reqs, tokens, error, most, splits, H: tl.constexpr, S: tl.constexpr
):
    row = tile_entry(tl.program_id(0), H, tl.arange(0, H))
    n = tl.load(num_reqs)
    if (n < 0) | (n > most):
        tl.atomic_or(error, COUNT)
    there = (row < n) & (row < most)
    split = tl.arange(0, S)[None, :]
    at = row_entry(row.to(tl.int64)[:, None], stride, split)
    best = tl.load(partial + at, mask=there[:, None] & (split < splits), other=LEAST)
    best = tl.max(best, 1)
    report(error, there & ((best >> 32) == LOW), NOT_A_NUMBER)
    token = (best & LOW) ^ LOW
    tl.store(tokens + row, tl.where(there, token, NOTHING), mask=row < most)
