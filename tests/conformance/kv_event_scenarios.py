"""Scenarios whose KV events are worth looking at, and the events of a driver's lines.

The generator of the lockstep fuzzing makes them, for every kind of cache group that the driver of
the real engine knows: what it does not reach by itself is laid over its configuration.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from nullblock.conformance.lockstep.choices import Seeded
from nullblock.conformance.lockstep.generator import seeded
from nullblock.spec.kv_events import Cleared, Event, Removed, Stored

Scenario = dict[str, Any]

FULL = [{"type": "full"}]
GROUPS: dict[str, list[dict[str, Any]]] = {
    "full": FULL,
    "window": [{"type": "sliding_window", "sliding_window": 6}],
    "window of one": [{"type": "sliding_window", "sliding_window": 1}],
    "chunked": [{"type": "chunked_local", "chunk": 16}],
    "mamba": [{"type": "mamba", "mamba_cache_mode": "align"}],
    "mamba all": [{"type": "mamba", "mamba_cache_mode": "all"}],
    "full and window": [*FULL, {"type": "sliding_window", "sliding_window": 7}],
    "window and full": [{"type": "sliding_window", "sliding_window": 5}, *FULL],
    "block sizes": [
        {"type": "full", "block_size": 8},
        {"type": "sliding_window", "sliding_window": 9, "block_size": 4},
    ],
    "block sizes, full the smaller": [
        {"type": "full", "block_size": 4},
        {"type": "sliding_window", "sliding_window": 9, "block_size": 8},
    ],
    "full and mamba": [
        {"type": "full", "block_size": 4},
        {"type": "mamba", "mamba_cache_mode": "align", "block_size": 4},
    ],
    "two windows": [
        {"type": "sliding_window", "sliding_window": 6},
        {"type": "sliding_window", "sliding_window": 11},
    ],
    "sink": [{"type": "sink", "sink_len": 8}],
}
"""By name, what `groups` of a scenario's configuration is."""


def scenario(seed: str, groups: str, *, evict: bool = True, connector: bool = True) -> Scenario:
    """The scenario of a seed, with KV events on, asynchronous every other time.

    Args:
        evict: blocks may be evicted by their number.
        connector: some seeds have a KV connector.
    """
    choices = Seeded(f"kv events {seed}")
    made = seeded(seed, 40)
    config = made["config"]
    config |= {"kv_events": True, "groups": GROUPS[groups], "enable_prefix_caching": True}
    config["max_num_batched_tokens"] = max(8, config["max_num_batched_tokens"])
    if groups != "full":
        # The prompts of the generator are made for one table a request.
        config["num_blocks"] = config["num_blocks"] * len(GROUPS[groups]) + 2
    if "block sizes" in groups or "mamba" in groups:
        config["block_size"] = 4
    if "sink" in groups:
        config["block_size"] = 4
    if choices.chance(50):
        config |= {"async_scheduling": True, "queue_depth": choices.pick((2, 3, 4))}
    if choices.chance(20):
        config |= {"num_spec_tokens": choices.pick((1, 2, 3)), "accept": "hash"}
        config["spec_method"] = choices.pick(("ngram", "eagle"))
    names = [event["id"] for event in made["events"] if event["op"] == "add"]
    if connector and choices.chance(20):
        matched = {id: choices.integer(1, 24) for id in names if choices.chance(60)}
        config["connector"] = {"matched": matched, "async": choices.chance(50)}
    if not evict:
        made["events"] = [e for e in made["events"] if e["op"] != "evict_blocks"]
    return made


def events(lines: Iterable[str]) -> Iterator[tuple[list[Event], dict[str, Any] | None]]:
    """The events of each line that has some, and the state after it."""
    for line in lines:
        fields = json.loads(line)
        if fields["ev"] == "update":
            yield [e for told in fields["kv_events"] for e in event(told)], fields["state"]


def event(told: dict[str, Any]) -> list[Event]:
    """One event as the driver prints it; a removal for each hash."""
    match told["t"]:
        case "BlockStored":
            return [
                Stored(
                    told["block_hashes"],
                    told["parent_block_hash"],
                    told["token_ids"],
                    told["block_size"],
                    told["extra_keys"],
                    told["group_idx"],
                    told["kv_cache_spec_kind"],
                    told["kv_cache_spec_sliding_window"],
                )
            ]
        case "BlockRemoved":
            return [Removed(hash, told["group_idx"]) for hash in told["block_hashes"]]
        case kind:
            assert kind == "AllBlocksCleared"
            return [Cleared()]


def cached(state: dict[str, Any]) -> Counter[str]:
    """By hash and group, how many blocks of the engine hold it."""
    return Counter({key: len(blocks) for key, blocks in state["cached_map"].items() if blocks})
