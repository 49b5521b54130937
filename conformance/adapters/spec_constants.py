"""A scenario's configuration as the constants of the rules."""

from msgspec import UNSET

from nullblock.conformance.scenario_format import Config
from nullblock.spec import facts
from nullblock.spec.profiles import Semantics


def constants(config: Config, semantics: Semantics) -> facts.Config:
    """What the rules need of a scenario's configuration."""
    return facts.Config(
        num_blocks=config.num_blocks,
        block_size=config.block_size,
        max_num_scheduled_tokens=facts.token_budget(
            config.max_num_batched_tokens, config.max_num_scheduled_tokens, semantics
        ),
        watermark_blocks=facts.blocks_of_watermark(config.watermark, config.num_blocks, semantics),
        max_num_seqs=config.max_num_seqs,
        max_model_len=config.max_model_len,
        long_prefill_token_threshold=config.long_prefill_token_threshold,
        enable_chunked_prefill=config.enable_chunked_prefill,
        enable_prefix_caching=config.enable_prefix_caching,
        scheduler_reserve_full_isl=config.scheduler_reserve_full_isl,
        policy=config.policy,
        async_scheduling=config.async_scheduling,
        num_spec_tokens=config.num_spec_tokens,
        spec_method=config.spec_method,
        eagle_group=config.groups[0].eagle,
        group=_group(config),
        max_num_batched_tokens=config.max_num_batched_tokens,
        drafts_from_outside=True,
        max_loras=config.max_loras or 0,
        semantics=semantics,
    )


def _group(config: Config) -> facts.Group:
    """The kind of the only group's layers."""
    group = config.groups[0]
    return facts.Group(
        0 if group.sliding_window is UNSET else group.sliding_window,
        0 if group.chunk is UNSET else group.chunk,
    )
