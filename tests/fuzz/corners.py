"""Random scenarios under settings that hardly anybody uses.

Takes other random scenarios and pushes a few settings of each to an end: a length limit below the
prompts, blocks of one token, a pool of a few, one seat, a budget of one token, steps far ahead,
requests that nothing tells apart. In between come resets, pauses, aborts, and ids used again while
their steps are in flight.
"""

import json
import random
import zlib
from collections.abc import Callable
from typing import Any

from fuzz import drafts
from fuzz.encoder_scenarios import items_scenario
from fuzz.groups import first_built, with_hybrid, with_mamba, with_window
from fuzz.waits import Waits

from nullblock.conformance.engine import CORE_FEATURES, Feature
from nullblock.conformance.lockstep.choices import Seeded
from nullblock.conformance.lockstep.generator import seeded

Config = dict[str, Any]
Event = dict[str, Any]
Scenario = dict[str, Any]
Features = frozenset[Feature]

CORNERS = CORE_FEATURES | {
    *(Feature.drafts, Feature.windows, Feature.hybrid, Feature.block_sizes, Feature.mamba),
    *(Feature.lora_cap, Feature.kv_connector, Feature.streaming, Feature.structured_output),
    *(Feature.encoder_inputs, Feature.v2_model_runner),
}
"""What engines do that play them."""
BASES: tuple[Callable[[str, int, Features], Scenario], ...] = (
    *(lambda key, size, features: seeded(key, size, features & CORE_FEATURES),) * 3,
    *(drafts.seeded,) * 2,
    *(lambda key, size, features: with_window(key, size),) * 2,
    *(lambda key, size, features: with_hybrid(key, size),) * 2,
    *(with_mamba,) * 2,
    lambda key, size, features: items_scenario(zlib.crc32(key.encode()), size),
)
"""Of whom the events and the layers are."""
SOME_WAIT = 0.25
"""How often requests wait for something else than their turn."""


def with_corners(key: str, size: int, features: Features) -> Scenario:
    """The scenario of that key, for engines that do all of these features."""

    def draw(attempt: str) -> Scenario:
        r = random.Random(f"corners {attempt}")
        made = r.choice(BASES)(attempt, size, features)
        _push(r, made["config"])
        made["events"] = _disturbed(r, made["events"], made["config"])
        if r.random() < SOME_WAIT and not made["config"].get("encoder"):
            made = Waits(Seeded(attempt), made, features & CORNERS).scenario()
        copied: Scenario = json.loads(json.dumps(made))
        return copied

    return first_built(key, draw, features)


def _push(r: random.Random, config: Config) -> None:
    """Two to five settings, each to an end of what it may be."""
    num_groups = len(config.get("groups", (1,)))
    has_own_size = any("block_size" in group for group in config.get("groups", ()))
    ends: list[Config] = [
        {"num_blocks": 1 + num_groups * r.randint(1, 4)},
        {"max_num_seqs": r.choice((1, 1, 2))},
        {"max_num_batched_tokens": r.choice((1, 1, 2, 3))},
        {"max_num_scheduled_tokens": r.choice((1, 2, 3))},
        {"max_model_len": r.choice((1, 2, 3, 4, 6, 9, 12))},
        {"long_prefill_token_threshold": r.choice((1, 1, 2, 3))},
        {"watermark": r.choice((0.01, 0.1, 0.3, 0.5, 0.99, 1.0))},
        {"async_scheduling": True, "queue_depth": r.choice((3, 4))},
        {"pipeline_parallel_size": r.choice((2, 3, 4))},
        {"enable_chunked_prefill": False},
        {"policy": "priority"},
        {"scheduler_reserve_full_isl": r.random() < 0.5},
        {"kv_events": True},
        {"use_v2_model_runner": True},
    ]
    if not has_own_size and "hash_block_size" not in config:
        ends += [{"block_size": 1}] * 2
    for end in r.sample(ends, r.randint(2, 5)):
        config |= end


