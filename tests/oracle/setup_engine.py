"""Builds the real scheduler from a scenario's configuration, with the fewest objects it accepts.

vLLM's configuration objects are replaced by namespaces that carry exactly the fields which the
schedulers of the releases driven read. Runs in the oracle's own environment, after
``torchless.install()``.
"""

import os
from types import SimpleNamespace
from typing import Any

import encoder_side
import later
from played import EncoderConnector, PlayedGrammars

Config = dict[str, Any]

DEFAULTS: Config = {
    "block_size": 16,
    "num_blocks": 64,
    "max_num_batched_tokens": 64,
    "max_num_scheduled_tokens": None,
    "max_num_seqs": 8,
    "max_model_len": 256,
    "long_prefill_token_threshold": 0,
    "enable_chunked_prefill": True,
    "enable_prefix_caching": True,
    "policy": "fcfs",
    "async_scheduling": False,
    "queue_depth": 2,
    "num_spec_tokens": 0,
    "spec_method": "ngram",
    "scheduler_reserve_full_isl": True,
    "watermark": None,
    "max_loras": None,
    "pipeline_parallel_size": 1,
    "use_v2_model_runner": False,
    "hash_algo": "sha256",
    "hash_seed": "0",
    "hash_block_size": None,
    "kv_events": False,
    "log_stats": False,
    "groups": [{"type": "full"}],
    "accept": "hash",
    "vocab": 1000,
    "seed": 0,
    "connector": None,
}
"""The scenario format's configuration: sizes in tokens, blocks or requests."""


def build(config: Config) -> tuple[Any, Any]:
    """A scheduler and the function that hashes a request's blocks.

    The seed of the hashes is read from ``PYTHONHASHSEED``, as vLLM does, so it is set here.
    """
    os.environ["PYTHONHASHSEED"] = str(config["hash_seed"])
    from vllm.utils.hashing import get_hash_fn_by_name
    from vllm.v1.core.kv_cache_utils import (
        get_request_block_hasher,
        init_none_hash,
        resolve_kv_cache_block_sizes,
    )
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler

    kv_cache_config, mamba_cache_mode = _kv_cache_config(config)
    vllm_config = _vllm_config(config, mamba_cache_mode)
    block_size, hash_block_size = resolve_kv_cache_block_sizes(kv_cache_config, vllm_config)
    kind = AsyncScheduler if config["async_scheduling"] else Scheduler
    encoder = config.get("encoder")
    scheduler = kind(
        **encoder_side.arguments(encoder, vllm_config),
        include_finished_set=config.get("include_finished_set", False),
        vllm_config=vllm_config,
        kv_cache_config=kv_cache_config,
        structured_output_manager=PlayedGrammars(),
        block_size=block_size,
        hash_block_size=hash_block_size,
        log_stats=config["log_stats"],
    )
    if encoder is not None and encoder.get("external") is not None:
        # Whoever records it has it made with the scheduler, as vLLM does.
        scheduler.ec_connector = scheduler.ec_connector or EncoderConnector(encoder["external"])
    hash_function = get_hash_fn_by_name(config["hash_algo"])
    init_none_hash(hash_function)
    return scheduler, get_request_block_hasher(hash_block_size, hash_function)


def _kv_cache_config(config: Config) -> tuple[Any, str]:
    """The cache groups, and the Mamba mode that the last Mamba group asks for."""
    from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec

    groups, mamba_cache_mode = [], "none"
    for index, group in enumerate(config["groups"]):
        if group["type"] == "mamba":
            mamba_cache_mode = group.get("mamba_cache_mode", "none")
        spec = _group_spec(group, config["block_size"])
        eagle = group.get("eagle", False)
        groups.append(KVCacheGroupSpec([f"layer{index}"], spec, is_eagle_group=eagle))
    made = KVCacheConfig(
        num_blocks=config["num_blocks"], kv_cache_tensors=[], kv_cache_groups=groups
    )
    return made, mamba_cache_mode


