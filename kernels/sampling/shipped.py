"""In which sizes and types the kernels of sampling are launched."""

import torch

from nullblock.kernels.batch.layout import Batch, Requests
from nullblock.kernels.sampling.greedy import SPLITS, greedy_tokens
from nullblock.kernels.sampling.stop import Limits, take_tokens

MAX_MODEL_LEN, BLOCK_SIZE, VOCABULARY = 8192, 16, 128_256


def _new(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def _sampled(most: int, dtype: torch.dtype) -> None:
    ids, one = _new(torch.int32, most), _new(torch.int32, 1)
    partial = _new(torch.int64, most, SPLITS)
    logits = _new(dtype, most, VOCABULARY)
    greedy_tokens(logits, one, ids, partial, one, backend="triton")
    requests = Requests.empty(most, MAX_MODEL_LEN, BLOCK_SIZE, "meta")
    limits = Limits(ids, ids, ids, _new(torch.int32, most, 4))
    take_tokens(requests, Batch(ids, one, ids), limits, ids, ids, one, backend="triton")


def bf16_256() -> None:
    """256 requests, logits of bfloat16."""
    _sampled(256, torch.bfloat16)


def fp32_4096() -> None:
    """4096 requests, logits of float32."""
    _sampled(4096, torch.float32)


EXAMPLES = (bf16_256, fp32_4096)
