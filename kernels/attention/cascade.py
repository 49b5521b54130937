"""Shared-prefix attention: the common prefix once for all queries, then each request's rest.

All queries stand in the rows of tiles, whoever's they are, and go through the common prefix
together: its keys are read once for a tile instead of once for a request. Then each request goes
through the keys that are its own, as in ``decode.py`` and ``mixed.py``. All of that leaves partial
softmaxes, and one kernel adds them (``partials.py``).

Rules: how many leading blocks are common, the scheduler says (OUT-4); where a token's key stands,
the table (TABLE-8).

Whether there is a common prefix depends on the company, and so do the last bits of a result here.
"""

import dataclasses

import torch

from nullblock.kernels.arguments import Backend, use_triton
from nullblock.kernels.attention.call import Call
from nullblock.kernels.attention.cascade_kernels import cascade_combine_kernel, prefix_kernel
from nullblock.kernels.attention.context import (
    PagedContext,
    Results,
    check,
    check_query_start_loc,
    results,
)
from nullblock.kernels.attention.decode import launch_decodes, launch_splits
from nullblock.kernels.attention.launch import num_splits, prefix_split_size
from nullblock.kernels.attention.mixed import launch_prefills
from nullblock.kernels.attention.partials import Partials
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
    if not use_triton(query, backend):
        cascade_attention_torch(
            query, context, query_start_loc, num_common_prefix_blocks, softmax_scale, where
        )
    elif query.numel() and context.num_reqs:
        prefix = num_common_prefix_blocks * context.block_size
        _launch(Call(query, context, query_start_loc, softmax_scale, where), prefix)
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


def _launch(call: Call, prefix: int) -> None:
    """The four kernels; ``prefix`` is in tokens."""
    if prefix == 0:
        launch_decodes(call)
        launch_prefills(call, Partials.of(call.query, 0))
        return
    tile = call.prefill_tile
    num_tokens, num_reqs = call.query.shape[0], call.context.num_reqs
    tiles = -(-num_tokens // (tile.rows // call.numbers.group))
    kv_heads = call.context.num_kv_heads
    split = prefix_split_size(prefix, tiles * kv_heads, call.processors, tile)
    prefix_slots = num_splits(prefix, split)
    own_slots = num_splits(call.context.longest - prefix, call.split)
    partials = Partials.of(call.query, prefix_slots + own_slots)
    prefix_kernel[tiles * kv_heads, prefix_slots](
        **call.tensors(partials),
        **call.scalars(),
        **call.constants(tile),
        num_reqs=num_reqs,
        prefix=prefix,
        split=split,
        slots=partials.slots,
        BITS=num_reqs.bit_length(),
    )
    launch_splits(call, partials, own_slots, prefix, prefix_slots)
    launch_prefills(call, partials, prefix, prefix_slots)
    _combine(call, partials, prefix, prefix_slots)


def _combine(call: Call, partials: Partials, prefix: int, prefix_slots: int) -> None:
    numbers, where = call.numbers, call.results
    cascade_combine_kernel[call.query.shape[0], call.num_heads](
        partials.acc,
        partials.top,
        partials.total,
        call.context.seq_lens,
        call.query_start_loc,
        where.out,
        where.lse,
        call.scales()["value_scale"],
        call.value_factor,
        call.query.shape[0],
        call.num_heads,
        call.context.num_reqs,
        call.context.longest,
        call.split,
        prefix,
        prefix_slots,
        partials.slots,
        *where.out.stride()[:2],
        HEAD_SIZE=numbers.head_size,
        HEAD_PAD=numbers.head_pad,
        BITS=call.context.num_reqs.bit_length(),
        num_warps=4,
    )
