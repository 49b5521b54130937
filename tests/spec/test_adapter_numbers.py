"""Adapters without a number: vLLM compares numbers where there is a cap on adapters."""

import json
from typing import Any

import pytest

from nullblock.conformance.adapters.reference import create as reference
from nullblock.conformance.adapters.spec import create
from nullblock.conformance.driver import run
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.scenario import from_dict
from nullblock.spec.profiles import VLLM_0_22_1

ADD = {"op": "add", "id": "a", "prompt": [1], "max_tokens": 3, "lora": "x", "lora_id": None}


def played(make: Any, **config: Any) -> list[dict[str, Any]]:
    """What an engine prints of one such request, without header and trailer."""
    scenario = from_dict({"config": config, "events": [ADD, {"op": "step", "n": 2}]})
    return [json.loads(line) for line in run(scenario, make(scenario.config, VLLM_0_22_1))][1:-1]


@pytest.mark.parametrize("make", [create, reference], ids=["spec", "reference"])
def test_without_a_cap_nobody_looks_at_the_number(make: Any) -> None:
    """Both take it, in two steps."""
    assert [line["ev"] for line in played(make)] == ["add", *["schedule", "update"] * 2]


def test_beside_a_cap_it_is_refused_by_name() -> None:
    """vLLM raises TypeError when it next counts who runs, and so does the reference: no rule."""
    raised = played(reference, max_loras=1)[-1]
    assert (raised["ev"], raised["type"]) == ("EXCEPTION", "TypeError")
    with pytest.raises(OutOfScope, match="an adapter without a number"):
        played(create, max_loras=1)
