"""Repetition detection in scenarios and traces: whom it ends, and what a trace cannot say."""

import copy
import io
import json
from pathlib import Path
from typing import Any

import pytest
from fake_engine import FakeEngine
from traces import trace_of, unsealed

from nullblock.conformance import driver
from nullblock.conformance.checker import Verdict, check
from nullblock.conformance.errors import ScenarioError
from nullblock.conformance.repetition import Repetition, cycled, repeats
from nullblock.conformance.scenario import from_dict

Lines = list[dict[str, Any]]
PROFILES = ("vllm-0.22.1", "vllm-0.32.0", "normative")
TWICE = {"repetition_detection": {"max_pattern_size": 1, "min_count": 2}}
ADD = {"op": "add", "prompt": {"range": [0, 5]}, "max_tokens": 9}
LOOPS = ADD | TWICE | {"id": "a", "cycle": [2, 1]}
"""It ends with its fourth token, which is the third again."""


def document(*adds: dict[str, Any], **config: Any) -> dict[str, Any]:
    """A scenario of these arrivals, run to its end."""
    config = {"block_size": 4, "num_blocks": 30, **config}
    return {"config": config, "events": [*adds, {"op": "run"}]}


def lines(scenario: dict[str, Any], profile: str = "vllm-0.22.1") -> Lines:
    """The records of its trace, without a seal."""
    data = trace_of(scenario, "reference", profile)
    found = [json.loads(line) for line in data.splitlines()][:-1]
    found[0].pop("sealed"), found[0].pop("config_sha256")
    return found


def judged(records: Lines) -> Verdict:
    """The verdict on them."""
    return check(Path("t"), stream=io.BytesIO(unsealed(copy.deepcopy(records))), deep=False)


def caught(records: Lines) -> str | None:
    """The rule that they break."""
    verdict = judged(records)
    assert verdict.verdict == "VIOLATION", verdict.missing
    assert verdict.first is not None
    return verdict.first.rule


def ends(records: Lines) -> list[tuple[int, dict[str, Any]]]:
    """Steps in which somebody ends, and how."""
    updates = (line for line in records if line["ev"] == "update" and "finish" in line)
    return [(line["step"], line["finish"][0]) for line in updates]


@pytest.mark.parametrize("wrong", ["min_count", "min_pattern_size"])
def test_parameters_that_vllm_refuses_are_refused(wrong: str) -> None:
    """By their place in the scenario; those that detect nothing are none."""
    asked = {"max_pattern_size": 2, "min_pattern_size": 2, "min_count": 2}
    asked[wrong] = {"min_count": 1, "min_pattern_size": 3}[wrong]
    with pytest.raises(ScenarioError) as error:
        from_dict(document(ADD | {"id": "a", "repetition_detection": asked}))
    assert error.value.place == "events[0].repetition_detection"
    from_dict(document(ADD | {"id": "a", "repetition_detection": {}}))


def test_the_model_goes_round_in_a_cycle() -> None:
    """From the position on at which it begins; before, each position has a token of its own."""
    assert [cycled(at, 3, 2) for at in range(8)] == [0, 1, 2, 3, 4, 3, 4, 3]


def test_the_driver_has_its_model_do_so() -> None:
    """From the first output of ``cycle`` on; eos comes before it."""
    add = ADD | {"id": "a", "max_tokens": 7, "cycle": [1, 2], "eos": 77777, "eos_at": 6}
    told = map(json.loads, driver.run(from_dict(document(add)), FakeEngine()))
    first, *some, last = [line["sampled"]["a"] for line in told if line["ev"] == "update"]
    assert some == [*some[:2] * 2, some[0]] and last == [77777]
    assert len({first[0], some[0][0], some[1][0]}) == 3


