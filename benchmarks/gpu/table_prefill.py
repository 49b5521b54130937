"""Prefill attention: causal, over the paged cache into which the prompt was just written."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import torch
from contexts import SCALE, Case, case, peers
from figures import Row, Target
from timing import Effort
from workbench import Bench

from nullblock.kernels.attention import paged_attention
from nullblock.kernels.errors import new_error

TITLE = "Prefill attention"
TEXT = "32 query heads over 8 key/value heads of 128, bfloat16, blocks of 16, drawn at random."


def rows(bench: Bench) -> Iterator[Row]:
    """Whole prompts of 2k and 8k tokens; a chunk of 2k at the end of 8k."""
    on_gpu = bench.device.type == "cuda"
    sizes = [(4, 2048, 2048), (1, 8192, 8192), (2, 8192, 8192), (1, 8192, 2048)]
    for requests, length, count in sizes if on_gpu else [(1, 64, 64), (1, 64, 16)]:
        given = case(bench.device, requests, length, count)
        whole = count == length
        what = "whole prompts" if whole else f"the last {count:,} tokens of prompts"
        # Milliseconds each: a few calls are enough, and a graph of many would be long.
        yield bench.row(
            f"{requests} × {what} of {length:,} tokens",
            _ours(given),
            given.cost,
            peers=peers(given),
            target=Target("prefill-attention", share=0.57) if whole and length >= 8192 else None,
            effort=Effort(4, min(10, bench.effort.rounds), min(30, bench.effort.host_rounds)),
        )


def _ours(given: Case) -> partial[torch.Tensor]:
    context = replace(given.context, max_seq_len=given.length)
    return partial(
        paged_attention, given.query, context, given.query_start_loc, softmax_scale=SCALE,
        out=torch.empty_like(given.query), error=new_error(given.query.device),
    )  # fmt: skip
