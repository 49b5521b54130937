"""Paged decode attention: one query token a request, keys and values by block table."""

import torch

from nullblock.kernels.attention.context import (
    Backend,
    PagedContext,
    check,
    check_results,
    use_triton,
)
from nullblock.kernels.attention.twin import attend_torch


def paged_decode_attention(
    query: torch.Tensor,
    context: PagedContext,
    *,
    softmax_scale: float,
    max_seq_len: int | None = None,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    error: torch.Tensor | None = None,
    backend: Backend = "auto",
) -> torch.Tensor:
    """Attention of token ``i`` of the query to the whole context of request ``i``.

    Shapes: ``context.py``; ``query`` has as many rows as there are requests. ``max_seq_len`` is
    any bound on ``seq_lens`` that the host knows, by default what the block table can hold; it
    changes the size of the launch and no bit of the result. ``lse`` and ``error`` are written if
    given. Returns ``out``.

    Raises ``ValueError`` for shapes, dtypes and devices that do not fit.
    """
    check(query, context, softmax_scale)
    check_results(query, out, lse, error)
    if query.shape[0] != context.block_table.shape[0]:
        raise ValueError(
            f"query has {query.shape[0]} tokens and block_table {context.block_table.shape[0]} "
            "requests: decode takes one token a request"
        )
    out = torch.zeros_like(query) if out is None else out
    if use_triton(query, backend):
        raise NotImplementedError
    paged_decode_attention_torch(query, context, softmax_scale, out, lse, error)
    return out


def paged_decode_attention_torch(
    query: torch.Tensor,
    context: PagedContext,
    softmax_scale: float,
    out: torch.Tensor,
    lse: torch.Tensor | None = None,
    error: torch.Tensor | None = None,
) -> None:
    """The twin: every request has a query of one token."""
    offsets = torch.arange(query.shape[0] + 1, dtype=torch.int32, device=query.device)
    attend_torch(query, context, offsets, softmax_scale, out, lse, error)
