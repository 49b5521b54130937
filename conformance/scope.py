"""Which scenarios this version runs: those of one full-attention group.

Some features not every engine has: an engine says what it does
(:attr:`nullblock.conformance.engine.Engine.features`), and the rest is refused by name.
"""

from collections.abc import Iterator
from importlib.util import find_spec

from nullblock.conformance.engine import Feature
from nullblock.conformance.errors import OutOfScope, ScenarioError
from nullblock.conformance.scenario_format import Add, Config, KvDone, Scenario

IN_SCOPE = "in scope: one full-attention group, no drafts, no KV connector"


def check(scenario: Scenario) -> None:
    """Raise for the first impossible combination, then for the first feature out of scope."""
    _check_possible(scenario.config)
    for feature, place in _features(scenario):
        raise OutOfScope(f"{feature} is out of scope", IN_SCOPE, place)


def check_engine(config: Config, engine: str, features: frozenset[Feature]) -> None:
    """Raise for the first feature of the configuration that the engine of that name lacks."""
    used = (
        (Feature.async_scheduling, "async_scheduling", config.async_scheduling),
        (Feature.pipeline, "pipeline_parallel_size", config.pipeline_parallel_size > 1),
        (Feature.kv_events, "kv_events", config.kv_events),
    )
    for feature, key, is_used in used:
        if is_used and feature not in features:
            raise _lacking(feature, f"config.{key}", f"the engine {engine} does without")


def check_in_flight(features: frozenset[Feature], place: str) -> None:
    """Raise, where a step is scheduled while another one is in flight, if the engine cannot."""
    if Feature.several_in_flight not in features:
        remedy = "update or drain the first one before"
        raise _lacking(Feature.several_in_flight, place, remedy)


def _lacking(feature: Feature, place: str, remedy: str) -> OutOfScope:
    return OutOfScope(f"{feature} is out of scope", remedy, place)


def _check_possible(config: Config) -> None:
    """Refuse what is well typed and what no engine could be built with."""
    if len(config.groups) == 1:
        size = config.groups[0].block_size
        if isinstance(size, int) and size != config.block_size:
            raise ScenarioError(
                f"the only group has blocks of {size} tokens, the cache of {config.block_size}",
                "give both the same block_size",
                "config.groups[0].block_size",
            )
    if "\0" in str(config.hash_seed):
        raise ScenarioError("a zero character", "remove it", "config.hash_seed")


def _features(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Each feature out of scope that the scenario uses, with its place."""
    config = scenario.config
    switches = (
        ("speculative decoding", "num_spec_tokens", config.num_spec_tokens),
        ("a cap on adapters", "max_loras", config.max_loras),
        ("the v2 model runner", "use_v2_model_runner", config.use_v2_model_runner),
        # The real driver takes an empty connector for none.
        ("a KV connector", "connector", bool(scenario.written_config["connector"])),
    )
    for feature, key, used in switches:
        if used:
            yield feature, f"config.{key}"
    if len(config.groups) > 1:
        yield "more than one KV cache group", "config.groups"
    if config.groups[0].type != "full":
        yield f"a group of type {config.groups[0].type}", "config.groups[0].type"
    if config.groups[0].eagle:
        yield "an EAGLE group", "config.groups[0].eagle"
    if config.hash_algo.startswith("xxhash") and find_spec("xxhash") is None:
        yield f"{config.hash_algo} without the xxhash package", "config.hash_algo"
    for index, event in enumerate(scenario.events):
        if isinstance(event, KvDone):
            yield "a KV connector", f"events[{index}].op"
        elif isinstance(event, Add) and event.resumable:
            yield "a resumable request", f"events[{index}].resumable"
