"""How many embeddings a step may compute, and how many may be kept."""

from collections.abc import Mapping
from typing import Any

from nullblock.reference.encoder_cache_manager import (
    EncoderCacheManager,
    EncoderDecoderCacheManager,
    compute_mm_encoder_budget,
)
from nullblock.reference.errors import refuse
from nullblock.spec.profiles import VLLM_0_22_1, Semantics


class MultiModalBudget:
    """The encoder's budgets for a model, as its registry of multimodal processors has them.

    Args:
        vllm_config: any object with vLLM's configuration fields that are read here.
        mm_registry: makes the model's processor, whose ``info`` knows the largest items.

    Attributes:
        encoder_compute_budget: embeddings that one step may compute.
        encoder_cache_size: embeddings that may be kept.
        mm_max_toks_per_item: the largest item of each modality that an encoder computes.
    """

    def __init__(self, vllm_config: Any, mm_registry: Any) -> None:
        model_config = vllm_config.model_config
        cache = mm_registry.processor_only_cache_from_config(vllm_config)
        info = mm_registry.create_processor(model_config, cache=cache).info
        mm_config = model_config.get_multimodal_config()
        takes_embeds = mm_config is not None and mm_config.enable_mm_embeds
        limits: Mapping[str, int] = info.allowed_mm_limits
        # A modality limited to none at all is computed nowhere; its embeddings may still be sent.
        computed = {name for name in info.supported_mm_limits if limits.get(name, 0) > 0}
        active = set(info.supported_mm_limits) if takes_embeds else computed
        largest: Mapping[str, int] = info.get_mm_max_tokens_per_item(
            seq_len=model_config.max_model_len, mm_counts=dict.fromkeys(active, 1)
        )
        # Modalities that share their placeholders with another one have no entry of their own.
        known = {name: largest[name] for name in active if name in largest}
        self.mm_max_toks_per_item = {name: n for name, n in known.items() if name in computed}
        self.encoder_compute_budget, self.encoder_cache_size = compute_mm_encoder_budget(
            vllm_config.scheduler_config, known
        )


def make_encoder_cache(
    vllm_config: Any, mm_registry: Any, semantics: Semantics = VLLM_0_22_1
) -> tuple[EncoderCacheManager, int]:
    """The encoder cache of a model, and the embeddings that one step may compute.

    Args:
        mm_registry: the model's processors, or None for a model without an encoder.
    """
    model_config = vllm_config.model_config
    is_encoder_decoder = model_config.is_encoder_decoder
    if mm_registry is None or not mm_registry.supports_multimodal_inputs(model_config):
        refuse("an encoder-decoder model without its mm_registry", is_encoder_decoder)
        refuse(
            "a multimodal model without its mm_registry",
            mm_registry is None and model_config.is_multimodal_model,
        )
        return EncoderCacheManager(0), 0
    budget = MultiModalBudget(vllm_config, mm_registry)
    if not is_encoder_decoder:
        cache = EncoderCacheManager(budget.encoder_cache_size, semantics)
        return cache, budget.encoder_compute_budget
    assert len(budget.mm_max_toks_per_item) <= 1, "an encoder-decoder model has one modality"
    room = EncoderDecoderCacheManager(budget.encoder_cache_size, semantics)
    return room, budget.encoder_compute_budget
