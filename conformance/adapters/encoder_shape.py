"""Encoder inputs in vLLM's shape: a model's processors, and a request's items."""

from types import SimpleNamespace
from typing import Any

from nullblock.conformance.encoder_format import Encoder, Item
from nullblock.conformance.engine import Fields
from nullblock.conformance.played.encoder import Mask

MODALITY = "image"


def settings(encoder: Encoder, max_num_batched_tokens: int) -> Fields:
    """The fields of vLLM's ``scheduler_config`` that speak of an encoder."""
    compute, kept = encoder.max_num_encoder_input_tokens, encoder.encoder_cache_size
    return {
        "max_num_encoder_input_tokens": max_num_batched_tokens if compute is None else compute,
        "encoder_cache_size": max_num_batched_tokens if kept is None else kept,
        "disable_chunked_mm_input": encoder.disable_chunked_mm_input,
    }


def registry(encoder: Encoder) -> SimpleNamespace:
    """A model's processors: they know of one modality how large its items are."""
    info = SimpleNamespace(
        supported_mm_limits={MODALITY: None},
        allowed_mm_limits={MODALITY: 1},
        get_mm_max_tokens_per_item=lambda seq_len, mm_counts: {
            MODALITY: encoder.max_tokens_per_item
        },
    )
    return SimpleNamespace(
        supports_multimodal_inputs=lambda model_config: True,
        processor_only_cache_from_config=lambda vllm_config: None,
        create_processor=lambda model_config, cache: SimpleNamespace(info=info),
    )


def features(inputs: Any, items: list[Item]) -> list[Any]:
    """A request's encoder inputs; ``inputs`` is the module with their classes."""
    return [
        inputs.MultiModalFeatureSpec(
            data=None,
            modality=MODALITY,
            identifier=item.hash,
            mm_position=inputs.PlaceholderRange(
                item.offset, item.length, None if item.is_embed is None else Mask([*item.is_embed])
            ),
        )
        for item in items
    ]