def _disturbed(r: random.Random, events: list[Event], config: Config) -> list[Event]:
    """The events with other prompts and keys, and with more of what seldom happens."""
    alike, short, often = r.random() < 0.4, r.random() < 0.6, r.choice((0.1, 0.3, 0.6))
    found: list[Event] = []
    adds: list[Event] = []
    for event in events:
        if event["op"] == "add":
            event = _changed(r, event, config, alike=alike, short=short)
            adds.append(event)
        elif event["op"] == "evict_blocks":
            event = {**event, "ids": [id for id in event["ids"] if id < config["num_blocks"]]}
        found.append(event)
        if adds and r.random() < often:
            found += _disturbance(r, r.choice(adds[-4:]))
    return found


def _changed(r: random.Random, event: Event, config: Config, *, alike: bool, short: bool) -> Event:
    """An arrival that is a little longer or shorter than what there is room for, and that nothing
    tells from others.
    """
    changed = dict(event)
    if alike:
        changed |= {"priority": 0, "arrival": 1}
    if short and not event.get("mm_features"):
        slots = config["block_size"] * max(1, config["num_blocks"] - 1)
        most = r.choice((config["max_model_len"], slots, 2 * config["block_size"], 24))
        length = max(0, min(most + r.choice((-2, -1, 0, 0, 1, 3)), 40))
        changed["prompt"] = {"range": [0, max(1, length)]}
        changed["max_tokens"] = max(r.randint(1, 8), event.get("min_tokens", 0))
    return changed


def _disturbance(r: random.Random, add: Event) -> list[Event]:
    """Something that comes at a bad time, mostly while steps are in flight."""
    ahead: list[Event] = [{"op": "schedule"}] * r.choice((0, 1, 1, 2, 3))
    gone = {"op": "abort", "ids": [add["id"]]}
    # The real engine seldom survives an id that is used again while its steps are in flight.
    again = add if r.random() < 0.3 else {**add, "id": f"{add['id']}-{r.randrange(10**6)}"}
    match r.randrange(6):
        case 0:
            what: list[Event] = [{"op": "reset_prefix_cache", "reset_running": True}]
        case 1:
            state = r.choice(("PAUSED_NEW", "PAUSED_ALL"))
            steps = {"op": "step", "n": r.randint(1, 3)}
            return [{"op": "pause", "state": state}, steps, {"op": "pause", "state": "UNPAUSED"}]
        case 2:
            what = [gone]
        case 3:
            what = [gone, again]
        case 4:
            what = [{"op": "reset_prefix_cache"}, {"op": "step"}]
        case _:
            what = [{"op": "step"}, gone, again, {"op": "step"}]
    # What is left in flight is there for whatever comes next.
    back: list[Event] = [{"op": "update"}] * (len(ahead) if r.random() < 0.6 else 0)
    return [*ahead, *what, *back]


def reached(document: Scenario, lines: list[str]) -> set[str]:
    """What a scenario with those lines reaches."""
    config = document["config"]
    seen = {f"{key} {config[key]}" for key in ("block_size", "max_num_seqs") if config[key] == 1}
    seen |= {"budget 1"} if config["max_num_batched_tokens"] == 1 else set()
    length, in_flight = config["max_model_len"], 0
    for fields in map(json.loads, lines):
        match fields["ev"]:
            case "schedule":
                in_flight += 1
                seen |= {"three steps in flight"} if in_flight > 2 else set()
                seen |= {"a preemption"} if fields["preempted"] else set()
                beyond = [new for new in fields["new"] if new["prompt_len"] > length]
                seen |= {"a prompt beyond the limit admitted"} if beyond else set()
            case "update":
                in_flight -= 1
            case "abort" if in_flight and fields["aborted"]:
                seen.add("an abort with steps in flight")
            case "reset_prefix_cache" if in_flight:
                seen.add("a reset with steps in flight")
            case "EXCEPTION":
                seen.add("an exception")
    return seen
