"""Attention of a mixed batch: prefill chunks and decodes of any length side by side, causal.

A request with one token in the query is computed as in ``decode.py``, split by split: it has the
same bits whether its company decodes or prefills. The chunks of the others are cut into tiles of
rows, each the query heads of some tokens that share a key/value head, and go through their keys
once. A row's keys are taken in tiles that are counted from the start of its request: how a prompt
is chunked changes nothing of how a row adds.

Rules: a request's query is what the step schedules of it, in the order of the step (OUT-1); it
sees what is computed and scheduled, each token in the slot that the table gives it (TABLE-8).
"""

import torch

from nullblock.kernels.arguments import Backend, use_triton
from nullblock.kernels.attention.call import Call
from nullblock.kernels.attention.context import (
    PagedContext,
    check,
    check_query_start_loc,
    results,
)
from nullblock.kernels.attention.decode import launch_decodes
from nullblock.kernels.attention.partials import Partials
from nullblock.kernels.attention.prefill_kernel import prefill_kernel
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
    if not use_triton(query, backend):
        paged_attention_torch(query, context, query_start_loc, softmax_scale, where)
    elif query.numel() and context.num_reqs:
        call = Call(query, context, query_start_loc, softmax_scale, where)
        launch_decodes(call)
        launch_prefills(call, Partials.of(query, 0))
    return where.out


paged_attention_torch = attend_torch
"""The twin."""


def launch_prefills(
    call: Call, partials: Partials, prefix: int = 0, prefix_slots: int = 0
) -> None:
    """Compute the requests with several tokens in the query, from key ``prefix`` on.

    With a prefix they write partials, to slot ``prefix_slots``.
    """
    numbers, num_reqs = call.numbers, call.context.num_reqs
    tile = call.prefill_tile
    # The host does not know the lengths: as many tiles as there can be, some of nobody.
    tiles = call.query.shape[0] // (tile.rows // numbers.group) + num_reqs
    prefill_kernel[(tiles * call.context.num_kv_heads,)](
        **call.tensors(partials),
        **call.scalars(),
        **call.constants(tile),
        num_reqs=num_reqs,
        prefix=prefix,
        prefix_slots=prefix_slots,
        slots=partials.slots,
        CASCADE=prefix_slots > 0,
        BITS=num_reqs.bit_length(),
    )
