"""Scenarios in which the specification is known to differ from vLLM 0.22.1, which the reference
follows. Nothing here is right: when one is mended its test fails, and it moves to `found.json`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from nullblock.conformance import driver
from nullblock.conformance.adapters import reference, spec
from nullblock.conformance.compare import first_difference
from nullblock.conformance.scenario import from_dict
from nullblock.spec.profiles import VLLM_0_22_1

KNOWN: dict[str, Any] = json.loads(
    Path(__file__).with_name("data").joinpath("known_differences.json").read_text()
)


@pytest.mark.parametrize("name", KNOWN)
def test_it_differs_as_it_is_known_to(name: str) -> None:
    """There, and in nothing before."""
    scenario = from_dict(KNOWN[name]["scenario"])
    ours = list(driver.run(scenario, spec.create(scenario.config, VLLM_0_22_1)))
    theirs = list(driver.run(scenario, reference.create(scenario.config, VLLM_0_22_1)))
    assert str(first_difference(theirs, ours)) == KNOWN[name]["difference"]
