"""The families of random scenarios: how one is made, and how it is seen what it reaches."""

import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from fuzz import (
    anywhere,
    anywhere_reach,
    contract,
    corners,
    cross,
    drafts,
    drafts_beside,
    drafts_reach,
    encoder_reach,
    ranks,
    reach,
    reach_groups,
    repetition,
    second_line,
    vectors,
    waits,
    waits_reach,
)
from fuzz.contract import with_contract
from fuzz.cross import with_cross
from fuzz.encoder_scenarios import encoder_scenario, items_scenario
from fuzz.encoder_waits import ENCODER, encoder_waits, later_items
from fuzz.groups import MAMBA, with_groups, with_hybrid, with_mamba, with_window
from fuzz.inner_states import NEEDS, with_inner
from fuzz.lockstep import Scenario
from fuzz.ranks import with_ranks

from nullblock.conformance.engine import ALL_FEATURES, CORE_FEATURES, WAITS, Feature
from nullblock.conformance.lockstep.generator import seeded

Features = frozenset[Feature]
Make = Callable[[str, int, Features], Scenario]
Reached = Callable[[Scenario, list[str]], Iterable[str]]
Watching = Callable[[Counter[str]], AbstractContextManager[None]]
SELDOM = 20
"""Of how many scenarios one is watched, where that takes another run of the reference."""


@dataclass(frozen=True, slots=True)
class Family:
    """Random scenarios of one kind."""

    name: str
    about: str
    make: Make
    """The scenario of a key, with at most about so many groups of events, for engines that do
    all of these features.
    """
    reached: Reached
    """What a scenario reaches, with the lines it printed."""
    needs: Features = frozenset()
    """What engines have to do, or the scenarios make no sense."""
    wants: Features = frozenset()
    """What they have to do besides to be run if nobody says which."""
    every: int = SELDOM
    """Of how many scenarios one is watched."""
    watching: Watching = lambda seen: nullcontext()
    """Counts while a scenario runs what can be seen only from inside."""

    def lacking(self, features: Features) -> list[str]:
        """What it needs and is not among these, by name."""
        return sorted(feature.value for feature in self.needs - features)


def _number(key: str) -> int:
    """A number for scenarios whose seeds are numbers."""
    return zlib.crc32(key.encode())


def _of_encoder(document: Scenario, lines: list[str]) -> set[str]:
    return encoder_reach.reached(document) & set(encoder_reach.MUST_REACH)


def _of_waits(document: Scenario, lines: list[str]) -> set[str]:
    """Without those that tell the policy and the mode as well."""
    return {what for what in waits_reach.reached(document, lines) if "(" not in what}


def _of_models(document: Scenario, lines: list[str]) -> set[str]:
    """The same, beside which layers, or encoder inputs."""
    config = document["config"]
    kinds = {group["type"] for group in config.get("groups", ())}
    kinds |= {"items"} if config.get("encoder") else set()
    return {f"{kind}: {what}" for what in _of_waits(document, lines) for kind in kinds}


def _of_one_kind() -> Iterable[Family]:
    yield Family(
        "core",
        "one full-attention group and nothing beside it",
        lambda key, size, features: with_ranks(
            key, seeded(key, size, features & CORE_FEATURES), features
        ),
        lambda document, lines: reach.reached(document) | ranks.reached(document),
    )
    yield Family(
        "later",
        "the same, with what only the later line looks at",
        lambda key, size, features: with_ranks(key, second_line.made(key, size), features),
        lambda document, lines: reach.reached(document) | ranks.reached(document),
        CORE_FEATURES,
    )
    yield Family(
        "later-states",
        "Mamba layers that keep a state within a step",
        with_inner,
        reach_groups.told,
        NEEDS,
        watching=reach_groups.watching,
    )
    yield Family(
        "drafts",
        "speculative decoding",
        lambda key, size, features: with_ranks(key, drafts.seeded(key, size, features), features),
        lambda document, lines: drafts_reach.reached(document) | ranks.reached(document),
        CORE_FEATURES | {Feature.drafts},
    )
    yield from _of_layers()
    yield from _beside_the_core()


def _of_layers() -> Iterable[Family]:
    yield Family(
        "windows",
        "one group of layers that see a part of the past",
        lambda key, size, features: with_window(key, size),
        reach_groups.told,
        CORE_FEATURES | {Feature.drafts, Feature.windows},
        watching=reach_groups.watching,
    )
    yield Family(
        "hybrid",
        "several groups of attention",
        lambda key, size, features: with_hybrid(key, size),
        reach_groups.told,
        CORE_FEATURES | {Feature.drafts, Feature.hybrid, Feature.block_sizes},
        watching=reach_groups.watching,
    )
    yield Family(
        "sizes",
        "blocks of several sizes, of which a lookup drops the last hit",
        waits.with_dropped,
        reach_groups.told,
        CORE_FEATURES | {Feature.drafts, Feature.hybrid, Feature.block_sizes},
        ALL_FEATURES,
        watching=reach_groups.watching,
    )
    yield Family(
        "mamba",
        "Mamba layers or sinks, alone or beside other layers",
        with_mamba,
        reach_groups.told,
        MAMBA - {Feature.aligned_mamba, Feature.sinks},
        ALL_FEATURES,
        every=3,
        watching=reach_groups.watching,
    )
    yield Family(
        "cross",
        "encoder-decoder models, mostly with cross-attention",
        with_cross,
        cross.reached,
        cross.CROSS - {Feature.aligned_mamba, Feature.sinks},
        cross.CROSS,
        every=1,
    )
    yield Family(
        "groups",
        "hybrid models",
        with_groups,
        reach_groups.told,
        MAMBA,
        ALL_FEATURES,
        every=1,
        watching=reach_groups.watching,
    )
    yield Family(
        "kinds",
        "kinds of layers that may not agree on a hit, beside a KV connector or without",
        waits.with_kinds,
        reach_groups.told,
        MAMBA - {Feature.aligned_mamba, Feature.sinks},
        MAMBA | {Feature.kv_connector},
        every=3,
        watching=reach_groups.watching,
    )


