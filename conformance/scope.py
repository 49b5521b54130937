"""Which scenarios this version runs.

Some features not every engine has: an engine says what it does
(:attr:`nullblock.conformance.engine.Engine.features`), and the rest is refused by name.
"""

from collections.abc import Collection, Iterator
from importlib.util import find_spec

from msgspec import UNSET

from nullblock.conformance import drafting, groups
from nullblock.conformance.encoder_format import check_encoder, check_items
from nullblock.conformance.engine import Feature
from nullblock.conformance.errors import OutOfScope, ScenarioError
from nullblock.conformance.scenario_format import (
    Abort,
    Add,
    Config,
    Counts,
    Draft,
    Event,
    EvictBlocks,
    GrammarReady,
    KvDone,
    KvMatch,
    Pause,
    ResetEncoderCache,
    ResetPrefixCache,
    Scenario,
)

IN_SCOPE = "install it, or choose another hash"


def check(scenario: Scenario) -> None:
    """Raise for the first impossible combination, then for the first feature out of scope."""
    _check_possible(scenario.config)
    _check_items(scenario)
    _check_vectors(scenario)
    drafting.check(scenario)
    for feature, place in _features(scenario):
        raise OutOfScope(f"{feature} is out of scope", IN_SCOPE, place)


def check_engine(config: Config, engine: str, features: frozenset[Feature]) -> None:
    """Raise for the first feature of the configuration that the engine of that name lacks."""
    for feature, place in _configured(config):
        if feature not in features:
            raise _lacking(feature, place, f"the engine {engine} does without")


def check_run(scenario: Scenario, engine: str, features: frozenset[Feature]) -> None:
    """Raise for the first feature that a scenario uses and the engine of that name lacks.

    Whether a second step is in flight shows only while it runs (:func:`check_in_flight`).
    """
    for feature, place in used(scenario):
        if feature not in features:
            raise _lacking(feature, place, f"the engine {engine} does without")


def used(scenario: Scenario) -> Iterator[tuple[Feature, str]]:
    """Each feature that a scenario uses, with its place, in the scenario's order."""
    yield from _configured(scenario.config)
    ids: set[str] = set()
    for index, event in enumerate(scenario.events):
        for feature in _asked(event, scenario.config, ids):
            yield feature, f"events[{index}]"
        # A session's id takes further chunks.
        if isinstance(event, Add) and not event.resumable:
            ids.add(event.id)


def _configured(config: Config) -> Iterator[tuple[Feature, str]]:
    switches = (
        (Feature.async_scheduling, "async_scheduling", config.async_scheduling),
        (Feature.pipeline, "pipeline_parallel_size", config.pipeline_parallel_size > 1),
        (Feature.kv_events, "kv_events", config.kv_events),
        (Feature.decode_ranks, "decode_context_parallel_size", config.dcp_world_size > 1),
        (Feature.prefill_ranks, "prefill_context_parallel_size", config.pcp_world_size > 1),
        (Feature.windows, "groups", groups.are_windowed(config)),
        (Feature.hybrid, "groups", groups.are_hybrid(config)),
        (Feature.block_sizes, "groups", groups.are_mixed(config)),
        (Feature.mamba, "groups", groups.has(config, "mamba")),
        (Feature.aligned_mamba, "groups", groups.aligns(config)),
        (Feature.sinks, "groups", groups.has(config, "sink")),
        (Feature.cross_attention, "groups", groups.has(config, "cross_attention")),
        (Feature.priority, "policy", config.policy == "priority"),
        (Feature.prefix_caching, "enable_prefix_caching", config.enable_prefix_caching),
        (Feature.unchunked, "enable_chunked_prefill", not config.enable_chunked_prefill),
        (Feature.unchecked_input, "num_blocks", config.num_blocks < 2),
        (Feature.lora_cap, "max_loras", config.max_loras is not None),
        (Feature.kv_connector, "connector", config.connector is not None),
        (Feature.encoder_inputs, "encoder", bool(config.encoder)),
        (Feature.encoder_decoder, "encoder", _is_encoder_decoder(config)),
        (Feature.clients, "include_finished_set", config.has_clients),
        (Feature.v2_model_runner, "use_v2_model_runner", config.use_v2_model_runner),
        (Feature.pooling, "runner_type", config.makes_vectors),
        (Feature.drafts, "num_spec_tokens", config.num_spec_tokens > 0),
        (Feature.drafts, "drafts", config.drafts is not UNSET),
        (Feature.drafts, "groups", groups.are_marked_alone(config)),
        (Feature.silence, "accept", isinstance(config.accept, list) and None in config.accept),
    )
    for feature, key, is_used in switches:
        if is_used:
            yield feature, f"config.{key}"


