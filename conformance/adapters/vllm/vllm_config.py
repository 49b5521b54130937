"""The fields of vLLM's configuration that its scheduler reads: the standard library suffices."""

from types import SimpleNamespace


def vllm_config(
    *,
    block_size: int,
    num_blocks: int,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    max_model_len: int,
    max_num_scheduled_tokens: int | None = None,
    long_prefill_token_threshold: int = 0,
    enable_chunked_prefill: bool = True,
    enable_prefix_caching: bool = True,
    policy: str = "fcfs",
    async_scheduling: bool = False,
    scheduler_reserve_full_isl: bool = True,
    pipeline_parallel_size: int = 1,
    dcp_world_size: int = 1,
    pcp_world_size: int = 1,
    kv_events: bool = False,
    max_loras: int | None = None,
    mamba_cache_mode: str = "none",
    hash_block_size: int | None = None,
    use_v2_model_runner: bool = False,
    num_spec_tokens: int = 0,
    spec_method: str = "ngram",
    runner_type: str = "generate",
) -> SimpleNamespace:
    """vLLM's configuration as far as a scheduler without a model looks at it.

    The names are vLLM's. Sizes are in blocks, tokens and requests as vLLM has them.
    """
    return SimpleNamespace(
        scheduler_config=SimpleNamespace(
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_scheduled_tokens=max_num_scheduled_tokens,
            long_prefill_token_threshold=long_prefill_token_threshold,
            enable_chunked_prefill=enable_chunked_prefill,
            policy=policy,
            async_scheduling=async_scheduling,
            scheduler_reserve_full_isl=scheduler_reserve_full_isl,
            disable_chunked_mm_input=False,
        ),
        cache_config=SimpleNamespace(
            block_size=block_size,
            num_gpu_blocks=num_blocks,
            enable_prefix_caching=enable_prefix_caching,
            mamba_cache_mode=mamba_cache_mode,
            hash_block_size=hash_block_size,
        ),
        model_config=SimpleNamespace(
            is_encoder_decoder=False,
            max_model_len=max_model_len,
            is_multimodal_model=False,
            enable_return_routed_experts=False,
            runner_type=runner_type,
        ),
        parallel_config=SimpleNamespace(
            data_parallel_index=0,
            decode_context_parallel_size=dcp_world_size,
            prefill_context_parallel_size=pcp_world_size,
            pipeline_parallel_size=pipeline_parallel_size,
        ),
        observability_config=SimpleNamespace(kv_cache_metrics=False, enable_mfu_metrics=False),
        kv_events_config=SimpleNamespace(enable_kv_cache_events=kv_events, publisher="null"),
        lora_config=SimpleNamespace(max_loras=max_loras) if max_loras else None,
        speculative_config=_speculative_config(num_spec_tokens, spec_method),
        kv_transfer_config=None,
        ec_transfer_config=None,
        use_v2_model_runner=use_v2_model_runner,
    )


def _speculative_config(num_spec_tokens: int, method: str) -> SimpleNamespace | None:
    """How many drafts a request gets, and whether a head like EAGLE's or a model makes them."""
    if num_spec_tokens == 0:
        return None
    return SimpleNamespace(
        num_speculative_tokens=num_spec_tokens,
        use_eagle=lambda: method == "eagle",
        uses_draft_model=lambda: method == "draft_model",
    )
