"""Drafts that nobody configured: the header has no `num_spec_tokens`, and yet there are some.

An engine takes drafts that anybody hands it. Its recorder tells of each proposal; in a state it
tells who waits with drafts, and not how many are in flight.
"""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from altered import judge
from bases import Lines, bases, begun_later, midway, whole
from record_again import record

WORDS = "`num_spec_tokens` is 0"
SCENARIO: dict[str, Any] = {
    "config": {"block_size": 4, "num_blocks": 14, "max_num_batched_tokens": 16},
    "events": [
        {"op": "add", "id": "a", "prompt": {"range": [0, 9]}, "max_tokens": 12},
        {"op": "step"},
        *(
            {"op": op, **more}
            for op, more in (("draft", {"tokens": {"a": [5, 6]}}), ("step", {})) * 3
        ),
        {"op": "run", "max_steps": 9},
    ],
}


@pytest.fixture(scope="module")
def recorded(oracle_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real engine, recorded with a whole state in every step."""
    folder = tmp_path_factory.mktemp("recorded")
    scenarios = folder / "scenarios.json"
    scenarios.write_text(json.dumps({"drafted": SCENARIO}))
    record(oracle_python, scenarios, folder, "1")
    return folder / "drafted.jsonl"


@pytest.mark.oracle
def test_picked_up_in_the_middle_it_is_no_violation(recorded: Path) -> None:
    """From whichever state on it is judged, such a recording is INCONCLUSIVE by name, or conforms,
    once no draft is in flight any more; the engine is not blamed for what it computes ahead.
    """
    lines = whole(recorded)
    told = judge(lines)
    assert told.verdict == "INCONCLUSIVE" and WORDS in told.missing[0]
    states = sum(line["ev"] == "state" for line in lines)
    found = [judge(begun_later(recorded, number)) for number in range(states)]
    said = [verdict.verdict for verdict in found]
    assert said == ["INCONCLUSIVE"] * 4 + ["CONFORMS"] * (states - 4) and states > 5
    for verdict in found[1:4]:
        assert "how many of the tokens in flight of request 0 are drafts" in verdict.missing[0]
        assert WORDS in verdict.missing[0]


@pytest.mark.oracle
def test_more_than_is_in_flight_is_a_violation(recorded: Path) -> None:
    """No drafts explain that more is computed than was scheduled."""
    lines = begun_later(recorded, 1)
    request = lines[1]["requests"][0]
    request["computed"] = request["tokens"] + lines[1]["in_flight"][0]["tokens"][0]
    verdict = judge(lines)
    assert verdict.first is not None
    assert (verdict.verdict, verdict.first.rule) == ("VIOLATION", "RUN-16")


def unconfigured(lines: Lines) -> Lines:
    """The trace with a header that says nothing of drafts."""
    lines = copy.deepcopy(lines)
    lines[0]["sealed"] = False
    lines[0].pop("config_sha256", None)
    for name in ("num_spec_tokens", "spec_method", "eagle_group"):
        lines[0]["config"].pop(name, None)
    return [line for line in lines if not line["ev"].startswith(("draft", "end"))]


def test_drafts_in_a_step_and_in_a_state() -> None:
    """Records that have words for drafts under a header that has none for them are INCONCLUSIVE by
    name: the header is at fault, or whoever proposed them.
    """
    for lines in (bases()["drafted ahead"], *midway().values()):
        if not lines[0]["config"].get("num_spec_tokens"):
            continue
        verdict = judge(unconfigured(lines))
        assert verdict.verdict == "INCONCLUSIVE", verdict.first
        assert WORDS in verdict.missing[0]


def test_a_state_tells_who_waits_with_drafts() -> None:
    """A request that has drafts, in a state under a header that has none, is INCONCLUSIVE."""
    lines = copy.deepcopy(midway()["ahead-fcfs"])
    state = next(line for line in lines if line["ev"] == "state")
    state["requests"][0]["drafts"] = 2
    verdict = judge(lines)
    assert verdict.verdict == "INCONCLUSIVE" and WORDS in verdict.missing[0]
