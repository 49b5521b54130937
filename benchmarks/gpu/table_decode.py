"""Paged decode attention: one token a request; and the same over a shared prefix."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from contexts import MODEL, PAGE, SCALE, Case, case, peers
from figures import Cost, Row, Target
from workbench import Bench, Peer

from nullblock.kernels.attention import cascade_attention, paged_decode_attention
from nullblock.kernels.attention.cost import cascade_cost
from nullblock.kernels.errors import new_error

TITLE = "Paged decode attention"
TEXT = "32 query heads over 8 key/value heads of 128, bfloat16, blocks of 16, drawn at random."


def rows(bench: Bench) -> Iterator[Row]:
    """Few and many requests, short and long; then 64 that share 4,096 tokens."""
    on_gpu = bench.device.type == "cuda"
    sizes = [(1, 8192), (32, 4096), (64, 8192), (256, 4096), (256, 512)]
    for requests, length in sizes if on_gpu else [(4, 256)]:
        given = case(bench.device, requests, length, 1)
        target = requests >= 32 and length >= 4096
        yield bench.row(
            f"{requests} requests of {length:,} tokens",
            _ours(given),
            given.cost,
            peers=peers(given),
            target=Target("decode-attention", share=0.84) if target else None,
        )
    yield _shared(bench, *((64, 4096, 512) if on_gpu else (4, 128, 32)))


def _ours(given: Case) -> partial[torch.Tensor]:
    out, error = torch.empty_like(given.query), new_error(given.query.device)
    context = replace(given.context, max_seq_len=given.length)
    return partial(
        paged_decode_attention, given.query, context, softmax_scale=SCALE, out=out, error=error
    )


def _shared(bench: Bench, requests: int, prefix: int, rest: int) -> Row:
    given = case(bench.device, requests, prefix + rest, 1, shared=prefix // PAGE)
    least = cascade_cost(MODEL, [given.length] * requests, [1] * requests, PAGE, prefix // PAGE)
    context = replace(given.context, max_seq_len=given.length)
    call = partial(
        cascade_attention, given.query, context, given.query_start_loc, prefix // PAGE,
        softmax_scale=SCALE, out=torch.empty_like(given.query), error=new_error(bench.device),
    )  # fmt: skip
    return bench.row(
        f"{requests} requests of {prefix:,} shared tokens and {rest} of their own",
        call,
        Cost(least.num_bytes, least.flops),
        peers={"without sharing, ours": Peer(lambda: _ours(given)), **peers(given)},
    )
