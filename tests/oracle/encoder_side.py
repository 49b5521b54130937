"""Encoder inputs of the real engine: a model's processors, and a request's items.

Also the other kinds of requests: prompts of embeddings, and pooling. Runs in the oracle's own
environment, after ``torchless.install()``.
"""

from types import SimpleNamespace
from typing import Any

from played import Embeds, Mask

Fields = dict[str, Any]
MODALITY = "image"


def arguments(encoder: Fields | None, vllm_config: Any) -> Fields:
    """What a scheduler is constructed with besides; completes its configuration in place."""
    if encoder is None:
        return {}
    settings = vllm_config.scheduler_config
    for key in ("max_num_encoder_input_tokens", "encoder_cache_size"):
        size = encoder.get(key)
        setattr(settings, key, settings.max_num_batched_tokens if size is None else size)
    settings.disable_chunked_mm_input = encoder.get("disable_chunked_mm_input", False)
    vllm_config.model_config.supports_multimodal_inputs = True
    vllm_config.model_config.is_encoder_decoder = encoder.get("is_encoder_decoder", False)
    vllm_config.model_config.get_multimodal_config = lambda: None
    largest = {MODALITY: encoder.get("max_tokens_per_item", 1)}
    info = SimpleNamespace(
        supported_mm_limits={MODALITY: None},
        allowed_mm_limits={MODALITY: 1},
        get_mm_max_tokens_per_item=lambda seq_len, mm_counts: largest,
        ctx=SimpleNamespace(model_config=vllm_config.model_config),
    )
    registry = SimpleNamespace(
        supports_multimodal_inputs=lambda model_config: True,
        processor_only_cache_from_config=lambda vllm_config: None,
        create_processor=lambda model_config, cache=None: SimpleNamespace(info=info),
    )
    return {"mm_registry": registry}


def kind_of_request(event: Fields, tokens: list[int], sampling_params: Any) -> Fields:
    """The arguments of a request that differ with its kind: mostly one of tokens."""
    from vllm.pooling_params import PoolingParams

    made: Fields = {
        "prompt_token_ids": tokens,
        "sampling_params": sampling_params,
        "pooling_params": None,
    }
    if event.get("mm_features"):
        made["mm_features"] = [_feature(item) for item in event["mm_features"]]
    embeds = event.get("prompt_embeds")
    if embeds is not None:
        made["prompt_embeds"] = Embeds.of(embeds["seed"], len(tokens))
        if not embeds.get("with_tokens", False):
            made["prompt_token_ids"] = None
    if event.get("pooling"):
        skip = event.get("skip_cache_read")
        made["sampling_params"] = None
        made["pooling_params"] = PoolingParams(skip_reading_prefix_cache=skip)
    return made


def _feature(item: Fields) -> Any:
    from vllm.multimodal.inputs import MultiModalFeatureSpec, PlaceholderRange

    mask = item.get("is_embed")
    return MultiModalFeatureSpec(
        data=None,
        modality=MODALITY,
        identifier=item["hash"],
        mm_position=PlaceholderRange(
            item["offset"], item["length"], None if mask is None else Mask(mask)
        ),
    )
