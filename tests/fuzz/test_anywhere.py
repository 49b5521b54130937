"""Scenarios from anywhere in the format: spec and reference beside both releases."""

import json
from collections import Counter
from typing import Any

import pytest
from fuzz.anywhere import seeded
from fuzz.anywhere_play import Played, is_possible, line_of
from fuzz.anywhere_reach import NEVER, TOPICS, pairs, reached, topics
from fuzz.families import FAMILIES
from fuzz.lockstep import ENGINES, features, lines_of, run
from oracle.client import Oracle

from nullblock.conformance.engine import ALL_FEATURES, CORE_FEATURES, Feature
from nullblock.conformance.lines.extent import extent
from nullblock.conformance.scenario import from_dict
from nullblock.conformance.scenario_format import EVENTS, Add, Config
from nullblock.conformance.scope import used
from nullblock.spec.profiles import PROFILES, VLLM_0_22_1, VLLM_0_32_0

SCENARIOS = 30
MANY = 900
"""Scenarios that show everything: mostly half of them do."""
ACCIDENTS = {"TypeError", "KeyError", "AttributeError", "NameError", "UnboundLocalError"}
"""What nobody raises on purpose: where vLLM does, ours may."""


def drawn(release: str, number: int, size: int = 25) -> dict[str, Any]:
    """A scenario of what our engines follow a release in."""
    followed = extent(features(ENGINES), PROFILES[f"vllm-{release}"])
    return FAMILIES["anywhere"].make(f"anywhere:{number}", size, followed)


def raised(lines: list[str]) -> str:
    """The type of the exception that ended a run; empty: none did."""
    last = json.loads(lines[-2]) if len(lines) > 1 else {}
    return str(last["type"]) if last.get("ev") == "EXCEPTION" else ""


@pytest.mark.oracle
@pytest.mark.parametrize("release", ["0.22.1", "0.32.0"])
def test_nothing_from_anywhere_shows_a_difference(
    release: str, oracle: Oracle, oracle_0_32: Oracle
) -> None:
    """Decision for decision; where vLLM raises, no engine of ours stumbles instead; nearly all are
    taken, and most run to their end.
    """
    real = {"0.22.1": oracle, "0.32.0": oracle_0_32}[release]
    counts: Counter[str] = Counter()
    for number in range(SCENARIOS):
        outcome = run(drawn(release, number), ENGINES, real, PROFILES[f"vllm-{release}"])
        assert not outcome.differences, (number, outcome.differences)
        counts["refused"] += bool(outcome.refused)
        counts["raised"] += outcome.has_raised
        for lines in outcome.ours.values():
            assert raised(lines) not in ACCIDENTS - {raised(outcome.real)}, (number, lines[-2])
    assert counts["refused"] <= 3 and counts["raised"] < SCENARIOS / 2


def test_a_seed_names_one_scenario() -> None:
    """The reference plays along while it is made, and that changes nothing."""
    assert seeded("5:1", 8, ALL_FEATURES) == seeded("5:1", 8, ALL_FEATURES)
    assert seeded("5:1", 8, ALL_FEATURES) != seeded("5:2", 8, ALL_FEATURES)


APART = {
    "vllm-0.22.1": NEVER,
    "vllm-0.32.0": pairs(set(TOPICS) - {"a sink"}) ^ pairs(TOPICS),
}
"""What does not meet. The later line is followed beside no sinks."""


@pytest.mark.slow
@pytest.mark.parametrize("profile", APART)
def test_every_two_topics_meet(profile: str) -> None:
    """Whatever there is in one scenario stands beside whatever else there is, in some other."""
    followed, left = extent(ALL_FEATURES, PROFILES[profile]), pairs(TOPICS)
    for number in range(MANY):
        document = seeded(f"3:{number}", 30, followed)
        left -= reached(document, lines_of("reference", document, PROFILES[profile]))
        if left == APART[profile]:
            return
    pytest.fail(f"not reached: {left - APART[profile]}")


def test_every_word_of_the_format_is_used() -> None:
    """Each event, each key of an arrival and of the configuration, each feature of a scenario."""
    left: set[object] = {*EVENTS, *(Feature(f) for f in ALL_FEATURES if f not in WHILE_IT_RUNS)}
    left |= {("add", key) for key in Add.__struct_encode_fields__}
    left |= {("config", key) for key in Config.__struct_encode_fields__}
    for number in range(MANY):
        document = seeded(f"3:{number}", 30, ALL_FEATURES)
        left -= {event["op"] for event in document["events"]}
        left -= {("add", key) for e in document["events"] if e["op"] == "add" for key in e}
        left -= {("config", key) for key in document["config"]}
        left -= {feature for feature, _ in used(from_dict(document))}
        if not left:
            return
    pytest.fail(f"not drawn: {left}")


WHILE_IT_RUNS = {Feature.several_in_flight}
"""What no scenario shows before it runs."""


def test_only_what_engines_do_is_asked_for() -> None:
    """For engines with the core's features nothing else is drawn."""
    for number in range(60):
        document = seeded(f"core:{number}", 20, CORE_FEATURES)
        assert {feature for feature, _ in used(from_dict(document))} <= CORE_FEATURES


def test_what_makes_an_engine_raise_is_taken_back() -> None:
    """Or stays, and ends the scenario; what is out of scope never stays."""
    played = Played({"vocab": 2}, VLLM_0_22_1)
    arrival = {"op": "add", "id": "a", "prompt": [1], "max_tokens": 3}
    assert played.takes([arrival, {"op": "step"}], stubborn=False)
    again = {**arrival, "prompt": [2]}
    assert not played.takes([again], stubborn=True)
    assert not played.takes([{"op": "update"}], stubborn=False)
    assert played.ids() == {"a": "RUNNING"} and played.blocks() == [1]
    assert played.events == [arrival, {"op": "step"}] and not played.has_raised
    assert played.takes([{"op": "update"}], stubborn=True) and played.has_raised


def test_configurations_that_no_engine_takes_are_drawn_again() -> None:
    """Those that cannot be, and those that an engine of ours refuses in a line."""
    sinks = {"groups": [{"type": "sink", "sink_len": 16}]}
    assert is_possible(sinks, line_of(ALL_FEATURES))
    assert not is_possible(sinks, VLLM_0_32_0)
    assert not is_possible({"groups": [{"type": "sliding_window"}]}, VLLM_0_22_1)


def test_topics_count_where_something_came_of_them() -> None:
    """A connector nobody loads by is none, and drafts that no step verified."""
    arrival = {"op": "add", "id": "a", "prompt": {"range": [0, 20]}, "max_tokens": 2}
    config = {"connector": {"matched": {"b": 9}}, "num_spec_tokens": 2}
    document = {"config": config, "events": [arrival, {"op": "step"}]}
    assert topics(document, lines_of("reference", document)) == set()
    config = {"connector": {"matched": {"a": 9}, "async": True}, "policy": "priority"}
    document = {"config": config, "events": [arrival, {"op": "step", "n": 2}]}
    assert reached(document, lines_of("reference", document)) == set()
    other = {**arrival, "id": "b", "lora": "x"}
    document = {"config": config, "events": [arrival, other, {"op": "step", "n": 2}]}
    found = reached(document, lines_of("reference", document))
    assert found == {"a load and an adapter", "a load and priority", "an adapter and priority"}
