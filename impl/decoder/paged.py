"""Keys and values of all requests in the blocks of one pool."""

import torch

from nullblock.impl.decoder.batch import Inputs
from nullblock.impl.decoder.shape import Shape


def size_in_bytes(shape: Shape, num_blocks: int, block_size: int, bytes_each: int = 4) -> int:
    """Of the cache of a model, keys and values of all layers."""
    slot = shape.num_kv_heads * shape.head_size * bytes_each
    return 2 * shape.num_layers * num_blocks * block_size * slot


class KVCache:
    """Two tensors a layer, [num_blocks, block_size, num_kv_heads, head_size].

    With `poisoned`, a slot holds NaN until somebody writes it; `poison` makes it so again. Whoever
    reads what nobody wrote gets NaN for an answer.
    """

    def __init__(
        self,
        shape: Shape,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype = torch.float32,
        device: str = "cpu",
        *,
        poisoned: bool = True,
    ) -> None:
        size = (num_blocks, block_size, shape.num_kv_heads, shape.head_size)
        self.keys, self.values = (
            [
                torch.full(size, float("nan") if poisoned else 0.0, dtype=dtype, device=device)
                for _ in range(shape.num_layers)
            ]
            for _ in range(2)
        )
        self.scale = shape.head_size**-0.5

    def poison(self, blocks: torch.Tensor) -> None:
        """Forget what stands in these blocks."""
        for tensor in (*self.keys, *self.values):
            tensor[blocks.long()] = float("nan")

    def write(
        self, layer: int, key: torch.Tensor, value: torch.Tensor, slot_mapping: torch.Tensor
    ) -> None:
        """Put keys and values [tokens, num_kv_heads, head_size] into their slots."""
        self.keys[layer].flatten(0, 1)[slot_mapping] = key
        self.values[layer].flatten(0, 1)[slot_mapping] = value

    def attend(self, layer: int, query: torch.Tensor, inputs: Inputs) -> torch.Tensor:
        """What each token gets from all that its request has in the cache up to itself.

        Queries and answers: [tokens, num_heads, head_size].
        """
        out = torch.empty_like(query)
        starts, lengths = inputs.query_start_loc.tolist(), inputs.seq_lens.tolist()
        size = self.keys[layer].shape[1]
        group = query.shape[1] // self.keys[layer].shape[2]
        for i, length in enumerate(lengths):
            table = inputs.block_table[i, : -(-length // size)].long()
            q = query[starts[i] : starts[i + 1]].transpose(0, 1)
            k = self.keys[layer][table].flatten(0, 1)[:length].repeat_interleave(group, 1)
            v = self.values[layer][table].flatten(0, 1)[:length].repeat_interleave(group, 1)
            scores = q @ k.permute(1, 2, 0) * self.scale
            n = q.shape[1]
            future = torch.ones(n, length, dtype=torch.bool, device=q.device)
            scores = scores.masked_fill(future.triu(length - n + 1), float("-inf"))
            out[starts[i] : starts[i + 1]] = (scores.softmax(-1) @ v.transpose(0, 1)).transpose(
                0, 1
            )
        return out
