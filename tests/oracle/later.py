"""Configuration fields that releases after 0.22.1 read: the older one does not look at them.

Everything here is off, or what follows from the fields that both read. Found by running 0.32.0 on
namespaces without them.
"""

from types import SimpleNamespace
from typing import Any

SCHEDULER: dict[str, Any] = {
    "long_prefill_token_threshold_adaptive": False,
    "max_num_active_seqs": None,
}
CACHE: dict[str, Any] = {"enable_mamba_shared_prefix_checkpoint": False}
MODEL: dict[str, Any] = {
    "supports_multimodal_inputs": False,
    "uses_mrope": False,
    "is_diffusion": False,
    "return_sampling_mask": False,
}
OBSERVABILITY: dict[str, Any] = {
    "enable_logging_iteration_details": False,
    "per_request_spec_decode_metrics": "none",
}


def unit_of_hashes(config: dict[str, Any]) -> int | None:
    """Tokens that one hash covers: what the older release calls hash_block_size, and ignores where
    there is one group.
    """
    return config["hash_block_size"] if len(config["groups"]) > 1 else None


def of_states(spec: Any, group: dict[str, Any]) -> dict[str, Any]:
    """The fields of Mamba layers that the older release does not have."""
    within = group.get("prefill_checkpoint_alignment", 0)
    if not within or "num_prefill_checkpoint_blocks" not in spec.__dataclass_fields__:
        return {}
    return {"num_prefill_checkpoint_blocks": 1, "prefill_checkpoint_alignment": within}


def top(config: dict[str, Any]) -> dict[str, Any]:
    """The fields of vLLM's configuration itself, which the older release derives by itself."""
    depth = config["queue_depth"] if config["async_scheduling"] else 1
    drafts = config["num_spec_tokens"]
    return {
        "num_speculative_tokens": drafts,
        "num_lookahead_tokens": 0 if config["spec_method"] == "ngram" else drafts,
        "num_prefill_lookahead_tokens": int(drafts > 0 and config["spec_method"] == "eagle"),
        "max_concurrent_batches": depth,
        "max_in_flight_tokens": config["max_num_batched_tokens"] * depth,
        "is_mm_encoder_only": False,
        "ec_manager_config": SimpleNamespace(get_encoder_cache_manager_obj=lambda: None),
        "aux_output_config": SimpleNamespace(enabled=False),
    }
