"""Greedy sampling and the stop check."""

from collections.abc import Iterator
from functools import partial

import torch
from figures import Cost, Row
from workbench import Bench, Peer
from worlds import world

from nullblock.kernels.errors import new_error
from nullblock.kernels.sampling.greedy import SPLITS, greedy_tokens
from nullblock.kernels.sampling.stop import Limits, take_tokens

TITLE = "Sampling"
TEXT = "`greedy_tokens` over a vocabulary of 128,256; `take_tokens` appends and checks (UPD-4)."
VOCAB = 128_256


def rows(bench: Bench) -> Iterator[Row]:
    """One row, many rows of both widths of logits; then 256 and 4096 requests take a token."""
    many = 256 if bench.device.type == "cuda" else 16
    for count, dtype in ((1, torch.float32), (many, torch.float32), (many, torch.bfloat16)):
        logits = torch.randn(count, VOCAB, device=bench.device).to(dtype)
        yield _greedy(bench, logits)
    for running in (256, 4096):
        yield _take(bench, running)


def _greedy(bench: Bench, logits: torch.Tensor) -> Row:
    device, count = bench.device, len(logits)
    tokens = torch.zeros(count, dtype=torch.int64, device=device)
    num = torch.full((1,), count, dtype=torch.int32, device=device)
    scratch = torch.zeros(count, SPLITS, dtype=torch.int64, device=device)
    name = str(logits.dtype).removeprefix("torch.")
    return bench.row(
        f"greedy, {count} × {VOCAB:,} {name}",
        partial(greedy_tokens, logits, num, tokens, scratch, new_error(device)),
        Cost(bytes=logits.numel() * logits.element_size() + count * 8),
        peers={"torch argmax": Peer(lambda: partial(torch.argmax, logits, 1, out=tokens))},
    )


def _take(bench: Bench, running: int) -> Row:
    device = bench.device
    made = world(device, running, context=1000)

    def full(value: int, *shape: int) -> torch.Tensor:
        return torch.full(shape, value, dtype=torch.int32, device=device)

    limits = Limits(full(2000, running), full(0, running), full(2, running), full(5, running, 4))
    before = made.requests.num_tokens.clone()
    call = partial(
        take_tokens, made.requests, made.batch, limits, full(7, running), full(0, running),
        new_error(device),
    )  # fmt: skip
    return bench.row(
        f"{running} requests take a token",
        call,
        Cost(bytes=running * (9 + 4) * 4),
        reset=partial(made.requests.num_tokens.copy_, before),
    )
