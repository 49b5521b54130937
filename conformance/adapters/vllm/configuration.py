"""The header of a recording: what the scheduler was built with."""

from collections.abc import Callable
from hashlib import sha256
from operator import attrgetter
from typing import Any

from msgspec import json

from nullblock.conformance.adapters.vllm import drafts, groups, items, remote
from nullblock.conformance.adapters.vllm.settings import Settings

FORMAT = "nullblock-trace"
WITHOUT, VERSION = "1.3", "1.4"
"""Of the format: what a recording says that has words for neither sessions nor a connector, nor
drafts, of which it tells in short; and one that has.
"""
SINCE = {
    **dict.fromkeys(("use_v2_model_runner", "mamba_split"), "1.5"),
    **dict.fromkeys(("mla", "mamba", "block_size"), "1.5"),
    **dict.fromkeys(("is_encoder_decoder", "ec_connector"), "1.6"),
    **dict.fromkeys(("cross_attention", "sink_len"), "1.6"),
    "prefill_checkpoint_alignment": "1.8",
    "runner_type": "1.8",
}
"""The version in which words are new of a configuration, its groups and its encoder."""
CHUNKS_SINCE = FEATURES_SINCE = "1.7"
"""That in which sessions have words for encoder inputs of later chunks; and that in which what
decides between steps is named.
"""
OBSERVED = ("add", "output", "abort", "pause", "reset", "evict", "schedule", "update", "compiled")


def header(
    scheduler: Any, settings: Settings, engine: dict[str, str], recording: str
) -> dict[str, Any]:
    """The ``header`` record of an engine that is as new; ``engine`` says which it is."""
    config = constants(scheduler)
    sessions = hasattr(scheduler, "_update_request_as_session")
    later = sessions or "connector" in config or "num_spec_tokens" in config
    words = set(config) - {"block_size"}  # of a group it is new
    words = words.union(config.get("encoder", ()), *config.get("groups", ()))
    of_sessions = CHUNKS_SINCE if sessions and "encoder" in config else WITHOUT
    since = [VERSION if later else WITHOUT, of_sessions]
    since += [FEATURES_SINCE] if names_features(scheduler) else []
    since += [SINCE[word] for word in words if word in SINCE]
    record: dict[str, Any] = {
        "ev": "header",
        "format": FORMAT,
        "version": max(since),
        "spec": f"{engine['name']}-{engine['version'].partition('+')[0]}",
        "engine": engine,
        "config": config,
        "config_sha256": sha256(json.encode(config, order="deterministic")).hexdigest(),
    }
    found = features(scheduler)
    if found:
        record["features"] = found
    record["observed"] = dict.fromkeys(OBSERVED, "complete")
    if sessions:
        record["observed"]["chunk"] = "complete"
    if "num_spec_tokens" in config:
        record["observed"]["draft"] = "complete"
    if "connector" in config:
        record["observed"] |= {"matched": "complete", "transfers": "complete"}
    if names_features(scheduler):
        record["observed"]["feature"] = "complete"
    if settings.state_every:
        record["observed"]["state"] = "sampled"
    if events_are_on(scheduler, settings):
        record["observed"]["events"] = "complete"
    record["block_ids"] = "exact" if "blocks" in settings.observe else "absent"
    record["start"] = "empty"
    record["recording"] = recording
    if rank(scheduler):
        record["data_parallel_rank"] = rank(scheduler)
    record["writer"] = "nullblock recorder"
    record["sealed"] = True
    return record


def rank(scheduler: Any) -> int:
    """Which of several engines side by side this is: its index, where models are not sharded."""
    parallel = scheduler.parallel_config
    index = getattr(parallel, "data_parallel_index", None)
    return int(index if index is not None else getattr(parallel, "data_parallel_rank", 0) or 0)


def events_are_on(scheduler: Any, settings: Settings) -> bool:
    """Whether the engine tells KV events and they are to be recorded."""
    return bool(
        "events" in settings.observe and getattr(scheduler, "enable_kv_cache_events", False)
    )


def names_features(scheduler: Any) -> bool:
    """Whether the engine is told between steps what no record tells: 0.32.0 holds prefills back,
    and learns by its requests which loads have failed.
    """
    return hasattr(scheduler, "prefill_capacity_bound")


def is_asynchronous(scheduler: Any) -> bool:
    """Whether the class that decides counts placeholders, whatever the configuration says."""
    return any(kind.__name__ == "AsyncScheduler" for kind in type(scheduler).__mro__)


