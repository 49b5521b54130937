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
from record_again import record_all
from traces import trace_of
from violations import drafted

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
    record_all(oracle_python, {"drafted": SCENARIO}, folder, "1")
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
    assert (verdict.verdict, verdict.first.rule) == ("VIOLATION", "RUN-29")


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
    lines = midway()["ahead-fcfs"]
    state = next(line for line in lines if line["ev"] == "state")
    state["requests"][0]["drafts"] = 2
    verdict = judge(lines)
    assert verdict.verdict == "INCONCLUSIVE" and WORDS in verdict.missing[0]


def without(*names: str) -> Lines:
    """A recording of the real engine with an EAGLE-like method, without some of its constants. In
    its first step a hit lacks its last block, before anything is drafted.
    """
    lines = drafted()
    assert lines[0]["config"]["spec_method"] == "eagle"
    lines[0].pop("config_sha256", None)
    for name in names:
        del lines[0]["config"][name]
    return lines


EVERYTHING = ("num_spec_tokens", "spec_method")


def test_a_hidden_method_is_named() -> None:
    """A header that says nothing of drafts, or nothing of their method, is at fault and not the
    engine: INCONCLUSIVE, and the missing constant is named.
    """
    for names, words in ((EVERYTHING, WORDS), (("spec_method",), "`spec_method` is 'ngram'")):
        verdict = judge(without(*names))
        assert (verdict.verdict, verdict.first) == ("INCONCLUSIVE", None)
        (missing,) = verdict.missing
        assert words in missing and "the hit of request 2 lacks its last block" in missing


def test_a_hit_that_is_lost_where_nothing_drafts_is_a_violation() -> None:
    """The rest of the trace tells of no drafts: nothing is hidden, and the engine lost the block.
    What is damaged behind it changes nothing.
    """
    lines = without(*EVERYTHING)
    lines[0]["sealed"] = False
    at = next(i for i, x in enumerate(lines) if 2 in (new["id"] for new in x.get("new", ())))
    for rest in ([], [{"ev": "update", "step": 77, "ids": [], "tokens": []}]):
        verdict = judge([*lines[: at + 1], *rest])
        assert verdict.first is not None
        assert (verdict.verdict, verdict.first.rule) == ("VIOLATION", "HASH-11")
        assert verdict.first.line == at + 1


HITS: dict[str, Any] = {
    "config": {"block_size": 4, "num_blocks": 40, "num_spec_tokens": 2},
    "events": [
        event
        for id in ("a", "b", "c")
        for event in (
            {"op": "add", "id": id, "prompt": {"range": [0, 13]}, "max_tokens": 9},
            {"op": "step", "n": 2},
        )
    ],
}
"""Drafts of an n-gram method, and two hits of three blocks."""


@pytest.mark.parametrize(
    ("which", "less", "said"),
    [(0, 4, "INCONCLUSIVE"), (0, 8, "VIOLATION"), (1, 4, "VIOLATION")],
    ids=["the last block", "a longer loss", "a later loss"],
)
def test_a_later_or_a_longer_loss_is_a_violation(which: int, less: int, said: str) -> None:
    """Once a whole hit was explained, the method is none that computes the last block again; and
    none computes two again.
    """
    lines = [json.loads(line) for line in trace_of(HITS, "spec").splitlines()]
    lines[0]["sealed"] = False
    lines[0].pop("config_sha256")
    hits = [
        (at, new)
        for at, line in enumerate(lines)
        for new in line.get("new", ())
        if new["computed"] == 12
    ]
    assert len(hits) == 2
    at, new = hits[which]
    new["computed"] -= less
    verdict = judge(lines[: at + 1])
    assert verdict.verdict == said, verdict
    assert said != "VIOLATION" or (verdict.first and verdict.first.rule) == "HASH-11"
