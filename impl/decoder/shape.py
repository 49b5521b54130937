"""How large the decoder is."""

from dataclasses import dataclass

BYTES = 256
"""A vocabulary of bytes: text goes in and out without a tokenizer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The sizes of a Llama-shaped decoder; counts are of heads, layers or numbers in a vector.

    Raises ValueError for sizes that do not fit together.
    """

    vocab_size: int = BYTES
    hidden_size: int = 64
    intermediate_size: int = 128
    num_layers: int = 3
    num_heads: int = 4
    num_kv_heads: int = 2
    """Each serves `num_heads // num_kv_heads` query heads (GQA)."""
    head_size: int = 16
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5
    tie_word_embeddings: bool = False
    """Whether the head is the embedding."""

    def __post_init__(self) -> None:
        for name in ("vocab_size", "hidden_size", "intermediate_size", "num_layers", "num_heads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is at least 1")
        if self.num_kv_heads < 1 or self.num_heads % self.num_kv_heads:
            raise ValueError(
                f"{self.num_heads} query heads cannot share {self.num_kv_heads} heads of keys"
            )
        if self.head_size < 2 or self.head_size % 2:
            raise ValueError("head_size is even and at least 2: rotary turns pairs")
