"""Shared-prefix attention: the common prefix once for all queries, then each request's rest."""

import dataclasses

import torch

from nullblock.kernels.attention.context import (
    Backend,
    PagedContext,
    check,
    check_query_start_loc,
    check_results,
    use_triton,
)
from nullblock.kernels.attention.twin import attend_torch


def cascade_attention(
    query: torch.Tensor,
    context: PagedContext,
    query_start_loc: torch.Tensor,
    num_common_prefix_blocks: int,
    *,
    softmax_scale: float,
    max_seq_len: int | None = None,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    error: torch.Tensor | None = None,
    backend: Backend = "auto",
) -> torch.Tensor:
    """What ``paged_attention`` computes, reading the blocks that all requests share only once.

    The first ``num_common_prefix_blocks`` entries of every row of the block table that has a
    request are equal; those of row 0 are read. A query inside the prefix sees no further than
    itself. Other shapes and arguments: ``context.py`` and ``mixed.py``.

    Raises ``ValueError`` for shapes, dtypes and devices that do not fit.
    """
    check(query, context, softmax_scale)
    check_results(query, out, lse, error)
    check_query_start_loc(query_start_loc, context)
    if not 0 <= num_common_prefix_blocks <= context.block_table.shape[1]:
        raise ValueError(
            f"num_common_prefix_blocks has to be 0 to {context.block_table.shape[1]}, the width "
            f"of block_table; it is {num_common_prefix_blocks}"
        )
    out = torch.zeros_like(query) if out is None else out
    if use_triton(query, backend):
        raise NotImplementedError
    cascade_attention_torch(
        query,
        context,
        query_start_loc,
        num_common_prefix_blocks,
        softmax_scale,
        out,
        lse,
        error,
    )
    return out


def cascade_attention_torch(
    query: torch.Tensor,
    context: PagedContext,
    query_start_loc: torch.Tensor,
    num_common_prefix_blocks: int,
    softmax_scale: float,
    out: torch.Tensor,
    lse: torch.Tensor | None = None,
    error: torch.Tensor | None = None,
) -> None:
    """The twin: attention without any cascade, the prefix of every row taken from row 0."""
    block_table = context.block_table.clone()
    block_table[:, :num_common_prefix_blocks] = block_table[:1, :num_common_prefix_blocks]
    shared = dataclasses.replace(context, block_table=block_table)
    attend_torch(query, shared, query_start_loc, softmax_scale, out, lse, error)
