"""Paged decode attention: one query token a request, keys and values by block table.

The keys of a request are cut into splits of a fixed size (``launch.split_size``), one program for
each split and key/value head; a second kernel adds what they found (``partials.py``). So one long
request occupies the whole device, and where it is cut depends on nothing but its own length: a
request has the same bits alone and in any company, at any place in the batch, whatever blocks it
has, and whatever bound on lengths the launch was made for.

The query heads that share a key/value head stand in the rows of one tile: each key is read once.
"""

import torch

from nullblock.kernels.attention.backend import Backend, use_triton
from nullblock.kernels.attention.context import PagedContext, Results, check, results
from nullblock.kernels.attention.decode_kernels import combine_kernel, decode_kernel
from nullblock.kernels.attention.launch import (
    decode_tile,
    num_splits,
    numbers,
    processors,
    split_size,
)
from nullblock.kernels.attention.partials import Partials
from nullblock.kernels.attention.twin import attend_torch

LOG2_E = 1.4426950408889634


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
    if not use_triton(query, backend):
        paged_decode_attention_torch(query, context, softmax_scale, where)
    elif query.numel():
        launch_decodes(query, context, None, softmax_scale, where)
    return where.out


def paged_decode_attention_torch(
    query: torch.Tensor, context: PagedContext, softmax_scale: float, results: Results
) -> None:
    """The twin: every request has a query of one token."""
    offsets = torch.arange(query.shape[0] + 1, dtype=torch.int32, device=query.device)
    attend_torch(query, context, offsets, softmax_scale, results)


def own_split(query: torch.Tensor, context: PagedContext) -> int:
    """Tokens of a split in a call."""
    heads, kv_heads = query.shape[1], context.num_kv_heads
    return split_size(context.capacity, heads, kv_heads, processors(query.device))


def launch_decodes(
    query: torch.Tensor,
    context: PagedContext,
    query_start_loc: torch.Tensor | None,
    softmax_scale: float,
    results: Results,
) -> None:
    """Compute the requests with one token in the query; check the metadata of all.

    Without ``query_start_loc`` token ``i`` is request ``i``'s.
    """
    split = own_split(query, context)
    slots = num_splits(context.longest, split)
    # Requests of one split never look at partials: where there are no others, none are made.
    partials = Partials.of(query, slots if slots > 1 else 0)
    launch_splits(
        query, context, query_start_loc, softmax_scale, results, partials, slots, split, 0, 0
    )
    if slots == 1:
        return
    sizes = numbers(query, context)
    num_tokens, num_heads, _ = query.shape
    combine_kernel[num_heads, context.num_reqs](
        partials.acc,
        partials.top,
        partials.total,
        context.seq_lens,
        query_start_loc,
        results.out,
        results.lse,
        context.v_scale,
        num_tokens,
        num_heads,
        context.longest,
        split,
        slots,
        *results.out.stride()[:2],
        HEAD_SIZE=sizes.head_size,
        HEAD_PAD=sizes.head_pad,
        num_warps=4,
    )


def launch_splits(
    query: torch.Tensor,
    context: PagedContext,
    query_start_loc: torch.Tensor | None,
    softmax_scale: float,
    results: Results,
    partials: Partials,
    own_slots: int,
    split: int,
    prefix: int,
    prefix_slots: int,
) -> None:
    """Attend to splits of the keys from token ``prefix`` on; those before it are not looked at.

    With a prefix every request writes partials, from slot ``prefix_slots`` on.
    """
    sizes = numbers(query, context)
    tile = decode_tile(sizes)
    decode_kernel[context.num_kv_heads, own_slots, context.num_reqs](
        query,
        context.key_cache,
        context.value_cache,
        context.block_table,
        context.seq_lens,
        query_start_loc,
        results.out,
        results.lse,
        results.error,
        partials.acc,
        partials.top,
        partials.total,
        softmax_scale * context.k_scale * LOG2_E,
        context.v_scale,
        *query.shape[:2],
        context.num_blocks,
        context.longest,
        split,
        prefix,
        prefix_slots,
        prefix_slots + own_slots,
        *query.stride()[:2],
        *context.key_cache.stride()[:3],
        *context.value_cache.stride()[:3],
        context.block_table.stride(0),
        *results.out.stride()[:2],
        GROUP=sizes.group,
        BLOCK_SIZE=sizes.block_size,
        HEAD_SIZE=sizes.head_size,
        HEAD_PAD=sizes.head_pad,
        ROWS=tile.rows,
        TILE=tile.keys,
        COMPUTE=sizes.compute,
        CASCADE=prefix_slots > 0,
        num_warps=tile.num_warps,
        num_stages=tile.num_stages,
    )
