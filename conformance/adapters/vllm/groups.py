"""KV cache groups in a recording: what layers see, and which group a cached block is for."""

from typing import Any

Fields = dict[str, Any]
SIZES = {
    "FullAttentionSpec": (),
    "SlidingWindowSpec": ("sliding_window",),
    "ChunkedLocalAttentionSpec": ("attention_chunk_size",),
}
"""The kinds of layers that a trace has words for, and what it says of them."""


def constants(scheduler: Any) -> Fields | None:
    """What a header's ``config`` says of groups; None where it has no words for them."""
    groups = scheduler.kv_cache_config.kv_cache_groups
    specs = [group.kv_cache_spec for group in groups]
    if any(type(spec).__name__ not in SIZES for spec in specs):
        return None
    sizes = {spec.block_size for spec in specs} | {
        scheduler.kv_cache_manager.block_pool.hash_block_size
    }
    if sizes != {scheduler.block_size}:
        return None
    told = [_sizes(spec) for spec in specs]
    see_part = any(told)
    if len(groups) > 1:
        for group, fields in zip(groups, told, strict=True):
            fields |= {"eagle": True} if group.is_eagle_group else {}
    elif not see_part:
        return {}
    found: Fields = {"groups": told}
    batched = scheduler.scheduler_config.max_num_batched_tokens
    if see_part and batched != scheduler.max_num_scheduled_tokens:
        found["max_num_batched_tokens"] = batched
    if see_part and hasattr(scheduler, "use_eagle_block_drop"):  # since 0.32.0
        flight = scheduler.vllm_config.max_concurrent_batches
        found |= {"max_concurrent_batches": flight} if flight > 1 else {}
    return found


def _sizes(spec: Any) -> Fields:
    return {name: getattr(spec, name) for name in SIZES[type(spec).__name__]}
