"""Takes out of a random scenario what an engine cannot be asked for."""

from typing import Any

from nullblock.conformance.engine import Feature
from nullblock.conformance.prompts import parse_prompt

Event = dict[str, Any]
Scenario = dict[str, Any]
OPS = {
    "abort": Feature.abort,
    "pause": Feature.pause,
    "reset_prefix_cache": Feature.reset,
    "evict_blocks": Feature.evict,
}
KEYS = {
    "lora": Feature.adapters,
    "lora_id": Feature.adapters,
    "salt": Feature.adapters,
    "stop": Feature.stop_tokens,
    "eos": Feature.stop_tokens,
    "eos_at": Feature.stop_tokens,
    "min_tokens": Feature.stop_tokens,
    "repetition_detection": Feature.repetition,
    "cycle": Feature.repetition,
    "skip_cache_read": Feature.prefix_caching,
    "priority": Feature.priority,
}
"""Keys of an arrival that a feature brings."""


def restricted(scenario: Scenario, features: frozenset[Feature]) -> Scenario:
    """The scenario without the events, and the keys of events, that no feature allows."""
    config = scenario["config"]
    events: list[Event] = []
    ids: set[str] = set()
    for event in scenario["events"]:
        if OPS.get(event["op"]) not in {None, *features}:
            continue
        if event["op"] == "add":
            event = {k: v for k, v in event.items() if KEYS.get(k) in {None, *features}}
            unchecked = event["id"] in ids or _is_refused(event, config)
            ids.add(event["id"])
        else:
            unchecked = _is_mistaken(event, config)
        if not unchecked or Feature.unchecked_input in features:
            events.append(event)
    return {**scenario, "events": events}


def _is_refused(event: Event, config: dict[str, Any]) -> bool:
    """Whether a front end would not pass this request on."""
    if not 1 <= len(parse_prompt(event["prompt"])) < config["max_model_len"]:
        return True
    return not 0 <= event.get("min_tokens", 0) <= event["max_tokens"] or event["max_tokens"] < 1


def _is_mistaken(event: Event, config: dict[str, Any]) -> bool:
    """Whether an engine answers with an exception."""
    match event:
        case {"op": "abort", "status": "RUNNING"}:
            return True
        case {"op": "evict_blocks", "ids": ids}:
            return any(id >= config["num_blocks"] for id in ids)
        case _:
            return False
