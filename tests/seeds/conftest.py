"""Worked examples from descriptions of vLLM's scheduler, on every engine there is.

The descriptions disagree with one another and, here and there, with the engine. Where the real
engine does something else, a test says what, and why.
"""

import json

import pytest
from fuzz.lockstep import lines_of
from oracle.client import Oracle
from seeds.scenarios import Play


@pytest.fixture(params=["spec", "reference", pytest.param("vllm", marks=pytest.mark.oracle)])
def play(request: pytest.FixtureRequest) -> Play:
    """Runs a scenario on one of the engines and gives its lines, decoded."""
    engine: str = request.param
    if engine != "vllm":
        return lambda scenario: [json.loads(line) for line in lines_of(engine, scenario)]
    oracle: Oracle = request.getfixturevalue("oracle")
    return lambda scenario: [json.loads(line) for line in oracle.lines(scenario)]
