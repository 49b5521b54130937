"""Random scenarios of encoder-decoder models.

A pure function of the key. Takes the product's own random scenarios, gives their engines an
encoder, mostly cross-attention layers beside others, and their requests items: of few identifiers,
each of one size, short ones and such as are longer than the prompt. Budget and cache are small, so
that requests wait for them.
"""

import json
import random
from collections.abc import Iterable
from typing import Any

from fuzz.groups import Groups, first_built, num_slots

from nullblock.conformance.engine import CORE_FEATURES, Feature
from nullblock.conformance.lockstep.generator import seeded

CROSS = CORE_FEATURES | {
    *(Feature.drafts, Feature.windows, Feature.hybrid, Feature.block_sizes),
    *(Feature.encoder_inputs, Feature.encoder_decoder, Feature.cross_attention),
    *(Feature.mamba, Feature.aligned_mamba, Feature.sinks),
}
"""What engines do that play encoder-decoder models."""
SIZES = (1, 2, 3, 5, 8, 13)
"""Tokens of an item, by the number of its identifier."""
BESIDE = (
    *(("full",),) * 8,
    ("full", "full"),
    ("full", "sliding_window"),
    ("sliding_window",),
    ("chunked_local",),
    ("mamba",),
    ("sink",),
    (),
)
"""What stands beside cross-attention; nothing: a model without it, of full attention."""
MUST_REACH = (
    "items computed",
    "two items of one request",
    "one item for two requests of a step",
    "a request without items beside one with some",
    "nobody admitted for want of budget or room",
    "computed again after a preemption",
    "told to forget, and computed again",
    "the encoder cache reset",
    "blocks of two sizes",
)


def with_cross(key: str, size: int, features: frozenset[Feature] = CROSS) -> dict[str, Any]:
    """The scenario of that key: its own events, on an encoder-decoder model. It asks for no other
    features.
    """

    def draw(attempt: str) -> dict[str, Any]:
        scenario = seeded(attempt, size, CORE_FEATURES)
        config = scenario["config"]
        config["enable_prefix_caching"] = False
        drawn = Groups(f"cross {attempt}", config)
        r = drawn.r
        if r.random() < 0.7:
            config["block_size"] = drawn.size = min(drawn.size, 3)
        slots = num_slots(config)
        drawn.eagle = r.random() < 0.1
        kinds = r.choice(BESIDE)
        drawn.mixes = bool(kinds) and "chunked_local" not in kinds and r.random() < 0.3
        drawn.mode = r.choice(("none", "all"))
        beside = [drawn.group(kind) for kind in kinds]
        for group in beside:
            if "chunk" in group:
                group["chunk"] = -(-group["chunk"] // drawn.size) * drawn.size
        config |= drawn.drafts()
        if beside:
            groups = [*beside, drawn.group("cross_attention")]
            r.shuffle(groups)
            config["groups"] = groups
            if r.random() < 0.5:
                _give_blocks(config, slots)
        config["encoder"] = encoder(r)
        _give_items(scenario, r)
        made: dict[str, Any] = json.loads(json.dumps(scenario))
        return made

    return first_built(key, draw, CROSS & features)


def encoder(r: random.Random) -> dict[str, Any]:
    """An encoder with little room."""
    return {
        "is_encoder_decoder": True,
        "max_num_encoder_input_tokens": r.choice((5, 8, 8, 13, 16, 26)),
        "encoder_cache_size": r.choice((5, 8, 13, 16, 26)),
        "max_tokens_per_item": r.choice((1, 1, 5)),
        "disable_chunked_mm_input": r.random() < 0.2,
    }


def _give_blocks(config: dict[str, Any], slots: int) -> None:
    """Make the pool larger by what items need, or every layer by itself."""
    sizes = [group.get("block_size", config["block_size"]) for group in config["groups"]]
    config["num_blocks"] = 1 + sum(-(-slots // size) for size in sizes)


def _give_items(scenario: dict[str, Any], r: random.Random) -> None:
    """Give requests items, and reset the encoder cache now and then."""
    many = r.random() < 0.3
    events = []
    for event in scenario["events"]:
        if event["op"] == "add":
            count = r.choice((0, 1, 1, 2, 3) if many else (0, 1, 1, 1, 1, 2))
            event = {**event, "mm_features": [item(r) for _ in range(count)]}
        events.append(event)
        if r.random() < 0.03:
            events.append({"op": "reset_encoder_cache"})
    scenario["events"] = events


def item(r: random.Random) -> dict[str, Any]:
    number = r.choices(range(len(SIZES)), (2, 3, 3, 3, 1, 1))[0]
    return {"hash": f"m{number}", "offset": 0, "length": SIZES[number]}


def reached(scenario: dict[str, Any], lines: list[str]) -> Iterable[str]:
    """What a scenario with those lines reaches, in words of `MUST_REACH`."""
    sizes = {group.get("block_size") for group in scenario["config"].get("groups", ())}
    if len(sizes) > 1:
        yield "blocks of two sizes"
    adds = (event for event in scenario["events"] if event["op"] == "add")
    items: dict[str, list[str]] = {}
    fed: set[str] = set()
    for line in map(json.loads, lines):
        if line["ev"] == "add":
            added = next(adds)
            items[added["id"]] = [item["hash"] for item in added["mm_features"]]
            fed.discard(added["id"])
        if line["ev"] == "reset_encoder_cache":
            yield "the encoder cache reset"
        if line["ev"] == "schedule":
            yield from _of_step(line, items, fed)


def _of_step(line: dict[str, Any], items: dict[str, list[str]], fed: set[str]) -> Iterable[str]:
    inputs = line["scheduled_encoder_inputs"]
    computed = [items[id][index] for id, indices in inputs.items() for index in indices]
    if computed:
        yield "items computed"
    if any(len(indices) > 1 for indices in inputs.values()):
        yield "two items of one request"
    if len(set(computed)) < len(computed) and len(inputs) > 1:
        yield "one item for two requests of a step"
    if inputs and len(line["new"]) > len(inputs):
        yield "a request without items beside one with some"
    if set(line["free_encoder_mm_hashes"]) & set(computed):
        yield "told to forget, and computed again"
    if set(inputs) & fed:
        yield "computed again after a preemption"
    fed.update(inputs)
    state = line["state"]
    waiting = state["waiting"] if state else []
    if waiting and items.get(waiting[0]) and not line["preempted"] and not line["new"]:
        if state["num_free"] > 4 and len(state["running"]) < 2:
            yield "nobody admitted for want of budget or room"
