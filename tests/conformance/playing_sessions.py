"""Scenarios with sessions, and what specification and reference print of them alike."""

import json
from typing import Any

from nullblock.conformance import driver
from nullblock.conformance.adapters import reference
from nullblock.conformance.adapters.spec import create
from nullblock.conformance.compare import first_difference
from nullblock.conformance.scenario import from_dict
from nullblock.spec.profiles import VLLM_0_22_1, Semantics

SESSION: dict[str, Any] = {
    "op": "add",
    "id": "s",
    "prompt": {"range": [0, 6]},
    "max_tokens": 9,
    "resumable": True,
}
CHUNK = {**SESSION, "prompt": {"range": [50, 59]}}


def alike(
    config: dict[str, Any], events: list[dict[str, Any]], semantics: Semantics = VLLM_0_22_1
) -> list[dict[str, Any]]:
    """The lines of a scenario, which specification and reference print alike."""
    scenario = from_dict({"config": config, "events": events})
    engines = [make(scenario.config, semantics) for make in (create, reference.create)]
    ours, theirs = (list(driver.run(scenario, engine)) for engine in engines)
    assert first_difference(ours, theirs) is None
    return [json.loads(line) for line in ours]
