"""Paged decode attention: one query token a request, keys and values by block table."""

import torch

from nullblock.kernels.attention.backend import Backend, use_triton
from nullblock.kernels.attention.context import PagedContext, Results, check, results
from nullblock.kernels.attention.twin import attend_torch


def paged_decode_attention(
    query: torch.Tensor,
    context: PagedContext,
    *,
    softmax_scale: float,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    error: torch.Tensor | None = None,
    backend: Backend = "auto",
) -> torch.Tensor:
    """Attention of token ``i`` of the query to the whole context of request ``i``.

    Shapes: ``context.py``; ``query`` has as many rows as there are requests. ``lse`` and ``error``
    are written if given. Returns ``out``. A request with bad metadata gets NaN and a bit of the
    error word, ``COUNT`` (its length) or ``BLOCK`` (its block table).

    Raises ValueError for shapes, dtypes and devices that do not fit.
    """
    check(query, context, softmax_scale)
    if query.shape[0] != context.num_reqs:
        raise ValueError(
            f"query has {query.shape[0]} tokens for {context.num_reqs} requests: decode takes one "
            "token a request"
        )
    where = results(query, out, lse, error)
    if use_triton(query, backend):
        raise NotImplementedError
    paged_decode_attention_torch(query, context, softmax_scale, where)
    return where.out


def paged_decode_attention_torch(
    query: torch.Tensor, context: PagedContext, softmax_scale: float, results: Results
) -> None:
    """The twin: every request has a query of one token."""
    offsets = torch.arange(query.shape[0] + 1, dtype=torch.int32, device=query.device)
    attend_torch(query, context, offsets, softmax_scale, results)
