"""The header of a trace that an engine of ours makes, from its scenario."""

from msgspec import UNSET, UnsetType

from nullblock.conformance import groups as of_cache
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.groups import block_size_of
from nullblock.conformance.scenario_format import Add, Config, Group, Scenario
from nullblock.conformance.trace import records
from nullblock.conformance.trace.header import (
    GRAMMARS_SINCE,
    features_of,
    least_version,
    sessions_since,
)
from nullblock.conformance.trace.records import CacheGroup, Connector, Encoder, TraceConfig
from nullblock.spec.facts import blocks_of_watermark, token_budget
from nullblock.spec.profiles import Semantics


def header(
    config: Config,
    engine: str,
    version: str,
    profile: str,
    semantics: Semantics,
    *,
    grammars: bool = False,
    sessions: bool = False,
) -> records.Header:
    """The header of a trace that an engine of ours makes. ``grammars``: requests have some.

    ``sessions``: some are sessions.
    """
    constants = configured(config, semantics)
    since = GRAMMARS_SINCE if grammars else "", sessions_since(constants) if sessions else ""
    return records.Header(
        format="nullblock-trace",
        version=max(least_version(constants), *since),
        spec=profile,
        engine=records.EngineInfo(name=f"nullblock.{engine}", version=version),
        config=constants,
        features=features_of(constants),
        observed=records.Observed(
            add="complete",
            output="complete",
            abort="complete",
            pause="complete",
            reset="complete",
            evict="complete",
            schedule="complete",
            update="complete",
            draft="complete" if config.num_spec_tokens else "absent",
            events="complete" if config.kv_events else "absent",
            compiled="complete" if grammars else "absent",
            chunk="complete" if sessions else "absent",
            matched="complete" if config.connector is not None else "absent",
            transfers="complete" if config.connector is not None else "absent",
        ),
        block_ids="exact",
        start="empty",
        writer=f"nullblock {version}",
    )


def has_grammars(scenario: Scenario) -> bool:
    """Whether a request of a scenario has a grammar."""
    return any(isinstance(e, Add) and e.grammar is not None for e in scenario.events)


def has_sessions(scenario: Scenario) -> bool:
    """Whether a request of a scenario is a session."""
    return any(isinstance(e, Add) and bool(e.resumable) for e in scenario.events)


def configured(config: Config, semantics: Semantics) -> TraceConfig:
    """Its constants. Raises OutOfScope where a step may compute nothing, or none be in flight and
    that counts.
    """
    budget = token_budget(
        config.max_num_batched_tokens, config.max_num_scheduled_tokens, semantics
    )
    if budget < 1:
        what = "a trace of steps that may compute nothing is out of scope"
        raise OutOfScope(what, "vLLM refuses it", "config.max_num_scheduled_tokens")
    several = len(config.groups) > 1
    groups = [_group(group, config, semantics) for group in config.groups]
    see_part = any(group.is_windowed for group in groups)
    has_states = any(group.mamba is not UNSET for group in groups)
    others = any(group.cross_attention or group.sink_len for group in groups)
    is_told = several or see_part or has_states or others
    beyond = (config.max_num_scheduled_tokens or 0) > config.max_num_batched_tokens
    if beyond and semantics.chunks_end_at_junctions and of_cache.aligns(config):
        what = "a trace of more tokens set for a step than it may have, beside Mamba layers in the"
        remedy = "leave max_num_scheduled_tokens out"
        raise OutOfScope(f"{what} mode align", remedy, "config.max_num_scheduled_tokens")
    batches = config.max_concurrent_batches if see_part and semantics.caps_count_flight else 1
    if batches < 1:
        what = "a trace of layers that see a part of the past, with no step in flight, is out of"
        raise OutOfScope(f"{what} scope", "vLLM has room for one", "config.queue_depth")
    return TraceConfig(
        block_size=of_cache.size_of_chains(config),
        num_blocks=config.num_blocks,
        max_num_scheduled_tokens=budget,
        max_num_seqs=config.max_num_seqs,
        max_model_len=config.max_model_len,
        long_prefill_token_threshold=config.long_prefill_token_threshold,
        enable_chunked_prefill=config.enable_chunked_prefill,
        enable_prefix_caching=config.enable_prefix_caching,
        scheduler_reserve_full_isl=config.scheduler_reserve_full_isl,
        policy=config.policy,
        watermark_blocks=blocks_of_watermark(config.watermark, config.num_blocks, semantics),
        async_scheduling=config.async_scheduling,
        pipeline_parallel_size=config.pipeline_parallel_size,
        num_spec_tokens=config.num_spec_tokens,
        spec_method=config.spec_method if config.num_spec_tokens else "ngram",
        eagle_group=not several and config.groups[0].eagle,
        groups=groups if is_told else [],
        max_loras=config.max_loras or 0,
        use_v2_model_runner=config.use_v2_model_runner,
        runner_type="pooling"
        if config.makes_vectors and semantics.vectors_take_no_place
        else "generate",
        encoder=_encoder(config),
        connector=_connector(config, semantics),
        max_num_batched_tokens=config.max_num_batched_tokens
        if (see_part or _takes_places(config, semantics))
        and config.max_num_batched_tokens != budget
        else 0,
        max_concurrent_batches=batches,
        mamba_split=config.block_size if of_cache.mamba_cache_mode(config) == "align" else 0,
    )


def _takes_places(config: Config, semantics: Semantics) -> bool:
    """Whether drafting takes places of a step's max_num_batched_tokens."""
    drafts = config.num_spec_tokens > 0 and config.spec_method == "draft_model"
    return drafts and semantics.drafting_takes_slots


def _encoder(config: Config) -> Encoder | UnsetType:
    """vLLM raises both sizes to the largest item that the model has."""
    encoder = config.encoder
    if not encoder:
        return UNSET
    compute, kept = encoder.sizes(config.max_num_batched_tokens)
    return Encoder(
        max_num_encoder_input_tokens=compute,
        encoder_cache_size=kept,
        disable_chunked_mm_input=encoder.disable_chunked_mm_input,
        is_encoder_decoder=encoder.is_encoder_decoder,
        ec_connector=encoder.external is not None,
    )


def _connector(config: Config, semantics: Semantics) -> Connector | UnsetType:
    connector = config.connector
    if connector is None:
        return UNSET
    return Connector(
        failure_policy=connector.failure_policy,
        loads_beside_steps=semantics.freed_blocks_await_steps and config.loads_beside_steps,
        requires_kv_delivery=semantics.resumes_await_output and config.requires_kv_delivery,
    )


def _group(group: Group, config: Config, semantics: Semantics) -> CacheGroup:
    several, size = len(config.groups) > 1, block_size_of(group, config)
    mamba = group.type == "mamba"
    keeps = semantics.inner_states_kept
    return CacheGroup(
        sliding_window=0 if group.sliding_window is UNSET else group.sliding_window,
        attention_chunk_size=0 if group.chunk is UNSET else group.chunk,
        eagle=several and group.eagle,
        block_size=0 if size == of_cache.size_of_chains(config) else size,
        mamba=group.mamba_cache_mode if mamba else UNSET,
        num_speculative_blocks=group.num_speculative_blocks if mamba else 0,
        prefill_checkpoint_alignment=of_cache.alignment_of(group) if keeps else 0,
        cross_attention=group.type == of_cache.CROSS,
        sink_len=group.sink_len if group.type == "sink" else 0,  # type: ignore[arg-type]
    )
