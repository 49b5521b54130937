"""What a trace tells of encoder inputs: which items a prompt has, and what is computed and kept.

Items have numbers, from 1: equal numbers, equal embeddings. Sizes are embeddings.
"""

import msgspec
from msgspec import UNSET, UnsetType

from nullblock.conformance.trace.base import Chain, Count, Line, Piece, Positive, RequestNumber

Inputs = list[tuple[RequestNumber, Count]]
"""Items to compute: whose, and their places in the prompts, from 0."""
Answers = list[tuple[Positive, bool]]
"""Items that an encoder connector was asked for, and whether it has them, where that is not what
it said of them before; to begin with it has none."""


class Encoder(Piece, frozen=True, kw_only=True):
    """What the model's encoder may do."""

    max_num_encoder_input_tokens: Count
    """Embeddings that a step may compute."""
    encoder_cache_size: Count
    """Embeddings that may be kept."""
    disable_chunked_mm_input: bool = False
    """No step ends within an item that it enters."""
    is_encoder_decoder: bool = False
    """Items stand before the prompt, and are computed with its first token: nothing is kept of
    them but what the next step tells workers to forget."""
    ec_connector: bool = False
    """There is an encoder connector: items that it has are loaded, and not computed."""


class Item(Piece, frozen=True, kw_only=True):
    """An encoder input of a prompt."""

    item: Positive
    """Its number."""
    offset: Count
    """Its first token; 0 of an encoder-decoder model's."""
    length: Count
    """Tokens that stand for it."""
    is_embed: list[Chain] | None = None
    """Which of them stand for an embedding: runs of places, from 0, within `length`. None: all
    do.
    """


class EncoderCache(Piece, frozen=True, kw_only=True):
    """The encoder cache, inside a ``state`` record."""

    num_free_slots: Count
    """Embeddings that fit without an eviction."""
    num_freeable_slots: Count | UnsetType = UNSET
    """That fit once all that nobody refers to are evicted. An encoder-decoder model has none."""
    cached: list[tuple[Positive, list[RequestNumber]]] = msgspec.field(default_factory=list)
    """Items that are kept and who refers to them, both in order of number."""
    freeable: list[tuple[Positive, Count]] = msgspec.field(default_factory=list)
    """Items that nobody refers to, and their sizes, the one that is evicted next first."""
    to_forget: list[Positive] = msgspec.field(default_factory=list)
    """Of an encoder-decoder model: items that workers forget before the next step."""
    at_connector: list[Positive] = msgspec.field(default_factory=list)
    """Of those that are kept, or a live request has: the ones of which the encoder connector has
    said last that it has them, in order of number."""


class ResetEncoderCache(Line, frozen=True, kw_only=True, tag="reset_encoder_cache"):
    """Input: all embeddings are to be forgotten."""
