"""In which sizes and types the kernels of sampling are launched."""

import torch

from nullblock.kernels.batch.layout import Batch, Requests
from nullblock.kernels.sampling.greedy import SPLITS, greedy_tokens
from nullblock.kernels.sampling.stop import Limits, take_tokens

VOCAB, NUM_STOP = 128_256, 4


def _ints(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int32, device="meta")


def _sampled(running: int, dtype: torch.dtype) -> None:
    logits = torch.zeros(running, VOCAB, dtype=dtype, device="meta")
    partial = torch.zeros(running, SPLITS, dtype=torch.int64, device="meta")
    tokens, error = _ints(running), _ints(1)
    greedy_tokens(logits, _ints(1), tokens, partial, error, backend="triton")
    requests = Requests.empty(running, 8192, 16, "meta")
    batch = Batch(tokens, _ints(1), tokens)
    limits = Limits(tokens, tokens, tokens, _ints(running, NUM_STOP))
    take_tokens(requests, batch, limits, tokens, tokens, error, backend="triton")


def floats_256() -> None:
    """256 rows of float32."""
    _sampled(256, torch.float32)


def halves_4096() -> None:
    """4096 rows of bfloat16."""
    _sampled(4096, torch.bfloat16)


EXAMPLES = (floats_256, halves_4096)
"""What is compiled ahead of time, within the budget."""
