"""Paged decode attention: one query token a request, keys and values by block table.

The keys of a request are cut into splits of a fixed size (``launch.split_size``), one program for
each split and key/value head; a second kernel adds what they found (``partials.py``). So one long
request occupies the whole device, and where it is cut depends on nothing but its own length: a
request has the same bits alone and in any company, at any place in the batch, whatever blocks it
has, and whatever bound on lengths the launch was made for.

Rules: a token's key and value stand in the slot that its table gives it (TABLE-8), and nobody else
writes there (TABLE-6, TABLE-11).

The query heads that share a key/value head stand in the rows of one tile: each key is read once.
"""

import torch

from nullblock.kernels.arguments import Backend, use_triton
from nullblock.kernels.attention.call import Call
from nullblock.kernels.attention.context import PagedContext, Results, check, results
from nullblock.kernels.attention.decode_kernels import combine_kernel, decode_kernel
from nullblock.kernels.attention.launch import decode_tile, num_splits
from nullblock.kernels.attention.partials import Partials
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
    where = results(query, out, lse, error, every_row=True)
    if not use_triton(query, backend):
        paged_decode_attention_torch(query, context, softmax_scale, where)
    elif query.numel():
        launch_decodes(Call(query, context, None, softmax_scale, where))
    return where.out


def paged_decode_attention_torch(
    query: torch.Tensor, context: PagedContext, softmax_scale: float, results: Results
) -> None:
    """The twin: every request has a query of one token."""
    offsets = torch.arange(query.shape[0] + 1, dtype=torch.int32, device=query.device)
    attend_torch(query, context, offsets, softmax_scale, results)


def launch_decodes(call: Call) -> None:
    """Compute the requests with one token in the query; check the metadata of all."""
    slots = num_splits(call.context.longest, call.split)
    # Requests of one split never look at partials: where there are no others, none are made.
    partials = Partials.of(call.query, slots if slots > 1 else 0)
    launch_splits(call, partials, slots)
    if slots > 1:
        numbers, where = call.numbers, call.results
        combine_kernel[call.num_heads, call.context.num_reqs](
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
            call.context.longest,
            call.split,
            slots,
            *where.out.stride()[:2],
            HEAD_SIZE=numbers.head_size,
            HEAD_PAD=numbers.head_pad,
            num_warps=4,
        )


def launch_splits(
    call: Call, partials: Partials, own_slots: int, prefix: int = 0, prefix_slots: int = 0
) -> None:
    """Attend to splits of the keys from token ``prefix`` on; those before it are not looked at.

    With a prefix every request writes partials, from slot ``prefix_slots`` on.
    """
    grid = (call.context.num_kv_heads, own_slots, call.context.num_reqs)
    decode_kernel[grid](
        **call.tensors(partials),
        **call.scalars(),
        **call.constants(decode_tile(call.numbers)),
        split=call.split,
        prefix=prefix,
        prefix_slots=prefix_slots,
        slots=partials.slots,
        CASCADE=prefix_slots > 0,
    )