def _group_spec(group: Config, default_block_size: int) -> Any:
    """One group's layers: the smallest that the scheduler takes, since no memory is allocated."""
    import torch
    from vllm.v1 import kv_cache_interface as interface

    block_size = group.get("block_size", default_block_size)
    layer = {
        "block_size": block_size,
        "num_kv_heads": 1,
        "head_size": group.get("head_size", 1),
        "dtype": torch.float32,
    }
    match group["type"]:
        case "full" if group.get("mla"):
            return interface.MLAAttentionSpec(**layer)
        case "full":
            return interface.FullAttentionSpec(**layer)
        case "sliding_window" if group.get("mla"):
            return interface.SlidingWindowMLASpec(**layer, sliding_window=group["sliding_window"])
        case "sliding_window":
            return interface.SlidingWindowSpec(**layer, sliding_window=group["sliding_window"])
        case "chunked_local":
            return interface.ChunkedLocalAttentionSpec(
                **layer, attention_chunk_size=group["chunk"]
            )
        case "cross_attention":
            return interface.CrossAttentionSpec(**layer)
        case "sink":
            return interface.SinkFullAttentionSpec(**layer, sink_len=group["sink_len"])
        case "mamba":
            return interface.MambaSpec(
                **later.of_states(interface.MambaSpec, group),
                block_size=block_size,
                shapes=((1,),),
                dtypes=(torch.float32,),
                mamba_cache_mode=group.get("mamba_cache_mode", "none"),
                num_speculative_blocks=group.get("num_speculative_blocks", 0),
            )
        case unknown:
            raise ValueError(unknown)


def _vllm_config(config: Config, mamba_cache_mode: str) -> SimpleNamespace:
    """Every field of vLLM's configuration that a scheduler reads."""
    return SimpleNamespace(
        **later.top(config),
        scheduler_config=SimpleNamespace(
            max_num_seqs=config["max_num_seqs"],
            max_num_batched_tokens=config["max_num_batched_tokens"],
            max_num_scheduled_tokens=config["max_num_scheduled_tokens"],
            long_prefill_token_threshold=config["long_prefill_token_threshold"],
            enable_chunked_prefill=config["enable_chunked_prefill"],
            policy=config["policy"],
            async_scheduling=config["async_scheduling"],
            scheduler_reserve_full_isl=config["scheduler_reserve_full_isl"],
            disable_chunked_mm_input=False,
            **later.SCHEDULER,
            watermark=config["watermark"] or 0.0,
        ),
        cache_config=SimpleNamespace(
            block_size=config["block_size"],
            num_gpu_blocks=config["num_blocks"],
            enable_prefix_caching=config["enable_prefix_caching"],
            mamba_cache_mode=mamba_cache_mode,
            hash_block_size=config["hash_block_size"],
            prefix_match_unit=later.unit_of_hashes(config),
            **later.CACHE,
        ),
        model_config=SimpleNamespace(
            is_encoder_decoder=False,
            max_model_len=config["max_model_len"],
            is_multimodal_model=False,
            enable_return_routed_experts=False,
            **later.MODEL,
            runner_type=config.get("runner_type", "generate"),
        ),
        parallel_config=SimpleNamespace(
            data_parallel_index=0,
            decode_context_parallel_size=config.get("decode_context_parallel_size", 1),
            prefill_context_parallel_size=config.get("prefill_context_parallel_size", 1),
            pipeline_parallel_size=config["pipeline_parallel_size"],
        ),
        observability_config=SimpleNamespace(
            kv_cache_metrics=False, enable_mfu_metrics=False, **later.OBSERVABILITY
        ),
        lora_config=_present(config["max_loras"], max_loras=config["max_loras"]),
        kv_events_config=_present(
            config["kv_events"], enable_kv_cache_events=True, publisher="null"
        ),
        speculative_config=_speculative_config(config),
        kv_transfer_config=None,
        ec_transfer_config=None,
        use_v2_model_runner=config["use_v2_model_runner"],
    )


def _present(used: Any, **fields: Any) -> SimpleNamespace | None:
    return SimpleNamespace(**fields) if used else None


def _speculative_config(config: Config) -> SimpleNamespace | None:
    method = config["spec_method"]
    return _present(
        config["num_spec_tokens"],
        num_speculative_tokens=config["num_spec_tokens"],
        use_eagle=lambda: method == "eagle",
        use_eagle_block_drop=lambda: method == "eagle",
        max_num_new_slots_for_drafting=int(method == "draft_model"),
        num_speculative_tokens_per_batch_size=None,
        uses_draft_model=lambda: method == "draft_model",
    )
