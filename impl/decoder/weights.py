"""Random weights that are the same on every machine.

They come from Philox, whose stream NumPy promises to keep, by operations that IEEE 754 rounds in
one way only: 24 random bits, one subtraction, one multiplication. A test pins their digest.

The gains are such that what stands in the cache matters: attention scores have a standard
deviation of about 2, so that a few of the tokens before get most of the weight, and attention
adds about as much to the residual stream as there was. A decoder whose last token decides alone
would say the right tokens over a wrong cache.
"""

import hashlib
from dataclasses import dataclass

import numpy as np
import torch

from nullblock.impl.decoder.shape import Shape

QK_GAIN, V_GAIN, O_GAIN, MLP_GAIN = 1.4, 1.0, 1.5, 1.0
LOGIT_STD = 8.0
"""Standard deviation of the logits of one token, about."""
_BITS = 24
"""As many as a float32 holds."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The matrices of one layer, each [out, in]."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    o: torch.Tensor
    gate: torch.Tensor
    up: torch.Tensor
    down: torch.Tensor
    input_norm: torch.Tensor
    post_attention_norm: torch.Tensor


@dataclass(frozen=True, slots=True)
class Weights:
    """All that a decoder has learnt, had it learnt anything."""

    shape: Shape
    embedding: torch.Tensor
    """[vocab_size, hidden_size]."""
    layers: tuple[Layer, ...]
    norm: torch.Tensor
    head: torch.Tensor
    """[vocab_size, hidden_size]; the embedding, scaled, where they are tied."""

    def digest(self) -> str:
        """The SHA-256 of all numbers in float32, for telling that two machines have the same."""
        digest = hashlib.sha256()
        for tensor in self.tensors():
            digest.update(tensor.float().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def tensors(self) -> list[torch.Tensor]:
        """Every tensor, layer by layer."""
        by_layer = [getattr(one, name) for one in self.layers for name in Layer.__slots__]
        return [self.embedding, *by_layer, self.norm, self.head]

    def to(self, device: str, dtype: torch.dtype) -> "Weights":
        """The same weights elsewhere, rounded to another type."""
        layers = tuple(
            Layer(*(getattr(one, name).to(device, dtype) for name in Layer.__slots__))
            for one in self.layers
        )
        return Weights(
            self.shape,
            self.embedding.to(device, dtype),
            layers,
            self.norm.to(device, dtype),
            self.head.to(device, dtype),
        )


def place(weights: Weights, device: str, dtype: str) -> Weights:
    """The weights on a device ("cpu", "cuda") in a type ("float32", "bfloat16").

    Raises ValueError where there is no such device.
    """
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise ValueError("this torch finds no GPU")
    return weights.to(device, getattr(torch, dtype))


class _Source:
    """One tensor after another; each has a stream of its own."""

    def __init__(self, seed: int) -> None:
        self.seed, self.count = seed, 0

    def matrix(self, rows: int, columns: int, gain: float) -> torch.Tensor:
        """Uniform numbers with the standard deviation gain / sqrt(columns)."""
        self.count += 1
        raw = np.random.Philox(key=[self.seed, self.count]).random_raw(rows * columns)
        # Exact in float32: whole numbers of 24 bits around 0.
        whole = (raw >> np.uint64(64 - _BITS)).astype(np.float32) - np.float32(2 ** (_BITS - 1))
        width = np.float32(gain * (3 / columns) ** 0.5 / 2 ** (_BITS - 1))
        return torch.from_numpy((whole * width).reshape(rows, columns))


def random_weights(shape: Shape, seed: int) -> Weights:
    """The weights of this shape that belong to `seed`, a whole number of at most 64 bits."""
    if not 0 <= seed < 2**64:
        raise ValueError(f"the seed {seed} is not between 0 and 2**64 - 1")
    source, hidden = _Source(seed), shape.hidden_size
    queries, keys = shape.num_heads * shape.head_size, shape.num_kv_heads * shape.head_size
    unit = torch.ones(hidden)
    embedding = source.matrix(shape.vocab_size, hidden, hidden**0.5)
    layers = tuple(
        Layer(
            q=source.matrix(queries, hidden, QK_GAIN),
            k=source.matrix(keys, hidden, QK_GAIN),
            v=source.matrix(keys, hidden, V_GAIN),
            o=source.matrix(hidden, queries, O_GAIN),
            gate=source.matrix(shape.intermediate_size, hidden, MLP_GAIN),
            up=source.matrix(shape.intermediate_size, hidden, MLP_GAIN),
            down=source.matrix(hidden, shape.intermediate_size, MLP_GAIN),
            input_norm=unit,
            post_attention_norm=unit,
        )
        for _ in range(shape.num_layers)
    )
    tied = shape.tie_word_embeddings
    head = (
        embedding * np.float32(LOGIT_STD / hidden**0.5)
        if tied
        else source.matrix(shape.vocab_size, hidden, LOGIT_STD)
    )
    return Weights(shape, embedding, layers, unit, head)
