"""Keys and values into the paged cache: 8 heads of 128, blocks of 16, slots block by block."""

from collections.abc import Iterator
from functools import partial

import torch
from figures import Cost, Row, Target
from timing import Call
from workbench import Bench, Peer

from nullblock.kernels.cache.write import write_kv
from nullblock.kernels.errors import new_error

TITLE = "KV write"
TEXT = "One call writes keys and values of all tokens of a layer. Blocks are drawn at random."
HEADS, SIZE, BLOCK = 8, 128, 16
FP8 = torch.float8_e4m3fn


def rows(bench: Bench) -> Iterator[Row]:
    """Decodes of 256 requests, a chunk of 8k tokens, and 64k tokens; then 64k to float8."""
    many = 65_536 if bench.device.type == "cuda" else 2048
    for tokens in (256, 8192, many):
        if tokens <= many:
            yield _row(bench, tokens, torch.bfloat16, "kv-write" if tokens == many else None)
    yield _row(bench, many, FP8, None)


def _row(bench: Bench, tokens: int, dtype: torch.dtype, target: str | None) -> Row:
    device = bench.device
    blocks = 2 * -(-tokens // BLOCK) + 1
    key, value = (torch.randn(tokens, HEADS, SIZE, device=device).bfloat16() for _ in range(2))
    caches = [torch.zeros(blocks, BLOCK, HEADS, SIZE, device=device).to(dtype) for _ in range(2)]
    chosen = torch.randperm(blocks - 1, device=device)[: -(-tokens // BLOCK)] + 1
    slots = (chosen[:, None] * BLOCK + torch.arange(BLOCK, device=device)).flatten()[:tokens]
    scale = torch.tensor([0.5], device=device) if dtype == FP8 else None
    scales = {"key_scale": scale, "value_scale": scale}
    ours = partial(write_kv, key, value, *caches, slots, new_error(device), **scales)
    bytes = 2 * tokens * (HEADS * SIZE * (2 + dtype.itemsize) + 8)
    name = str(dtype).removeprefix("torch.")
    return bench.row(
        f"{tokens:,} tokens, {name}",
        ours,
        Cost(bytes),
        peers={
            "torch index_copy_": Peer(lambda: _index_copy(key, value, caches, slots, scale)),
            "vLLM Triton": Peer(lambda: _vllm(key, value, caches, slots, scale)),
        },
        target=Target(target, share=0.85) if target else None,
    )


def _index_copy(
    key: torch.Tensor,
    value: torch.Tensor,
    caches: list[torch.Tensor],
    slots: torch.Tensor,
    scale: torch.Tensor | None,
) -> Call:
    """What one writes in torch."""
    flat = [cache.flatten(0, 1) for cache in caches]
    if scale is not None:
        flat = [cache.view(torch.uint8) for cache in flat]

    def call() -> None:
        for source, target in zip((key, value), flat, strict=True):
            if scale is not None:
                source = (source.float() / scale).clamp(-448, 448).to(FP8).view(torch.uint8)
            target.index_copy_(0, slots, source)

    return call


def _vllm(
    key: torch.Tensor,
    value: torch.Tensor,
    caches: list[torch.Tensor],
    slots: torch.Tensor,
    scale: torch.Tensor | None,
) -> Call:
    """vLLM's kernel, where vLLM is installed."""
    from vllm.v1.attention.ops.triton_reshape_and_cache_flash import (
        triton_reshape_and_cache_flash,
    )

    one = torch.ones(1, device=key.device) if scale is None else scale
    kind = "auto" if scale is None else "fp8_e4m3"
    return partial(triton_reshape_and_cache_flash, key, value, *caches, slots, kind, one, one)
