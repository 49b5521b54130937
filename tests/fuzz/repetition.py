"""Random scenarios in which requests end because their output repeats itself.

Takes other random scenarios, in step or ahead, with drafts or with sessions, and lets their
requests want repetitions detected, and their models sample some.
"""

import json
from typing import Any

from fuzz import drafts
from fuzz.waits import with_sessions

from nullblock.conformance.engine import CORE_FEATURES, Feature
from nullblock.conformance.lockstep.choices import Seeded
from nullblock.conformance.lockstep.generator import seeded

Scenario = dict[str, Any]
NEEDS = CORE_FEATURES | {Feature.repetition}
SESSIONS = frozenset({Feature.streaming, Feature.drafts, Feature.lora_cap})
WANTS = SESSIONS | {Feature.structured_output, Feature.silence}
MUST_REACH = (
    *("an end by repetition (synchronous)", "an end by repetition (asynchronous)"),
    *("an end by repetition, drafts behind it", "a turn that ends by repetition"),
)
"""What it is for. At places a request wants none detected, is below min_tokens, or is at its
limit; that others stop these the engines are compared in.
"""


def repeating(key: str, size: int, features: frozenset[Feature]) -> Scenario:
    """The scenario of a key, for engines that do all of these features."""
    ask = Seeded(f"repetition:{key}")
    match ask.integer(0, 3):
        case 0 if Feature.drafts in features:
            scenario = drafts.seeded(key, size, features)
        case 1 if features >= WANTS:
            scenario = with_sessions(key, size)
        case _:
            scenario = seeded(key, size, CORE_FEATURES)
    if ask.chance(20):
        scenario["config"]["vocab"] = 2
    for event in scenario["events"]:
        if event["op"] != "add":
            continue
        if ask.chance(75):
            longest = ask.integer(0, 3)
            event["repetition_detection"] = {
                "max_pattern_size": longest,
                "min_pattern_size": ask.integer(0, longest),
                "min_count": ask.integer(2, 4),
            }
        if ask.chance(60):
            event["cycle"] = [ask.integer(0, 4), ask.integer(1, 3)]
    return scenario


def reached(scenario: Scenario, lines: list[str]) -> set[str]:
    """Which ends by repetition a scenario's lines show."""
    ahead = bool(scenario["config"].get("async_scheduling"))
    seen = set()
    for line in map(json.loads, lines):
        for output in line.get("outputs", ()):
            if output["finish"] != "repetition":
                continue
            seen.add(MUST_REACH[ahead])
            if len(line["sampled"][output["id"]]) > len(output["tokens"]):
                seen.add(MUST_REACH[2])
            if output["id"] in (line["state"] or {}).get("requests", ()):
                seen.add(MUST_REACH[3])
    return seen