def constants(scheduler: Any) -> dict[str, Any]:
    """The ``config`` of a header."""
    configured = scheduler.scheduler_config
    found: dict[str, Any] = {
        "block_size": groups.size_of_chains(scheduler),
        "num_blocks": scheduler.kv_cache_config.num_blocks,
        "max_num_scheduled_tokens": scheduler.max_num_scheduled_tokens,
        "max_num_seqs": scheduler.max_num_running_reqs,
        "max_model_len": scheduler.max_model_len,
        "long_prefill_token_threshold": configured.long_prefill_token_threshold,
        "enable_chunked_prefill": bool(configured.enable_chunked_prefill),
        "enable_prefix_caching": bool(scheduler.kv_cache_manager.enable_caching),
        "scheduler_reserve_full_isl": bool(scheduler.scheduler_reserve_full_isl),
        "policy": scheduler.policy.value,
    }
    watermark = getattr(scheduler.kv_cache_manager, "watermark_blocks", None)
    if watermark is not None:  # 0.32.0
        batched = configured.max_num_batched_tokens
        found["max_num_scheduled_tokens"] = min(scheduler.max_num_scheduled_tokens, batched)
    if watermark:
        found["watermark_blocks"] = watermark
    if is_asynchronous(scheduler):
        found["async_scheduling"] = True
    if scheduler.parallel_config.pipeline_parallel_size > 1:
        found["pipeline_parallel_size"] = scheduler.parallel_config.pipeline_parallel_size
    if scheduler.use_v2_model_runner:
        found["use_v2_model_runner"] = True
    if makes_vectors(scheduler):
        found["runner_type"] = "pooling"
    found |= drafts.constants(scheduler) or {}
    if (encoder := items.constants(scheduler)) is not None:
        found["encoder"] = encoder
    if scheduler.lora_config is not None:
        found["max_loras"] = scheduler.lora_config.max_loras
    found |= groups.constants(scheduler) or {}
    return found | (remote.constants(scheduler) or {})


def features(scheduler: Any) -> list[str]:
    """Names of what is switched on that decisions depend on and that the ``constants`` of 1.1 do
    not say: a reader that does not know later ones knows that it does not.
    """
    of_cache = scheduler.kv_cache_config.kv_cache_groups
    pool, configured = scheduler.kv_cache_manager.block_pool, scheduler.scheduler_config
    told = (groups.constants(scheduler) or {}).get("groups", ())
    found = {
        "speculative_decoding": drafts.constants(scheduler) is None,
        "max_loras": scheduler.lora_config is not None,
        "kv_connector": scheduler.connector is not None,
        "divergent_local_hits": len(of_cache) > 1
        and bool(getattr(scheduler.connector, "supports_divergent_local_hybrid_hits", False)),
        "ec_connector": getattr(scheduler, "ec_connector", None) is not None,
        "encoder_decoder": bool(scheduler.vllm_config.model_config.is_encoder_decoder),
        "context_parallelism": groups.are_divided(scheduler),
        "v2_model_runner": bool(scheduler.use_v2_model_runner),
        "kv_cache_groups": len(of_cache) != 1,
        "max_num_active_seqs": getattr(configured, "max_num_active_seqs", None) is not None,
        "long_prefill_token_threshold_adaptive": bool(
            getattr(configured, "long_prefill_token_threshold_adaptive", False)
        ),
        "pooling_model": makes_vectors(scheduler),
        "max_num_scheduled_tokens_above_batched": groups.grants_beyond_a_step(scheduler),
        "hash_block_size": pool.hash_block_size != scheduler.block_size,
        "block_sizes": any("block_size" in group for group in told),
    }
    names = [name for name, used in found.items() if used]
    names += [name for name, is_on in LATER.items() if is_on(scheduler)]
    for group in of_cache:
        kind = type(group.kv_cache_spec).__name__
        if kind != "FullAttentionSpec":
            names.append(f"kv_cache_spec:{kind}")
        if group.is_eagle_group and len(of_cache) > 1:
            names.append("eagle_group")
    names += groups.unsaid(scheduler)
    return list(dict.fromkeys(names))


def _is_set(attribute: str) -> Callable[[Any], bool]:
    """Whether an attribute of a scheduler, which others do not have, is something that is on."""
    read = attrgetter(attribute)

    def is_on(scheduler: Any) -> bool:
        try:
            return bool(read(scheduler))
        except AttributeError:
            return False

    return is_on


LATER: dict[str, Callable[[Any], bool]] = {
    "num_speculative_tokens_per_batch_size": _is_set("dynamic_sd_lookup"),
    "num_prefill_lookahead_tokens": lambda s: getattr(s, "num_prefill_lookahead", 0) > 1,
    "max_num_new_slots_for_drafting": drafts.takes_other_slots,
    "ec_manager_config": items.has_a_manager_of_its_own,
    "mm_encoder_only": _is_set("is_mm_encoder_only"),
    "diffusion": _is_set("vllm_config.model_config.is_diffusion"),
    "mamba_partial_cache_hit": _is_set("mamba_partial_cache_hit"),
    "mamba_shared_prefix_checkpoint": _is_set("kv_cache_manager.mamba_shared_prefix_checkpoint"),
}
"""The same of what there is since 0.32.0 and no constant is for: more than one token is read ahead
only where an EAGLE-like method has several modules. `test_recorder_reads` has all that either line
reads of its configuration, and where each is told or named.
"""


def makes_vectors(scheduler: Any) -> bool:
    """Whether no step leaves room for a token that it samples, as vLLM 0.32.0 has it of pooling
    models: diffusion models, of which it has the same, are named.
    """
    makes_no_tokens = getattr(scheduler, "num_sampled_tokens_per_step", 1) == 0
    return makes_no_tokens and not LATER["diffusion"](scheduler)


def request_features(request: Any) -> list[str]:
    """The same for one request."""
    parameters = request.sampling_params
    repetition = getattr(parameters, "repetition_detection", None)
    found = {
        "structured_output": request.structured_output_request is not None,
        "pooling": request.pooling_params is not None,
        "multimodal": bool(request.mm_features),
        "prompt_embeds": request.prompt_embeds is not None,
        "resumable": bool(request.resumable),
        "repetition_detection": repetition is not None,
        "kv_transfer": request.kv_transfer_params is not None,
    }
    return [name for name, used in found.items() if used]
