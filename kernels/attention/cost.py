"""What attention has to move and to compute at least: floors for a benchmark, from lengths alone.

Bytes are what a kernel cannot avoid reading and writing once, flops the multiplications and
additions of the two products; softmax is not counted. Divided by what the device can do, they say
how long a launch takes at best.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Cost:
    """A lower bound."""

    num_bytes: int
    """Read and written."""
    flops: int
    """Two a multiply-add."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.num_bytes + other.num_bytes, self.flops + other.flops)

    def seconds(self, bytes_per_second: float, flops_per_second: float) -> float:
        """The time that a device needs which can do both at once."""
        return max(self.num_bytes / bytes_per_second, self.flops / flops_per_second)


@dataclass(frozen=True, slots=True)
class Model:
    """What of a model decides."""

    num_heads: int
    num_kv_heads: int
    head_size: int
    dtype: torch.dtype = torch.bfloat16
    cache_dtype: torch.dtype = torch.bfloat16

    @property
    def token_bytes(self) -> int:
        """A token's keys and values."""
        return 2 * self.num_kv_heads * self.head_size * int(self.cache_dtype.itemsize)

    @property
    def row_bytes(self) -> int:
        """A token's query and output."""
        return 2 * self.num_heads * self.head_size * int(self.dtype.itemsize)

    @property
    def pair_flops(self) -> int:
        """A token that sees a token: two products, all heads."""
        return 4 * self.num_heads * self.head_size


def decode_cost(model: Model, seq_lens: Sequence[int], block_size: int) -> Cost:
    """``paged_decode_attention``: every key and value once, and the ids of their blocks."""
    return paged_cost(model, seq_lens, [1 if length else 0 for length in seq_lens], block_size)


def paged_cost(
    model: Model, seq_lens: Sequence[int], query_lens: Sequence[int], block_size: int
) -> Cost:
    """``paged_attention``: every key and value once for each request; pairs that are causal."""
    total = Cost(0, 0)
    for length, count in zip(seq_lens, query_lens, strict=True):
        if count:
            blocks = -(-length // block_size)
            moved = length * model.token_bytes + count * model.row_bytes + 4 * blocks
            pairs = count * length - count * (count - 1) // 2
            total += Cost(moved, pairs * model.pair_flops)
    return total


def cascade_cost(
    model: Model,
    seq_lens: Sequence[int],
    query_lens: Sequence[int],
    block_size: int,
    num_common_prefix_blocks: int,
) -> Cost:
    """``cascade_attention``: the same pairs, the common prefix read once for all requests."""
    whole = paged_cost(model, seq_lens, query_lens, block_size)
    prefix = num_common_prefix_blocks * block_size
    sharing = sum(1 for count in query_lens if count)
    once = prefix * model.token_bytes + 4 * num_common_prefix_blocks
    return Cost(whole.num_bytes - max(sharing - 1, 0) * once, whole.flops)


def partial_bytes(model: Model, seq_lens: Sequence[int], split: int) -> int:
    """What splitting costs a batch of decodes on top: partials, written and read again.

    ``split`` is ``launch.split_size``; a request of one split has none.
    """
    splits = [-(-length // split) for length in seq_lens]
    row = 4 * (model.head_size + 2) * model.num_heads
    return 2 * row * sum(n for n in splits if n > 1)
