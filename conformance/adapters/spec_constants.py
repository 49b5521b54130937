"""A scenario's configuration as the constants of the rules."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from msgspec import UNSET

from nullblock.conformance import groups
from nullblock.conformance.adapters.spec_encoder import check_encoder_decoder, refused
from nullblock.conformance.adapters.spec_remote import fails_loads
from nullblock.conformance.adapters.spec_waits import beside
from nullblock.conformance.engine import CORE_FEATURES, Feature, NewRequest
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.groups import alignment_of, block_size_of
from nullblock.conformance.scenario_format import Config, Group
from nullblock.spec import facts
from nullblock.spec.kernel import Disabled
from nullblock.spec.profiles import Semantics
from nullblock.spec.rules.encoder import AT_THE_BEGINNING
from nullblock.spec.rules.lookup import (
    CHUNKS_ARE_LOOKED_UP,
    STATES_ARE_COMPUTED,
    TOKENS_ARE_LOOKED_UP,
)
from nullblock.spec.rules.pool import EVERY_BLOCK_HAS_A_PLACE, EVERY_STATE_HAS_A_PLACE

FEATURES = CORE_FEATURES | {
    *(Feature.drafts, Feature.silence, Feature.windows, Feature.hybrid, Feature.block_sizes),
    *(Feature.mamba, Feature.aligned_mamba, Feature.sinks),
    *(Feature.cross_attention, Feature.encoder_decoder),
    *(Feature.lora_cap, Feature.structured_output, Feature.encoder_inputs),
    *(Feature.prompt_embeds, Feature.v2_model_runner, Feature.counts, Feature.pooling),
    *(Feature.clients, Feature.decode_ranks, Feature.prefill_ranks),
    *(Feature.streaming, Feature.kv_connector, Feature.repetition),
}
"""What the rules have."""


def check_groups(config: Config, semantics: Semantics) -> None:
    """Raise OutOfScope for groups that vLLM stumbles over, or that a profile has no rules for."""
    if groups.has(config, groups.CROSS) and config.enable_prefix_caching:
        what = "cross-attention beside prefix caching is out of scope"
        raise OutOfScope(what, "vLLM raises at the first lookup", "config.groups")
    # No rule says to which places in front these give blocks back.
    if semantics.freed_unhashed_first and groups.has(config, "sink"):
        what = "sinks are out of scope with freed_unhashed_first"
        raise OutOfScope(what, "the reference has them", "config.groups")


RAISES = frozenset(
    {
        *(AT_THE_BEGINNING, CHUNKS_ARE_LOOKED_UP, TOKENS_ARE_LOOKED_UP),
        *(STATES_ARE_COMPUTED, EVERY_BLOCK_HAS_A_PLACE),
    }
)
"""Guards of what vLLM raises at: an item that does not stand at the beginning, a lookup of chunks
that there is none for, one of an empty prompt, a load of states that cannot be loaded, and blocks
that are cached of a prompt longer than max_model_len.
"""


@contextmanager
def raising(s: Any) -> Iterator[None]:
    """Raises AssertionError or IndexError where vLLM does, and OutOfScope where it takes a block
    that is not there: of free ones it counts more than there are (GROUP-65).
    """
    try:
        yield
    except Disabled as refusal:
        if refusal.guard in RAISES:
            raise AssertionError(refusal.guard) from refusal
        if refusal.guard == EVERY_STATE_HAS_A_PLACE:
            raise IndexError(refusal.guard) from refusal
        if s.nfree > len(s.stamp):
            raise refused("a block that is counted as free, and is not there,") from refusal
        raise


def check_vector(request: NewRequest) -> None:
    """Raise OutOfScope for a request that wants a vector and what no rule has beside one."""
    if request.grammar is not None:
        raise beside(Feature.structured_output, Feature.pooling)


def constants(config: Config, semantics: Semantics) -> facts.Config:
    """What the rules need of a scenario's configuration."""
    return facts.Config(
        num_blocks=config.num_blocks - groups.num_sink_blocks(config),
        block_size=block_size_of(config.groups[0], config),
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
        eagle_group=any(group.eagle for group in config.groups),
        groups=tuple(_group(group, config) for group in config.groups),
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_concurrent_batches=config.max_concurrent_batches,
        drafts_from_outside=True,
        max_loras=config.max_loras or 0,
        connector=config.connector is not None,
        fail_failed_loads=fails_loads(config),
        steps_overlap=config.loads_beside_steps,
        requires_kv_delivery=config.requires_kv_delivery,
        encoder=_encoder(config, semantics),
        most_granted=config.max_num_scheduled_tokens,
        mamba_split=config.block_size if groups.mamba_cache_mode(config) == "align" else 0,
        use_v2_model_runner=config.use_v2_model_runner,
        pipeline_parallel_size=config.pipeline_parallel_size,
        include_finished_set=config.has_clients,
        makes_vectors=config.makes_vectors,
        semantics=semantics,
    )


def _encoder(config: Config, semantics: Semantics) -> facts.Encoder | None:
    """What the encoder may do: vLLM raises both sizes to the largest item that the model has.
    Raises OutOfScope for what only the reference has.
    """
    encoder = config.encoder
    if not encoder:
        return None
    if encoder.is_encoder_decoder:
        check_encoder_decoder(config, semantics)
    compute, kept = encoder.sizes(config.max_num_batched_tokens)
    return facts.Encoder(
        compute, kept, encoder.disable_chunked_mm_input, encoder.is_encoder_decoder
    )


def _group(group: Group, config: Config) -> facts.Group:
    """The kind of a group's layers, and the size of its blocks where it is not the first one's."""
    size, first = block_size_of(group, config), block_size_of(config.groups[0], config)
    return facts.Group(
        0 if group.sliding_window is UNSET else group.sliding_window,
        0 if group.chunk is UNSET else group.chunk,
        0 if size == first else size,
        group.eagle,
        mamba=group.type == "mamba",
        num_speculative_blocks=group.num_speculative_blocks if group.type == "mamba" else 0,
        sink_len=group.sink_len if group.type == "sink" else 0,  # type: ignore[arg-type]
        cross=group.type == "cross_attention",
        aligned=group.type == "mamba" and group.mamba_cache_mode == "align",
        every_state=group.type == "mamba" and group.mamba_cache_mode == "all",
        prefill_checkpoint_alignment=alignment_of(group),
    )
