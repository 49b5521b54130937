"""What is told of a step, and requests of other kinds: both engines and vLLM 0.22.1."""

from typing import Any

import pytest
from fuzz import lockstep
from fuzz.contract import MUST_REACH, reached, with_contract
from oracle.client import Oracle

from nullblock.conformance.engine import ALL_FEATURES
from nullblock.conformance.errors import OutOfScope
from nullblock.spec.profiles import PROFILES

SIZE = 25
ALL = 60


@pytest.mark.oracle
def test_random_scenarios_print_the_real_engines_lines(oracle: Oracle) -> None:
    """Specification and reference alike."""
    for number in range(15):
        scenario = with_contract(f"7:{number}", SIZE, ALL_FEATURES)
        outcome = lockstep.run(scenario, lockstep.ENGINES, oracle)
        assert not outcome.differences and not outcome.refused, number


@pytest.mark.parametrize("name", ["normative", "vllm-0.22.1"])
def test_both_engines_print_the_same(name: str) -> None:
    """In what ought to be as well; nothing is refused."""
    for number in range(25):
        scenario = with_contract(f"8:{number}", SIZE, ALL_FEATURES)
        outcome = lockstep.run(scenario, lockstep.ENGINES, None, PROFILES[name])
        assert not outcome.differences and not outcome.refused, (number, outcome.differences)


def test_the_scenarios_reach_what_they_are_for() -> None:
    """Each corner."""
    seen: set[str] = set()
    for number in range(ALL):
        scenario = with_contract(f"8:{number}", SIZE, ALL_FEATURES)
        seen |= reached(scenario, lockstep.lines_of("reference", scenario))
    assert seen == MUST_REACH


ADD = {"op": "add", "id": "a", "prompt": [1, 2, 3], "pooling": True}
REFUSED: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str]] = {
    "a grammar": ({}, [{**ADD, "grammar": {}}], "pooling requests beside a grammar"),
    "a session": ({}, [{**ADD, "resumable": True}], "a session beside a vector instead of tokens"),
}
"""What the specification has no rule for: configuration, events, how it is called."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_rule_beside_a_vector_is_refused_by_name(name: str) -> None:
    """By the specification, when it comes to it."""
    config, events, what = REFUSED[name]
    with pytest.raises(OutOfScope, match=f"^{what} is out of scope"):
        lockstep.lines_of("spec", {"config": config, "events": events})
