"""A trace's configuration as the constants of the rules."""

from msgspec import UNSET

from nullblock.conformance.trace.records import CacheGroup, Encoder, Header
from nullblock.spec import facts
from nullblock.spec.profiles import Semantics


def constants(header: Header, semantics: Semantics) -> facts.Config:
    """What the rules need of a trace's configuration."""
    c = header.config
    return facts.Config(
        num_blocks=c.num_blocks - c.sink_blocks,
        block_size=c.block_size,
        max_num_scheduled_tokens=c.max_num_scheduled_tokens,
        max_num_seqs=c.max_num_seqs,
        max_model_len=c.max_model_len,
        long_prefill_token_threshold=c.long_prefill_token_threshold,
        enable_chunked_prefill=c.enable_chunked_prefill,
        enable_prefix_caching=c.enable_prefix_caching,
        scheduler_reserve_full_isl=c.scheduler_reserve_full_isl,
        policy=c.policy,
        watermark_blocks=c.watermark_blocks,
        async_scheduling=c.async_scheduling,
        num_spec_tokens=c.num_spec_tokens,
        spec_method=c.spec_method,
        eagle_group=c.eagle_group or c.has_eagle_groups,
        groups=tuple(map(_group, c.groups)) or (facts.Group(),),
        max_num_batched_tokens=c.max_num_batched_tokens or None,
        max_concurrent_batches=c.max_concurrent_batches,
        mamba_split=c.mamba_split,
        max_loras=c.max_loras,
        use_v2_model_runner=c.use_v2_model_runner,
        makes_vectors=c.runner_type == "pooling",
        pipeline_parallel_size=c.pipeline_parallel_size,
        encoder=None if c.encoder is UNSET else _encoder(c.encoder),
        connector=c.connector is not UNSET,
        steps_overlap=c.connector is not UNSET and c.connector.loads_beside_steps,
        requires_kv_delivery=c.connector is not UNSET and c.connector.requires_kv_delivery,
        fail_failed_loads=c.connector is not UNSET and c.connector.failure_policy == "fail",
        semantics=semantics,
    )


def _encoder(encoder: Encoder) -> facts.Encoder:
    return facts.Encoder(
        encoder.max_num_encoder_input_tokens,
        encoder.encoder_cache_size,
        encoder.disable_chunked_mm_input,
        encoder.is_encoder_decoder,
    )


def _group(group: CacheGroup) -> facts.Group:
    return facts.Group(
        group.sliding_window,
        group.attention_chunk_size,
        group.block_size,
        group.eagle,
        mamba=group.mamba is not UNSET,
        num_speculative_blocks=group.num_speculative_blocks,
        sink_len=group.sink_len,
        cross=group.cross_attention,
        aligned=group.mamba == "align",
        every_state=group.mamba == "all",
        prefill_checkpoint_alignment=group.prefill_checkpoint_alignment,
    )
