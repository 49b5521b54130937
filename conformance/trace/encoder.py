"""What a trace tells of encoder inputs: which items a prompt has, and what is computed and kept.

Items have numbers, from 1: equal numbers, equal embeddings. Sizes are embeddings.
"""

import msgspec

from nullblock.conformance.trace.base import Chain, Count, Line, Piece, Positive, RequestNumber

Inputs = list[tuple[RequestNumber, Count]]
"""Items to compute: whose, and their places in the prompts, from 0."""


class Encoder(Piece, frozen=True, kw_only=True):
    """What the model's encoder may do."""

    max_num_encoder_input_tokens: Count
    """Embeddings that a step may compute."""
    encoder_cache_size: Count
    """Embeddings that may be kept."""
    disable_chunked_mm_input: bool = False
    """No step ends within an item that it enters."""


class Item(Piece, frozen=True, kw_only=True):
    """An encoder input of a prompt."""

    item: Positive
    """Its number."""
    offset: Count
    """Its first token."""
    length: Count
    """Tokens that stand for it."""
    is_embed: list[Chain] | None = None
    """Which of them stand for an embedding: runs of places, from 0. None: all do."""


class EncoderCache(Piece, frozen=True, kw_only=True):
    """The encoder cache, inside a ``state`` record."""

    num_free_slots: Count
    """Embeddings that fit without an eviction."""
    num_freeable_slots: Count
    """That fit once all that nobody refers to are evicted."""
    cached: list[tuple[Positive, list[RequestNumber]]] = msgspec.field(default_factory=list)
    """Items that are kept and who refers to them, both in order of number."""
    freeable: list[tuple[Positive, Count]] = msgspec.field(default_factory=list)
    """Items that nobody refers to, and their sizes, the one that is evicted next first."""


class ResetEncoderCache(Line, frozen=True, kw_only=True, tag="reset_encoder_cache"):
    """Input: all embeddings are to be forgotten."""