def _beside_the_core() -> Iterable[Family]:
    yield Family(
        "encoder",
        "encoder inputs and the output contract",
        lambda key, size, features: encoder_scenario(_number(key), size),
        _of_encoder,
        ENCODER,
        ALL_FEATURES,
    )
    yield Family(
        "items",
        "encoder inputs, and one full-attention group",
        lambda key, size, features: items_scenario(_number(key), size),
        _of_encoder,
        CORE_FEATURES | {Feature.drafts, Feature.encoder_inputs},
    )
    yield Family(
        "contract",
        "what is told of a step, and of requests of other kinds",
        lambda key, size, features: with_ranks(key, with_contract(key, size, features), features),
        lambda document, lines: contract.reached(document, lines) | ranks.reached(document),
        CORE_FEATURES | contract.TOLD,
    )
    yield Family(
        "waits",
        "adapters capped, remote KV, sessions, grammars",
        waits.seeded,
        _of_waits,
        CORE_FEATURES | {Feature.lora_cap, Feature.structured_output},
        ALL_FEATURES,
        every=1,
    )

    yield Family(
        "remote",
        "KV connectors, beside windows and groups too",
        waits.with_connector,
        _of_waits,
        CORE_FEATURES | {Feature.kv_connector},
        every=1,
    )


def _of_settings() -> Iterable[Family]:
    yield Family(
        "repetition",
        "requests that end because their output repeats itself, with drafts or sessions too",
        repetition.repeating,
        repetition.reached,
        repetition.NEEDS,
        repetition.WANTS,
        every=1,
    )
    yield Family(
        "vectors",
        "models that make vectors and no tokens",
        vectors.with_vectors,
        vectors.reached,
        vectors.NEEDS,
        ALL_FEATURES,
        every=1,
    )
    yield Family(
        "corners",
        "settings that hardly anybody uses, and disturbances",
        corners.with_corners,
        corners.reached,
        corners.CORNERS,
        every=1,
    )


def _of_sessions() -> Iterable[Family]:
    yield Family(
        "sessions",
        "streaming sessions, with drafts or without",
        lambda key, size, features: waits.with_sessions(key, size),
        _of_waits,
        CORE_FEATURES
        | {Feature.streaming, Feature.drafts, Feature.lora_cap, Feature.structured_output},
        every=1,
    )

    yield Family(
        "sessions-priority",
        "streaming sessions under PRIORITY",
        lambda key, size, features: waits.with_sessions(key, size, "priority"),
        _of_waits,
        CORE_FEATURES
        | {Feature.streaming, Feature.drafts, Feature.lora_cap, Feature.structured_output},
        every=4,
    )

    yield Family(
        "sessions-items",
        "streaming sessions whose later chunks have encoder inputs",
        lambda key, size, features: later_items(key, size),
        lambda document, lines: _of_encoder(document, lines) | _of_waits(document, lines),
        CORE_FEATURES | {Feature.streaming, Feature.lora_cap, Feature.encoder_inputs},
        every=4,
    )

    yield Family(
        "sessions-remote",
        "streaming sessions beside a KV connector",
        lambda key, size, features: waits.with_loaded_sessions(key, size),
        _of_waits,
        CORE_FEATURES | WAITS | {Feature.drafts},
        every=4,
    )


def _of_two() -> Iterable[Family]:
    yield Family(
        "drafts-groups",
        "speculative decoding on hybrid models",
        lambda key, size, features: drafts_beside.hybrid(key, size),
        lambda document, lines: drafts_reach.reached(document),
        ALL_FEATURES,
    )
    yield Family(
        "drafts-waits",
        "speculative decoding while requests wait",
        drafts_beside.waiting,
        lambda document, lines: drafts_reach.reached(document),
        CORE_FEATURES | {Feature.drafts, Feature.lora_cap, Feature.structured_output},
        ALL_FEATURES,
    )
    yield Family(
        "drafts-grammars",
        "speculative decoding of requests with a grammar",
        drafts_beside.grammars,
        lambda document, lines: drafts_reach.reached(document) | _of_waits(document, lines),
        CORE_FEATURES | {Feature.drafts, Feature.lora_cap, Feature.structured_output},
        every=4,
    )
    yield Family(
        "encoder-waits",
        "encoder inputs of requests that wait",
        lambda key, size, features: encoder_waits(_number(key), size, features),
        _of_encoder,
        CORE_FEATURES | WAITS | {Feature.drafts, Feature.encoder_inputs},
        ALL_FEATURES,
    )
    yield Family(
        "models-waits",
        "requests that wait in any way, beside any model",
        waits.beside_models,
        _of_models,
        CORE_FEATURES | WAITS | {Feature.drafts, Feature.encoder_inputs},
        every=1,
    )


def _of_everything() -> Iterable[Family]:
    yield Family(
        "anywhere",
        "anything that the format has beside anything else, each key by its own dice",
        anywhere.seeded,
        anywhere_reach.reached,
        CORE_FEATURES,
        ALL_FEATURES,
        every=1,
    )


ALL = (*_of_one_kind(), *_of_sessions(), *_of_two(), *_of_settings(), *_of_everything())
FAMILIES = {family.name: family for family in ALL}
