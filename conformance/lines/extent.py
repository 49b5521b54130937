"""How much of what an engine does it does on a line."""

from msgspec import UNSET

from nullblock.conformance import groups
from nullblock.conformance.engine import CORE_FEATURES, Feature
from nullblock.conformance.errors import OutOfScope, ScenarioError
from nullblock.conformance.scenario_format import Config
from nullblock.spec.profiles import Semantics

FOLLOWED = CORE_FEATURES | {
    *(Feature.drafts, Feature.silence, Feature.lora_cap, Feature.structured_output),
    *(Feature.encoder_inputs, Feature.windows, Feature.hybrid, Feature.block_sizes),
    *(Feature.v2_model_runner, Feature.counts, Feature.clients),
    *(Feature.prompt_embeds, Feature.pooling, Feature.streaming, Feature.kv_connector),
    *(Feature.mamba, Feature.aligned_mamba, Feature.decode_ranks, Feature.repetition),
    *(Feature.cross_attention, Feature.encoder_decoder),
}
"""What is written down of a line after vllm-0.22.1. Of ranks of prefill it is not: its scheduler
leaves blocks as they are.
"""


def extent(features: frozenset[Feature], semantics: Semantics) -> frozenset[Feature]:
    """Those of an engine's features that it follows a line in.

    Of whatever is not among FOLLOWED it is not written down what a line after vllm-0.22.1 does.
    """
    return features & FOLLOWED if semantics.resumes_await_output else features


def check_followed(config: Config, semantics: Semantics) -> None:
    """Raise OutOfScope for features that are followed each by itself, and not together, and
    ScenarioError for a watermark that no engine of the line could be built with.
    """
    if semantics.admission_watermark and (config.watermark or 0) < 0:
        what = f"a watermark of {config.watermark}"
        raise ScenarioError(what, "0.32.0 has none below 0", "config.watermark")
    has_states = groups.has(config, "mamba")
    of_states = [g for g in config.groups if g.type == "mamba" and g.block_size is not UNSET]
    apart = any(group.block_size != config.block_size for group in of_states)
    caches_mixed = config.enable_prefix_caching and (groups.are_mixed(config) or apart)
    if semantics.resumes_await_output and has_states and caches_mixed:
        # It hashes by the common multiple of all sizes, which divides none of them.
        what = "prefix caching of Mamba layers beside blocks or hashes of another size, in a later"
        raise OutOfScope(f"{what} line, is out of scope", "0.32.0 raises", "config.groups")
    modes = {group.mamba_cache_mode for group in config.groups if group.type == "mamba"}
    if semantics.resumes_await_output and "align" in modes and len(modes) > 1:
        what = "the Mamba mode align beside another, in a later line, is out of scope"
        raise OutOfScope(what, "vLLM has one for all Mamba layers", "config.groups")
    if semantics.inner_states_kept and any(map(groups.alignment_of, config.groups)):
        _check_inner(config)
    if semantics.resumes_await_output and config.connector is not None:
        _check_connector(config)


def _check_inner(config: Config) -> None:
    """Raise OutOfScope for what states within a step (GROUP-72) are not followed beside."""
    beside = {
        "no prefix caching": not config.enable_prefix_caching,
        # 0.32.0 raises when it is to cache a state of theirs.
        "drafts that fill a block": config.num_spec_tokens >= config.block_size,
        "an EAGLE-like method": groups.looks_ahead(config),
    }
    name = next((name for name, is_there in beside.items() if is_there), None)
    if name is not None:
        what = f"a prefill_checkpoint_alignment beside {name} is out of scope"
        raise OutOfScope(what, "leave it out", "config.groups")


def _check_connector(config: Config) -> None:
    """Raise OutOfScope for what lines after vllm-0.22.1 have no connector beside."""
    if groups.has(config, "mamba") and groups.of_one_group(config):
        # Workers zero what it does not say that it loads.
        what = "a KV connector that takes the blocks of one group, beside Mamba layers in a later"
        raise OutOfScope(
            f"{what} line, is out of scope",
            "0.32.0 raises at the first end",
            "config.connector.all_groups",
        )
    encoder = config.encoder or None
    reads_before = encoder is not None and encoder.is_encoder_decoder
    if reads_before or groups.has(config, groups.CROSS):
        what = "a KV connector beside an encoder-decoder model, or cross-attention,"
        remedy = "vLLM refuses such a model beside one"
        raise OutOfScope(f"{what} is out of scope", remedy, "config.connector")
