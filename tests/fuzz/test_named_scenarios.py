"""The named scenarios, and those in which random steps found a difference once, on the
specification and the reference beside the real vLLM 0.22.1, or 0.32.0.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from fuzz.lockstep import lines_of, run
from oracle.client import Oracle

from nullblock.conformance.engines import features_of
from nullblock.conformance.mutation.found_scenarios import MORE_FOUND
from nullblock.conformance.scenario import from_dict
from nullblock.conformance.scope import used
from nullblock.spec.profiles import VLLM_0_22_1, VLLM_0_32_0

NAMED: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "oracle" / "data" / "scenarios.json").read_text()
)
FOUND: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data" / "found.json").read_text()
)
"""What was mended since: each is the smallest scenario that showed it."""
OUT_OF_SCOPE = {("token-for-who-wants-a-vector", "spec")}


def covered(engine: str) -> list[str]:
    """The scenarios that use nothing but what an engine says it does."""
    features = features_of(engine)
    return [n for n, d in NAMED.items() if {f for f, _ in used(from_dict(d))} <= features]


@pytest.mark.oracle
@pytest.mark.parametrize(("engine", "least"), [("spec", 48), ("reference", 58)])
def test_no_named_scenario_shows_a_difference(engine: str, least: int, oracle: Oracle) -> None:
    """Each that the engine covers, with the whole state after each decision."""
    names = covered(engine)
    assert len(names) >= least
    outcomes = {name: run(NAMED[name], (engine,), oracle) for name in names}
    assert {n: o for n, o in outcomes.items() if o.differences or o.refused} == {}


@pytest.mark.oracle
@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_once_is_mended(name: str, oracle: Oracle) -> None:
    """The scenario shows no difference any more, and is still one that both can be asked."""
    engines = [e for e in ("spec", "reference") if (name, e) not in OUT_OF_SCOPE]
    outcome = run(FOUND[name], tuple(engines), oracle)
    assert not outcome.differences and not outcome.refused
    if "spec" not in engines:
        assert run(FOUND[name], ("spec",), oracle).refused


@pytest.mark.oracle
@pytest.mark.parametrize("name", MORE_FOUND)
def test_what_mutants_play_as_well_is_mended_in_both_lines(
    name: str, oracle: Oracle, oracle_0_32: Oracle
) -> None:
    """Likewise, beside the real vLLM 0.22.1 and 0.32.0."""
    for real, semantics in ((oracle, VLLM_0_22_1), (oracle_0_32, VLLM_0_32_0)):
        outcome = run(MORE_FOUND[name], ("spec", "reference"), real, semantics)
        assert not outcome.differences and not outcome.refused


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("chunks-that-drop-a-hit-are-looked-up", "no lookup drops a hit of chunks"),
        ("aligned-states-are-loaded", "no states are loaded"),
        ("blocks-left-out-beyond-max-model-len", "each has its place"),
        ("chunk-beyond-max-model-len-beside-blocks-left-out", "each has its place"),
        ("empty-prompt-in-one-window", "whoever is looked up has tokens"),
        ("empty-prompt-in-chunks-beside-a-connector", "whoever is looked up has tokens"),
        ("empty-prompt-in-a-sink-beside-states", "whoever is looked up has tokens"),
    ],
)
def test_the_specification_says_at_what_vllm_raises(name: str, says: str) -> None:
    """An exception counts as one whatever it says: here it is the one that is meant."""
    raised = json.loads(lines_of("spec", FOUND[name])[-2])
    assert raised["ev"] == "EXCEPTION" and raised["type"] == "AssertionError"
    assert says in raised["msg"]