def _is_encoder_decoder(config: Config) -> bool:
    return bool(config.encoder and config.encoder.is_encoder_decoder)


def _asked(event: Event, config: Config, ids: Collection[str]) -> Iterator[Feature]:
    """What one event asks for; ``ids`` are those of the requests that were added before."""
    match event:
        case Add():
            if event.lora or event.salt:
                yield Feature.adapters
            if event.prompt_embeds is not None:
                yield Feature.prompt_embeds
            if event.pooling:
                yield Feature.pooling
            if event.client_index:
                yield Feature.clients
            if event.stop or event.eos is not None or event.min_tokens:
                yield Feature.stop_tokens
            if event.repetition_detection is not None:
                yield Feature.repetition
            if event.resumable:
                yield Feature.streaming
            if event.grammar is not None:
                yield Feature.structured_output
            if _is_refused_by_a_front_end(event, config) or event.id in ids:
                yield Feature.unchecked_input
        case Abort(status=status):
            yield Feature.abort
            if not status.startswith("FINISHED_"):
                yield Feature.unchecked_input
        case Pause():
            yield Feature.pause
        case Counts():
            yield Feature.counts
        case ResetEncoderCache():
            yield Feature.encoder_inputs
        case ResetPrefixCache():
            yield Feature.reset
        case Draft():
            yield Feature.drafts
        case EvictBlocks(ids=blocks):
            yield Feature.evict
            if any(not 0 <= block < config.num_blocks for block in blocks):
                yield Feature.unchecked_input
        case KvDone() | KvMatch():
            yield Feature.kv_connector
        case GrammarReady():
            yield Feature.structured_output


def _is_refused_by_a_front_end(event: Add, config: Config) -> bool:
    possible = event.max_tokens >= 1 and 0 <= event.min_tokens <= event.max_tokens
    longest = config.max_model_len - (not config.makes_vectors)
    return not (possible and 1 <= len(event.prompt) <= longest)


def check_in_flight(features: frozenset[Feature], place: str) -> None:
    """Raise, where a step is scheduled while another one is in flight, if the engine cannot."""
    if Feature.several_in_flight not in features:
        remedy = "update or drain the first one before"
        raise _lacking(Feature.several_in_flight, place, remedy)


def _lacking(feature: Feature, place: str, remedy: str) -> OutOfScope:
    return OutOfScope(f"{feature} is out of scope", remedy, place)


def _check_possible(config: Config) -> None:
    """Refuse what is well typed and what no engine could be built with."""
    groups.check(config)
    if config.encoder:
        check_encoder(config.encoder, config.max_num_batched_tokens)
    if "\0" in str(config.hash_seed):
        raise ScenarioError("a zero character", "remove it", "config.hash_seed")


def _check_vectors(scenario: Scenario) -> None:
    """Refuse what no model is asked for that makes vectors and no tokens."""
    if not scenario.config.makes_vectors:
        return
    what = "of a model that makes vectors and no tokens is out of scope"
    if scenario.config.num_spec_tokens:
        raise OutOfScope(f"speculative decoding {what}", "leave it out", "config.num_spec_tokens")
    for index, event in enumerate(scenario.events):
        if isinstance(event, Add) and not event.pooling:
            place = f"events[{index}]"
            raise OutOfScope(f"a request for tokens {what}", "vLLM refuses it", place)


def _check_items(scenario: Scenario) -> None:
    for index, event in enumerate(scenario.events):
        if isinstance(event, Add):
            place = f"events[{index}].mm_features"
            check_items(event.mm_features, bool(scenario.config.encoder), place)


def _features(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Each feature out of scope that the scenario uses, with its place."""
    config = scenario.config
    if config.hash_algo.startswith("xxhash") and find_spec("xxhash") is None:
        yield f"{config.hash_algo} without the xxhash package", "config.hash_algo"
