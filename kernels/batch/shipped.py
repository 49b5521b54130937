"""In which sizes and types the kernels of the persistent batch are launched."""

import torch

from nullblock.kernels.batch.append import Growth, Scratch, append_rows
from nullblock.kernels.batch.gather import gather_block_tables
from nullblock.kernels.batch.layout import Batch, Inputs, Requests
from nullblock.kernels.batch.lengths import compute_lengths
from nullblock.kernels.batch.rows import advance, clear_rows, set_rows
from nullblock.kernels.batch.slots import place_tokens

MAX_MODEL_LEN, BLOCK_SIZE, NUM_BLOCKS = 8192, 16, 1 << 17


def _ints(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int32, device="meta")


def _prepared(max_num_reqs: int, max_num_tokens: int) -> None:
    """One step's batch preparation."""
    requests = Requests.empty(max_num_reqs, MAX_MODEL_LEN, BLOCK_SIZE, "meta")
    batch = Batch(_ints(max_num_reqs), _ints(1), _ints(max_num_reqs))
    inputs = Inputs.empty(max_num_reqs, max_num_tokens, "meta")
    error, ones = _ints(1), _ints(max_num_reqs)
    growth = Growth(ones, _ints(1), ones, ones, ones)
    scratch = Scratch.empty(max_num_reqs, max_num_reqs, "meta")
    clear_rows(requests, ones, _ints(1), error, backend="triton")
    set_rows(requests.num_tokens, ones, _ints(1), ones, error, backend="triton")
    matrix, lengths = requests.block_table, requests.num_blocks
    append_rows(matrix, lengths, growth, scratch, error, backend="triton")
    compute_lengths(requests, batch, inputs, error, backend="triton")
    sizes = {"block_size": BLOCK_SIZE, "num_blocks": NUM_BLOCKS}
    place_tokens(requests, batch, inputs, error, backend="triton", **sizes)
    gather_block_tables(requests, batch, matrix.clone(), error, backend="triton")
    advance(requests, batch, error, backend="triton")


def decodes_256() -> None:
    """256 requests, a token each."""
    _prepared(256, 256)


def mixed_4096() -> None:
    """4096 requests, 8192 tokens."""
    _prepared(4096, 8192)


EXAMPLES = (decodes_256, mixed_4096)
