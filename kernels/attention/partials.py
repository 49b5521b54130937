"""Partial softmaxes, and their sum: how splits of one row's keys come together.

A split leaves the softmax of its keys (``tiles.py``) in float32, not yet divided by its total.
Splits are added in their order, sixteen at a time, so the sum of a row depends on its own splits
alone. One rescaling to the largest score of all is what the logarithm of the sum of exponentials
amounts to.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from nullblock.kernels.attention.tiles import nothing_seen, store_rows
from nullblock.kernels.index import row_entry

SLOTS = tl.constexpr(16)
"""Partials that are added at once: 8 KiB of 128 columns."""


@dataclass(frozen=True, slots=True)
class Partials:
    """Room for ``slots`` partial softmaxes of each row of a query; a slot that is not counted is
    never read."""

    acc: torch.Tensor
    """float32 ``[num_tokens, H, slots, head_size]``"""
    top: torch.Tensor
    """float32 ``[num_tokens, H, slots]``, times log2(e)"""
    total: torch.Tensor
    """float32 ``[num_tokens, H, slots]``"""

    @property
    def slots(self) -> int:
        """Partials that a row has room for."""
        return int(self.top.shape[2])

    @staticmethod
    def of(query: torch.Tensor, slots: int) -> "Partials":
        """Room that holds nothing yet: ``num_tokens * H * slots * (head_size + 2) * 4`` bytes."""
        shape = (*query.shape[:2], slots)
        acc = query.new_empty((*shape, query.shape[2]), dtype=torch.float32)
        return Partials(acc, acc.new_empty(shape), acc.new_empty(shape))


@triton.jit
def store_partial(
    partial_acc, partial_top, partial_total, slot, slots, top, total, acc, refused,
    token, head, valid, num_heads, HEAD_SIZE: tl.constexpr, HEAD_PAD: tl.constexpr,
):  # fmt: skip
    """One split's softmax of some rows; of a refused request, a total that is no number."""
    column = tl.arange(0, HEAD_PAD)
    place = row_entry(row_entry(token.to(tl.int64), num_heads, head), slots, slot)
    total = tl.where(refused, float("nan"), total)
    tl.store(partial_top + place, top, mask=valid)
    tl.store(partial_total + place, total, mask=valid)
    mask = valid[:, None] & (column < HEAD_SIZE)[None, :]
    tl.store(partial_acc + row_entry(place[:, None], HEAD_SIZE, column[None, :]), acc, mask=mask)


@triton.jit
def combine_row(
    partial_acc, partial_top, partial_total, first, count, slots, token, head, num_heads,
    out, lse, value_scale, token_stride, head_stride,
    HEAD_SIZE: tl.constexpr, HEAD_PAD: tl.constexpr,
):  # fmt: skip
    """The result of one row from its partials ``first`` to ``count - 1``, at most ``slots``."""
    column = tl.arange(0, HEAD_PAD)
    row = row_entry(row_entry(token.to(tl.int64), num_heads, head), slots, 0)
    top, total, acc = nothing_seen(1, HEAD_PAD)
    for at in range(first, count, SLOTS):
        slot = at + tl.arange(0, SLOTS)
        there = slot < count
        tops = tl.load(partial_top + row + slot, mask=there, other=float("-inf"))
        totals = tl.load(partial_total + row + slot, mask=there, other=0.0)
        mask = there[:, None] & (column < HEAD_SIZE)[None, :]
        place = row_entry((row + slot)[:, None], HEAD_SIZE, column[None, :])
        accs = tl.load(partial_acc + place, mask=mask, other=0.0)
        new_top = tl.maximum(top, tl.max(tops, 0))
        level = tl.where(new_top == float("-inf"), 0.0, new_top)
        weights = tl.exp2(tops - level)
        fade = tl.exp2(top - level)
        total = tl.fma(total, fade, tl.sum(weights * totals, 0))
        acc = tl.fma(acc, fade[:, None], tl.sum(weights[:, None] * accs, 0)[None, :])
        top = new_top
    tokens = token + tl.zeros([1], tl.int32)
    heads = head + tl.zeros([1], tl.int32)
    store_rows(
        out, lse, top, total, acc, False, tokens, heads, tokens >= 0, value_scale,
        token_stride, head_stride, num_heads, HEAD_SIZE, HEAD_PAD,
    )  # fmt: skip
