"""The header of a recording: what the scheduler was built with."""

from hashlib import sha256
from typing import Any

from msgspec import json

FORMAT, VERSION = "nullblock-trace", "1.0"
OBSERVED = ("add", "output", "abort", "pause", "reset", "evict", "schedule", "update")


def header(scheduler: Any, engine: dict[str, str], recording: str) -> dict[str, object]:
    """The ``header`` record of an engine that is as new; ``engine`` says which it is."""
    config = constants(scheduler)
    record: dict[str, object] = {
        "ev": "header",
        "format": FORMAT,
        "version": VERSION,
        "spec": f"{engine['name']}-{engine['version'].partition('+')[0]}",
        "engine": engine,
        "config": config,
        "config_sha256": sha256(json.encode(config, order="deterministic")).hexdigest(),
    }
    found = features(scheduler)
    if found:
        record["features"] = found
    record["observed"] = dict.fromkeys(OBSERVED, "complete")
    record["block_ids"] = "exact"
    record["start"] = "empty"
    record["recording"] = recording
    record["writer"] = "nullblock recorder"
    record["sealed"] = True
    return record


def constants(scheduler: Any) -> dict[str, object]:
    """The ``config`` of a header."""
    configured = scheduler.scheduler_config
    return {
        "block_size": scheduler.block_size,
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


def features(scheduler: Any) -> list[str]:
    """Names of what is switched on that decisions depend on and that ``constants`` do not say."""
    groups = scheduler.kv_cache_config.kv_cache_groups
    parallel = scheduler.parallel_config
    pool = scheduler.kv_cache_manager.block_pool
    found = {
        "async_scheduling": bool(scheduler.scheduler_config.async_scheduling),
        "speculative_decoding": scheduler.num_spec_tokens > 0,
        "max_loras": scheduler.lora_config is not None,
        "kv_connector": scheduler.connector is not None,
        "ec_connector": getattr(scheduler, "ec_connector", None) is not None,
        "encoder_decoder": bool(scheduler.vllm_config.model_config.is_encoder_decoder),
        "pipeline_parallelism": parallel.pipeline_parallel_size > 1,
        "context_parallelism": parallel.decode_context_parallel_size > 1
        or parallel.prefill_context_parallel_size > 1,
        "v2_model_runner": bool(scheduler.use_v2_model_runner),
        "kv_cache_groups": len(groups) != 1,
        "hash_block_size": pool.hash_block_size != scheduler.block_size,
    }
    names = [name for name, used in found.items() if used]
    for group in groups:
        kind = type(group.kv_cache_spec).__name__
        if kind != "FullAttentionSpec":
            names.append(f"kv_cache_spec:{kind}")
        if group.is_eagle_group:
            names.append("eagle_group")
    return list(dict.fromkeys(names))


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
