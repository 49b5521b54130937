"""In which sizes and types the attention kernels are launched: a model of 8 billion parameters."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from unittest.mock import patch

import torch

from nullblock.kernels.attention import launch
from nullblock.kernels.attention.cascade import cascade_attention
from nullblock.kernels.attention.context import PagedContext
from nullblock.kernels.attention.decode import paged_decode_attention
from nullblock.kernels.attention.mixed import paged_attention

HEADS, KV_HEADS, HEAD_SIZE, BLOCK_SIZE, NUM_BLOCKS = 32, 8, 128, 16, 1 << 15
MAX_MODEL_LEN = 8192
NVIDIA, AMD = ("sm_90", "sm_100"), ("gfx942", "gfx950")
BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn


def _new(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def _context(num_reqs: int, dtype: torch.dtype) -> PagedContext:
    cache = _new(dtype, NUM_BLOCKS, BLOCK_SIZE, KV_HEADS, HEAD_SIZE)
    table = _new(torch.int32, num_reqs, MAX_MODEL_LEN // BLOCK_SIZE)
    scale = _new(torch.float32, 1) if dtype == FP8 else 1.0
    lengths = _new(torch.int32, num_reqs)
    return PagedContext(cache, cache, table, lengths, k_scale=scale, v_scale=scale)


def _decodes(cache_dtype: torch.dtype) -> None:
    query = _new(BF16, 256, HEADS, HEAD_SIZE)
    lse, error = _new(torch.float32, 256, HEADS), _new(torch.int32, 1)
    context = _context(256, cache_dtype)
    paged_decode_attention(
        query, context, softmax_scale=0.1, lse=lse, error=error, backend="triton"
    )


def bf16_decodes() -> None:
    """256 tokens of as many requests."""
    _decodes(BF16)


def fp8_decodes() -> None:
    """The same over a cache of float8, its scales on the device."""
    _decodes(FP8)


def bf16_mixed() -> None:
    """64 requests, 8192 tokens, with the shared memory of NVIDIA's."""
    query, starts = _new(BF16, 8192, HEADS, HEAD_SIZE), _new(torch.int32, 65)
    error = _new(torch.int32, 1)
    paged_attention(
        query, _context(64, BF16), starts, softmax_scale=0.1, error=error, backend="triton"
    )


def bf16_mixed_64k() -> None:
    """The same with the 64 KiB of AMD's."""
    with _shared_memory(64 << 10):
        bf16_mixed()


def bf16_cascade() -> None:
    """64 requests, 256 tokens, a common prefix of 64 blocks."""
    query, starts = _new(BF16, 256, HEADS, HEAD_SIZE), _new(torch.int32, 65)
    error = _new(torch.int32, 1)
    cascade_attention(
        query, _context(64, BF16), starts, 64, softmax_scale=0.1, error=error, backend="triton"
    )


def bf16_cascade_64k() -> None:
    """The same with the 64 KiB of AMD's."""
    with _shared_memory(64 << 10):
        bf16_cascade()


def _shared_memory(size: int) -> AbstractContextManager[object]:
    """Inside, every GPU has so many bytes."""
    return patch.object(launch, "shared_memory", lambda device: size)


def _for(example: Callable[[], None], *targets: str) -> Callable[[], None]:
    example.targets = targets  # type: ignore[attr-defined]
    return example


EXAMPLES = (
    bf16_decodes,
    fp8_decodes,
    _for(bf16_mixed, *NVIDIA),
    _for(bf16_mixed_64k, *AMD),
    _for(bf16_cascade, *NVIDIA),
    _for(bf16_cascade_64k, *AMD),
)