def test_a_pattern_counts_from_its_shortest_to_its_longest() -> None:
    """Where it ends the outputs, and as often as it has to."""
    wanted = Repetition(max_pattern_size=3, min_pattern_size=2, min_count=2)
    assert repeats([9, 1, 2, 1, 2], wanted) and repeats([1, 2, 3, 1, 2, 3], wanted)
    assert not repeats([1, 2, 1, 2, 5], wanted) and not repeats([1, 2, 1], wanted)
    assert not repeats([1, 2, 3, 4] * 2, wanted) and not repeats([1, 2, 1, 2], Repetition())
    assert repeats([1, 1, 1, 1], wanted) and not repeats([1, 1], wanted)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_trace_tells_who_ends_by_repetition(profile: str) -> None:
    """UPD-70: a request that wants it detected; of one that does not it is caught."""
    records = lines(document(LOOPS), profile)
    assert ends(records) == [(4, {"id": 0, "reason": "repetition"})]
    assert judged(records).verdict == "CONFORMS"
    (add,) = (line for line in records if line["ev"] == "add")
    del add["features"]
    assert caught(records) == "UPD-70"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    ("what", "at"),
    [
        ({"min_tokens": 6}, 4),
        ({"max_tokens": 4}, 4),
        ({"eos": 7, "eos_at": 3}, 4),
        ({}, 1),
    ],
    ids=["below min_tokens", "at its limit", "with eos", "with its only token"],
)
def test_a_repetition_that_cannot_end_it_is_caught(
    what: dict[str, Any], at: int, profile: str
) -> None:
    """UPD-70: not below min_tokens, not where something else ends it, nor with one token."""
    records = lines(document(LOOPS | what), profile)
    assert judged(records).verdict == "CONFORMS"
    place, update = next(
        (n, line)
        for n, line in enumerate(records)
        if line["ev"] == "update" and line["step"] == at
    )
    update["finish"] = [{"id": 0, "reason": "repetition"}]
    assert caught(records[: place + 1]) == "UPD-70"


def test_an_end_that_is_not_told_is_none() -> None:
    """UPD-70: a trace has no tokens, so nothing says that there was a repetition."""
    records = lines(document(LOOPS))
    place = next(n for n, line in enumerate(records) if line.get("finish"))
    del records[place]["finish"], records[place]["state"]
    assert judged(records[: place + 1]).verdict == "CONFORMS"


@pytest.mark.parametrize("ahead", [False, True])
def test_tokens_behind_a_repetition_are_dropped(ahead: bool) -> None:
    """With drafts: it ends within what they brought, and a token more is caught."""
    drafts = {"num_spec_tokens": 4, "accept": "all", "async_scheduling": ahead}
    records = lines(document(LOOPS, **drafts))
    verdict = judged(records)
    assert verdict.verdict == "CONFORMS", verdict.first or verdict.missing
    update = next(line for line in records if line.get("finish"))
    output = next(line for line in records if line["ev"] == "output" and line["step"] == 2)
    assert (update["step"], update["tokens"], output["counts"]) == (2, [3], [5])


def test_a_chunk_says_whether_its_turn_is_looked_at() -> None:
    """Of a session each turn by itself, by its chunk; outputs of earlier turns do not count."""
    session = ADD | {"id": "a", "resumable": True, "cycle": [0, 1], "max_tokens": 4}
    chunks = [session, session | TWICE, session, {**session, "resumable": False}]
    records = lines(document(*chunks))
    assert judged(records).verdict == "CONFORMS"
    assert [end["reason"] for _, end in ends(records)] == ["length", "repetition", "length"]
    (chunk,) = (line for line in records if line["ev"] == "chunk" and "features" in line)
    del chunk["features"]
    assert caught(records) == "UPD-70"


def test_a_stop_id_is_forgotten_behind_a_repetition() -> None:
    """vLLM reports the stop id of an earlier turn in all later ones, until a repetition is."""
    session = ADD | {"id": "a", "resumable": True, "cycle": [0, 1], "max_tokens": 3}
    by_id = session | {"stop": list(range(1000))}
    chunks = [by_id, session, session | TWICE, session, {**session, "resumable": False}]
    records = lines(document(*chunks))
    told = [(end["reason"], end.get("by_stop_id", False)) for _, end in ends(records)]
    wanted = [("stop", True), ("length", True), ("repetition", False), ("length", False)]
    assert told == wanted
    assert judged(records).verdict == "CONFORMS"
