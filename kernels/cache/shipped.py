"""In which sizes and types the kernels of the paged cache are launched."""

import torch

from nullblock.kernels.cache.blocks import copy_blocks, zero_blocks
from nullblock.kernels.cache.write import FP8, write_kv

NUM_BLOCKS, BLOCK_SIZE, HEADS, HEAD_SIZE = 1 << 15, 16, 8, 128


def _new(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def _written(dtype: torch.dtype, cache_dtype: torch.dtype, tokens: int) -> None:
    cache = _new(cache_dtype, NUM_BLOCKS, BLOCK_SIZE, HEADS, HEAD_SIZE)
    fresh = _new(dtype, tokens, HEADS, HEAD_SIZE)
    slots, error = _new(torch.int64, tokens), _new(torch.int32, 1)
    scale = _new(torch.float32, 1) if cache_dtype == FP8 else None
    write_kv(
        fresh, fresh, cache, cache, slots, error,
        key_scale=scale, value_scale=scale, backend="triton",
    )  # fmt: skip


def bf16_decodes() -> None:
    """256 tokens of bfloat16."""
    _written(torch.bfloat16, torch.bfloat16, 256)


def fp8_prefill() -> None:
    """8192 tokens of bfloat16, rounded to float8."""
    _written(torch.bfloat16, FP8, 8192)


def whole_blocks() -> None:
    """64 blocks of bfloat16, zeroed and copied."""
    cache = _new(torch.bfloat16, NUM_BLOCKS, BLOCK_SIZE * HEADS * HEAD_SIZE)
    ids, count, error = _new(torch.int32, 64), _new(torch.int32, 1), _new(torch.int32, 1)
    zero_blocks(cache, ids, count, error, backend="triton")
    roles = _new(torch.int32, NUM_BLOCKS)
    copy_blocks(cache, ids, ids, count, roles, error, backend="triton")


EXAMPLES = (bf16_decodes, fp8_prefill, whole_blocks)
