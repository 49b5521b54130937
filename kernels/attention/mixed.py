"""Attention of a mixed batch: prefill chunks and decodes of any length side by side, causal."""

import torch

from nullblock.kernels.attention.backend import Backend, use_triton
from nullblock.kernels.attention.context import (
    PagedContext,
    check,
    check_query_start_loc,
    results,
)
from nullblock.kernels.attention.twin import attend_torch


def paged_attention(
    query: torch.Tensor,
    context: PagedContext,
    query_start_loc: torch.Tensor,
    *,
    softmax_scale: float,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    error: torch.Tensor | None = None,
    backend: Backend = "auto",
) -> torch.Tensor:
    """Causal attention of each request's query, the tail of its context, to that context.

    Request ``r`` owns rows ``query_start_loc[r]`` to ``query_start_loc[r + 1] - 1``; none is a
    padded request. Rows past the last request are padding: they keep what ``out`` holds, zeros if
    ``out`` is made here. Other shapes and arguments: ``context.py`` and ``decode.py``.

    Raises ValueError for shapes, dtypes and devices that do not fit.
    """
    check(query, context, softmax_scale)
    check_query_start_loc(query_start_loc, context)
    where = results(query, out, lse, error)
    if use_triton(query, backend):
        raise NotImplementedError
    paged_attention_torch(query, context, query_start_loc, softmax_scale, where)
    return where.out


paged_attention_torch = attend_torch
"""The twin."""
