"""Scenario keys of encoder inputs and of prompts that are embeddings, and what they may say."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from nullblock.conformance.errors import ScenarioError

AtLeast0 = Annotated[int, Meta(ge=0)]


MOST_ITEMS: Final = 8
"""vLLM frees a request's items in the order of a set of their places, which is ascending for so
many.
"""


class Encoder(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The model has an encoder. Sizes are embeddings, but for one; null: as many as
    ``max_num_batched_tokens``. vLLM raises both budgets to the largest item.
    """

    max_num_encoder_input_tokens: AtLeast0 | None = None
    """Embeddings that a step may compute."""
    encoder_cache_size: AtLeast0 | None = None
    """Embeddings that may be kept."""
    max_tokens_per_item: AtLeast0 = 1
    """Tokens of the largest item that the model has."""
    disable_chunked_mm_input: bool = False
    """No step ends within an item that it enters."""
    is_encoder_decoder: bool = False
    external: list[str] | None = None
    """Hashes of the items that an encoder connector has; null: there is no such connector."""

    def sizes(self, max_num_batched_tokens: int) -> tuple[int, int]:
        """Embeddings that a step may compute, and that may be kept, as vLLM raises both."""
        compute, kept = (
            max(max_num_batched_tokens if n is None else n, self.max_tokens_per_item)
            for n in (self.max_num_encoder_input_tokens, self.encoder_cache_size)
        )
        return compute, kept


class Item(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An encoder input of a request: where it stands in the prompt, and by what it is known."""

    hash: str
    offset: AtLeast0
    """Of its first token, or of an encoder-decoder model's: 0."""
    length: AtLeast0
    """Tokens."""
    is_embed: list[bool] | None = None
    """Which of its tokens stand for an embedding; null: all."""


class PromptEmbeds(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The prompt is embeddings, one a token. Equal seeds and positions, equal embeddings."""

    seed: int
    with_tokens: bool = False
    """Whether the tokens are given as well; otherwise all count as token 0."""


def check_encoder(encoder: Encoder, max_num_batched_tokens: int) -> None:
    """Refuse an encoder that no engine could be built with."""
    if encoder.disable_chunked_mm_input and encoder.max_tokens_per_item > max_num_batched_tokens:
        raise ScenarioError(
            f"items of {encoder.max_tokens_per_item} tokens, which must not be cut, in steps of "
            f"{max_num_batched_tokens}",
            "allow to cut them, or raise max_num_batched_tokens",
            "config.encoder.max_tokens_per_item",
        )


def check_items(items: list[Item], has_encoder: bool, place: str) -> None:
    """Refuse a request's encoder inputs that stand for nothing."""
    if items and not has_encoder:
        raise ScenarioError("encoder inputs for a model without", 'add "encoder": {}', place)
    for index, item in enumerate(items):
        if item.is_embed is not None and len(item.is_embed) != item.length:
            raise ScenarioError(
                f"{len(item.is_embed)} positions of an item of {item.length} tokens",
                "say of each token whether it stands for an embedding",
                f"{place}[{index}].is_embed",
            )
