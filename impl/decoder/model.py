"""The decoder: RMSNorm, rotary attention with shared key heads (GQA), SwiGLU, layer after layer.

Where keys and values are kept is not its business: `attend` is given to it.
"""

from collections.abc import Callable

import torch
from torch.nn.functional import linear, silu

from nullblock.impl.decoder.weights import Weights

Attend = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Of a layer, queries [tokens, num_heads, head_size], keys and values [tokens, num_kv_heads,
head_size] of the tokens at hand: what each token gets from all before it and itself, as queries.
"""


class Decoder:
    """A decoder of these weights; it holds nothing besides them and the rotary frequencies."""

    def __init__(self, weights: Weights) -> None:
        self.weights, self.shape = weights, weights.shape
        pairs = torch.arange(0, self.shape.head_size, 2, dtype=torch.float64)
        frequencies = self.shape.rope_theta ** (-pairs / self.shape.head_size)
        self.frequencies = frequencies.to(weights.embedding.device)

    def hidden(
        self, input_ids: torch.Tensor, positions: torch.Tensor, attend: Attend
    ) -> torch.Tensor:
        """The last hidden state of each token, normalised: [tokens, hidden_size].

        `input_ids` and `positions` (from 0) are whole numbers, [tokens].
        """
        shape, n = self.shape, len(input_ids)
        x = self.weights.embedding[input_ids]
        turn = self._turn(positions, x.dtype)
        for number, layer in enumerate(self.weights.layers):
            h = self._norm(x, layer.input_norm)
            q = linear(h, layer.q).view(n, shape.num_heads, shape.head_size)
            k = linear(h, layer.k).view(n, shape.num_kv_heads, shape.head_size)
            v = linear(h, layer.v).view(n, shape.num_kv_heads, shape.head_size)
            mixed = attend(number, _rotated(q, turn), _rotated(k, turn), v)
            x = x + linear(mixed.flatten(1), layer.o)
            h = self._norm(x, layer.post_attention_norm)
            x = x + linear(silu(linear(h, layer.gate)) * linear(h, layer.up), layer.down)
        return self._norm(x, self.weights.norm)

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Of hidden states: float32, [tokens, vocab_size]."""
        return linear(hidden, self.weights.head).float()

    def _norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """RMSNorm, its mean in float32 whatever the type of x."""
        wide = x.float()
        mean = wide.square().mean(-1, keepdim=True)
        return (wide * torch.rsqrt(mean + self.shape.rms_norm_eps)).to(x.dtype) * weight

    def _turn(
        self, positions: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines by token and pair, [tokens, 1, head_size / 2]."""
        angles = positions.double()[:, None, None] * self.frequencies
        return angles.cos().to(dtype), angles.sin().to(dtype)


def _rotated(x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Each pair (i, i + head_size / 2) of a head, turned by the angle of its position."""
    (cos, sin), (a, b) = turn, x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)
