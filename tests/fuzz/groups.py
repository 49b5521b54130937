"""Random scenarios of hybrid models: any KV cache groups.

Takes the product's own random scenarios and gives their engines other groups.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fuzz.encoder_scenarios import encoder_scenario

from nullblock.conformance.engine import ALL_FEATURES, CORE_FEATURES, Feature
from nullblock.conformance.errors import InputError
from nullblock.conformance.groups import are_mixed, drop_hits
from nullblock.conformance.lockstep.generator import seeded
from nullblock.conformance.scenario import from_dict
from nullblock.conformance.scope import used

Group = dict[str, Any]
ATTEMPTS = 100
FAMILIES = (
    *("full+window",) * 4,
    *("full+mamba",) * 4,
    *("full+chunked",) * 2,
    *("anything",) * 4,
    *("alone",) * 4,
)
HYBRIDS = (
    *(("full", "sliding_window"),) * 4,
    *(("full", "chunked_local"),) * 2,
    ("full", "sliding_window", "sliding_window"),
    ("full", "full", "sliding_window"),
    ("full", "sliding_window", "chunked_local"),
    ("sliding_window", "sliding_window"),
    ("sliding_window", "chunked_local"),
    ("full", "full"),
)
"""Without prefix caching several groups may be of one kind."""
SIZED = (
    *(("full", "sliding_window"),) * 5,
    ("full", "sliding_window", "sliding_window"),
    ("full", "full", "sliding_window"),
    ("sliding_window", "sliding_window"),
    ("full", "full"),
)
"""Kinds of attention that have blocks of any sizes."""
MAMBA = CORE_FEATURES | {
    *(Feature.drafts, Feature.windows, Feature.hybrid, Feature.block_sizes, Feature.mamba),
    *(Feature.aligned_mamba, Feature.sinks),
}
"""What engines do that play models with Mamba layers."""
WITH_MAMBA = (
    *(("mamba",),) * 3,
    *(("full", "mamba"),) * 5,
    ("full", "mamba", "mamba"),
    *(("full", "sliding_window", "mamba"),) * 2,
    ("sliding_window", "mamba"),
    ("chunked_local", "mamba"),
    ("full", "chunked_local", "mamba"),
    *(("sink",), ("sink", "mamba"), ("sink", "sliding_window"), ("full", "sink")),
    ("sink", "sliding_window", "mamba"),
)
UNLIKE = (
    *(("full", "sink", "sliding_window"), ("full", "sink", "mamba"), ("sink", "full", "full")),
    *(("full", "wide", "sliding_window"), ("full", "wide", "mamba")),
    *(("full", "chunked_local"),) * 2,
    *(("full", "chunked_local", "sliding_window"), ("chunked_local", "sliding_window")),
    ("sink", "chunked_local", "full"),
)
"""Where vLLM 0.22.1 does not see to it that all kinds agree, or nearly; `wide`: full attention
with blocks of twice the size.
"""
KINDS = ("full", "sliding_window", "sliding_window", "mamba", "chunked_local", "sink")


class Groups:
    """Draws the groups of one scenario."""

    def __init__(self, key: str, config: dict[str, Any]) -> None:
        self.r = random.Random(key)
        self.config = config
        self.size = int(config["block_size"])
        self.caches = bool(config["enable_prefix_caching"])
        self.mode = self.r.choice(("none", "all", "align", "align"))
        self.num_speculative = self.r.choice((0, 0, 0, 1, 2))
        self.mixes = self.r.random() < 0.55
        self.eagle = self.r.random() < 0.2
        self.has_encoder = config.get("encoder", {}).get("is_encoder_decoder", False)
        if self.has_encoder and self.r.random() < 0.9:
            self.caches = config["enable_prefix_caching"] = False

    def draw(self) -> list[Group]:
        """One to five groups."""
        family = self.r.choice(FAMILIES)
        match family:
            case "full+window":
                kinds = ["full", *["sliding_window"] * self.r.choice((1, 1, 2, 3))]
            case "full+mamba":
                kinds = ["full", *["mamba"] * self.r.choice((1, 1, 2))]
            case "full+chunked":
                kinds = ["full", *["chunked_local"] * self.r.choice((1, 2))]
                self.mixes = self.mixes and self.r.random() < 0.2
            case "alone":
                kinds = [self.r.choice(KINDS)]
                self.mixes = False
            case _:
                kinds = [self.r.choice(KINDS) for _ in range(self.r.randrange(2, 5))]
        if self.has_encoder or (not self.caches and self.r.random() < 0.1):
            kinds.append("cross_attention")
        groups = [self.group(kind) for kind in kinds]
        if len(groups) > 1 and self.r.random() < 0.2:
            groups.append(dict(self.r.choice(groups)))
        self.r.shuffle(groups)
        return groups

    def drafts(self) -> dict[str, Any]:
        """A draft model beside it, mostly none."""
        r = self.r
        if r.random() < 0.7 or "num_spec_tokens" in self.config:
            return {}
        return {
            "num_spec_tokens": r.randrange(1, 4),
            "spec_method": r.choice(("eagle", "eagle", "draft_model", "ngram")),
            "accept": r.choice(("hash", "all", "none", [0, 2, 1])),
        }

    def group(self, kind: str) -> Group:
        """A group of that kind."""
        group: Group = {"type": kind}
        size = self.size
        if self.mixes and (kind != "mamba" or not self.caches) and self.r.random() < 0.6:
            size = group["block_size"] = self.size * self.r.choice((1, 2, 2, 3, 4))
        match kind:
            case "sliding_window":
                group["sliding_window"] = self.about(size)
            case "chunked_local":
                group["chunk"] = self.about(size)
            case "sink":
                group["sink_len"] = size * self.r.choice((1, 1, 2))
            case "mamba":
                group["mamba_cache_mode"] = self.mode
                group["num_speculative_blocks"] = self.num_speculative
        if self.eagle and kind != "chunked_local" and self.r.random() < 0.6:
            group["eagle"] = True
        return group

    def about(self, size: int) -> int:
        """Tokens around so many blocks, now and then exactly."""
        tokens = size * self.r.choice((1, 1, 2, 2, 3, 5))
        return max(1, tokens + self.r.choice((0, 0, 1, 1, -1, 2, size // 2)))


def with_groups(
    key: str, size: int, features: frozenset[Feature] = ALL_FEATURES
) -> dict[str, Any]:
    """The scenario of that key: its own events, on a hybrid model that can be built, and that
    asks for these features alone.
    """
    small = random.Random(f"small {key}").random() < 0.6

    def draw(attempt: str) -> dict[str, Any]:
        scenario = _base(attempt, size)
        config = scenario["config"]
        slots = num_slots(config)
        if small:
            # Small blocks: a prefix that several groups agree on is a long one.
            config["block_size"] = min(config["block_size"], 3)
        drawn = Groups(attempt, config)
        config |= {"groups": drawn.draw(), **drawn.drafts()}
        if drawn.r.random() < 0.85:
            give_each(config, slots)
        if drawn.mixes and drawn.r.random() < 0.15:
            config["hash_block_size"] = drawn.r.choice((1, drawn.size))
        return scenario

    return first_built(key, draw, features)


def with_window(key: str, size: int) -> dict[str, Any]:
    """The scenario of that key: its own events, one group whose layers see a part of the past."""

    def draw(attempt: str) -> dict[str, Any]:
        scenario = seeded(attempt, size, CORE_FEATURES)
        config = scenario["config"]
        slots = num_slots(config)
        drawn = Groups(attempt, config)
        if drawn.r.random() < 0.6:
            config["block_size"] = drawn.size = min(drawn.size, 3)
        drawn.mixes = False
        kind = drawn.r.choice(("sliding_window", "sliding_window", "chunked_local"))
        config |= {"groups": [drawn.group(kind)], **drawn.drafts()}
        if drawn.r.random() < 0.7:
            give_each(config, slots)
        return scenario

    return first_built(key, draw)


def _begun(attempt: str, size: int) -> tuple[dict[str, Any], Groups, int]:
    """A scenario of the core's, mostly with small blocks, whoever draws its groups, and tokens for
    which it has room.
    """
    scenario = seeded(attempt, size, CORE_FEATURES)
    config = scenario["config"]
    drawn = Groups(attempt, config)
    if drawn.r.random() < 0.7:
        config["block_size"] = drawn.size = min(drawn.size, 3)
    return scenario, drawn, num_slots(config)


def _with_groups(
    scenario: dict[str, Any], drawn: Groups, groups: list[Group], slots: int
) -> dict[str, Any]:
    """The scenario with these groups in any order, and mostly with room for so many tokens in each
    of them.
    """
    drawn.r.shuffle(groups)
    scenario["config"] |= {"groups": groups, **drawn.drafts()}
    if drawn.r.random() < 0.8:
        give_each(scenario["config"], slots)
    return scenario


def with_hybrid(key: str, size: int, *, eagle: float = 0.4) -> dict[str, Any]:
    """The scenario of that key: its own events, several groups of attention, so often with an
    EAGLE-like method.
    """

    def draw(attempt: str) -> dict[str, Any]:
        scenario, drawn, slots = _begun(attempt, size)
        config, r = scenario["config"], drawn.r
        drawn.eagle = r.random() < eagle
        kinds = r.choice(HYBRIDS)
        mixable = not drawn.eagle and "chunked_local" not in kinds and kinds.count("full") < 2
        drawn.mixes = mixable and r.random() < 0.5
        groups = [drawn.group(kind) for kind in kinds]
        for group in groups:
            if "chunk" in group:
                group["chunk"] = -(-group["chunk"] // drawn.size) * drawn.size
        if drawn.mixes and r.random() < 0.15:
            config["hash_block_size"] = r.choice((1, drawn.size))
        return _with_groups(scenario, drawn, groups, slots)

    return first_built(key, draw)


def with_sizes(key: str, size: int) -> dict[str, Any]:
    """The scenario of that key: its own events, and groups of attention with blocks of several
    sizes, or that several hashes cover, of which some drop the last block that they hit.
    """

    def draw(attempt: str) -> dict[str, Any]:
        scenario, drawn, slots = _begun(attempt, size)
        config, r = scenario["config"], drawn.r
        drawn.caches = config["enable_prefix_caching"] = True
        drawn.mixes = drawn.eagle = True
        groups = [drawn.group(kind) for kind in r.choice(SIZED)]
        if r.random() < 0.3:
            config["hash_block_size"] = r.choice((1, drawn.size))
        if r.random() < 0.3:
            for group in groups:
                group.pop("eagle", None)
            config |= {"num_spec_tokens": r.randrange(1, 4), "spec_method": "eagle"}
            config["accept"] = r.choice(("hash", "all", "none", [0, 2, 1]))
        return _with_groups(scenario, drawn, groups, slots)

    def unlike(attempt: str) -> dict[str, Any]:
        """The first that an EAGLE-like method tells from others."""
        for n in range(ATTEMPTS):
            scenario = draw(f"{attempt}:{n}")
            with suppress(InputError):
                config = from_dict(scenario).config
                if are_mixed(config) and drop_hits(config):
                    return scenario
        raise AssertionError(f"no blocks of several sizes for {key}")

    return first_built(key, unlike)


def with_mamba(key: str, size: int, features: frozenset[Feature] = ALL_FEATURES) -> dict[str, Any]:
    """The scenario of that key: its own events, Mamba layers or sinks, alone or beside others."""

    def draw(attempt: str) -> dict[str, Any]:
        scenario, drawn, slots = _begun(attempt, size)
        r = drawn.r
        drawn.eagle = r.random() < 0.25
        kinds = r.choice(WITH_MAMBA)
        drawn.mixes = len(kinds) > 1 and "chunked_local" not in kinds and r.random() < 0.3
        if drawn.caches and Feature.sinks not in features:
            drawn.mixes = False  # vLLM 0.32.0 cannot be built so.
        groups = [drawn.group(kind) for kind in kinds]
        for group in groups:
            if "chunk" in group:
                group["chunk"] = -(-group["chunk"] // drawn.size) * drawn.size
            if group["type"] == "mamba" and len(kinds) > 2 and r.random() < 0.3:
                group["num_speculative_blocks"] = r.randrange(3)
        return _with_groups(scenario, drawn, groups, slots)

    return first_built(key, draw, MAMBA & features)


def with_unlike(
    key: str, size: int, features: frozenset[Feature] = ALL_FEATURES
) -> dict[str, Any]:
    """The scenario of that key: its own events, full attention of two kinds beside a third, or
    chunks that end within a block.
    """

    def draw(attempt: str) -> dict[str, Any]:
        scenario, drawn, slots = _begun(attempt, size)
        drawn.caches = scenario["config"]["enable_prefix_caching"] = True
        r = drawn.r
        drawn.eagle, drawn.mixes = r.random() < 0.2, False
        kinds = r.choice(UNLIKE)
        groups = [drawn.group("full" if kind == "wide" else kind) for kind in kinds]
        for group, kind in zip(groups, kinds, strict=True):
            if kind == "wide":
                group["block_size"] = 2 * drawn.size
        return _with_groups(scenario, drawn, groups, slots)

    return first_built(key, draw, MAMBA & features)


def num_slots(config: dict[str, Any]) -> int:
    """Tokens for which one group of the usual blocks has room."""
    return int((config["num_blocks"] - 1) * config["block_size"])


def give_each(config: dict[str, Any], slots: int) -> None:
    """Make the pool so large that each group can have so many slots: all take from one pool."""
    sizes = [group.get("block_size", config["block_size"]) for group in config["groups"]]
    config["num_blocks"] = 1 + sum(-(-slots // size) for size in sizes)


def first_built(
    key: str,
    draw: Callable[[str], dict[str, Any]],
    features: frozenset[Feature] = ALL_FEATURES,
) -> dict[str, Any]:
    """The first scenario drawn for a key of which an engine can be built that has but these
    features.
    """
    for attempt in range(ATTEMPTS):
        scenario = draw(f"{key}:{attempt}")
        try:
            built = from_dict(scenario)
        except InputError:
            continue
        if features >= {feature for feature, _ in used(built)}:
            return scenario
    raise AssertionError(f"no hybrid model for {key}")


def _base(key: str, size: int) -> dict[str, Any]:
    """The scenario to give other groups; every sixth has an encoder."""
    r = random.Random(f"base {key}")
    if r.random() < 0.85:
        return seeded(key, size)
    return encoder_scenario(r.randrange(10**9), size)
