"""Shared-prefix attention: the common prefix once for all queries, then each request's rest."""

import dataclasses

import torch

from nullblock.kernels.attention.backend import Backend, use_triton
from nullblock.kernels.attention.context import (
    PagedContext,
    Results,
    check,
    check_query_start_loc,
    results,
)
from nullblock.kernels.attention.twin import attend_torch


def cascade_attention(
    query: torch.Tensor,
    context: PagedContext,
    query_start_loc: torch.Tensor,
    num_common_prefix_blocks: int,
    *,
    softmax_scale: float,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    error: torch.Tensor | None = None,
    backend: Backend = "auto",
) -> torch.Tensor:
    """What ``paged_attention`` computes, reading the blocks that all requests share only once.

    The first ``num_common_prefix_blocks`` entries of every row of the block table that has a
    request are equal; those of row 0 are read. A query inside the prefix sees no further than
    itself. Other shapes and arguments: ``context.py`` and ``mixed.py``.

    Raises ValueError for shapes, dtypes and devices that do not fit.
    """
    check(query, context, softmax_scale)
    check_query_start_loc(query_start_loc, context)
    width = context.block_table.shape[1]
    if not 0 <= num_common_prefix_blocks <= width:
        raise ValueError(
            f"num_common_prefix_blocks is {num_common_prefix_blocks}: block_table has {width}"
        )
    where = results(query, out, lse, error)
    if use_triton(query, backend):
        raise NotImplementedError
    cascade_attention_torch(
        query, context, query_start_loc, num_common_prefix_blocks, softmax_scale, where
    )
    return where.out


def cascade_attention_torch(
    query: torch.Tensor,
    context: PagedContext,
    query_start_loc: torch.Tensor,
    num_common_prefix_blocks: int,
    softmax_scale: float,
    results: Results,
) -> None:
    """The twin: attention without any cascade, the prefix of every row taken from row 0."""
    block_table = context.block_table.clone()
    block_table[:, :num_common_prefix_blocks] = block_table[:1, :num_common_prefix_blocks]
    shared = dataclasses.replace(context, block_table=block_table)
    attend_torch(query, shared, query_start_loc, softmax_scale, results)
