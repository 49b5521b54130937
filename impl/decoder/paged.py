"""Keys and values of all requests in the blocks of one pool."""

import torch

from nullblock.impl.decoder.batch import Prepared
from nullblock.impl.decoder.shape import Shape
from nullblock.kernels.arguments import Backend
from nullblock.kernels.attention import PagedContext, cascade_attention
from nullblock.kernels.cache.write import write_kv


def size_in_bytes(shape: Shape, num_blocks: int, block_size: int, bytes_each: int = 4) -> int:
    """Of the cache of a model, keys and values of all layers."""
    slot = shape.num_kv_heads * shape.head_size * bytes_each
    return 2 * shape.num_layers * num_blocks * block_size * slot


class KVCache:
    """Two tensors a layer, ``[num_blocks, block_size, num_kv_heads, head_size]``.

    With `poisoned`, a slot holds NaN until somebody writes it; `poison` makes it so again. Whoever
    reads what nobody wrote gets NaN for an answer.
    """

    def __init__(
        self,
        shape: Shape,
        num_blocks: int,
        block_size: int,
        like: torch.Tensor,
        error: torch.Tensor,
        backend: Backend,
        *,
        poisoned: bool,
    ) -> None:
        size = (shape.num_layers, num_blocks, block_size, shape.num_kv_heads, shape.head_size)
        first = float("nan") if poisoned else 0.0
        self.keys, self.values = (like.new_full(size, first).unbind() for _ in range(2))
        self.scale, self.error, self.backend = shape.head_size**-0.5, error, backend

    def poison(self, blocks: torch.Tensor) -> None:
        """Forget what stands in these blocks."""
        for tensor in (*self.keys, *self.values):
            tensor[blocks.long()] = float("nan")

    def attend(
        self,
        prepared: Prepared,
        layer: int,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
    ) -> torch.Tensor:
        """Write keys and values of the tokens at hand into their slots; then, of each token, what
        it gets from all that its request has in the cache up to itself.

        Shapes: ``model.Attend``.
        """
        keys, values, inputs = self.keys[layer], self.values[layer], prepared.inputs
        write_kv(key, value, keys, values, inputs.slot_mapping, self.error, backend=self.backend)
        return cascade_attention(
            query,
            PagedContext(keys, values, prepared.block_tables, inputs.seq_lens),
            inputs.query_start_loc,
            prepared.num_common_prefix_blocks,
            softmax_scale=self.scale,
            error=self.error,
            backend=self.backend,
        )
