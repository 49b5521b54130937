"""Recordings of vLLM 0.32.0 that begin in the middle: judged from any state, or refused by name.

The real engine tells its state after every step; the rest of the recording is judged from each.
"""

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from record_again import record_all
from test_check_anywhere import from_there, written_out
from test_check_later import drawn

from nullblock.conformance.checker.check import check
from nullblock.conformance.checker.verdict import Verdict
from nullblock.conformance.trace.records import State

pytestmark = pytest.mark.oracle

DRAWN = ("sessions", "sessions-priority", "sessions-remote", "remote", "items", "sizes", "cross")
EVERY_STEP = "1"
STEP: dict[str, Any] = {"op": "step"}
SESSION = {"resumable": True}
ITEM = {"hash": "m", "offset": 0, "length": 2}
AHEAD = {"async_scheduling": True, "queue_depth": 3}
PACED = {
    **AHEAD,
    **{"use_v2_model_runner": True, "pipeline_parallel_size": 3, "max_num_batched_tokens": 8},
}


def add(r: str, n: int, limit: int = 1, **more: Any) -> dict[str, Any]:
    """A request with a prompt of n tokens of its own."""
    first = 100 * ord(r)
    prompt = {"range": [first, first + n]}
    return {"op": "add", "id": r, "prompt": prompt, "max_tokens": limit, **more}


def scenario(*events: dict[str, Any], **config: Any) -> dict[str, Any]:
    """Small blocks, where nothing else is said."""
    return {"config": {"block_size": 4, **config}, "events": list(events)}


OVER_STEPS = {"async": True}
SCENARIOS: dict[str, dict[str, Any]] = {
    "stale": scenario(
        add("a", 4, 9),
        {**STEP, "n": 2},
        {"op": "reset_prefix_cache", "reset_running": True},
        {**STEP, "n": 3},
        **AHEAD,
    ),
    "put off": scenario(
        add("a", 8, 9),
        {**STEP, "n": 4},
        {"op": "abort", "ids": ["a"]},
        add("b", 8, 2),
        {**STEP, "n": 4},
        **AHEAD,
        connector={"matched": {}},
    ),
    "kept while it is computed": scenario(
        add("a", 8, 20),
        {"op": "schedule"},
        {"op": "schedule"},
        {"op": "schedule"},
        {"op": "schedule"},
        {"op": "abort", "ids": ["a"]},
        add("b", 8, 5),
        {"op": "schedule"},
        {"op": "kv_done", "send": ["a"]},
        {"op": "update"},
        {"op": "schedule"},
        {"op": "drain"},
        **{**AHEAD, "queue_depth": 6},
        connector={"matched": {}, "delay_free": True},
    ),
    "at two places": scenario(
        add("a", 8, 3, mm_features=[ITEM, ITEM | {"offset": 4}]),
        {**STEP, "n": 4},
        max_num_batched_tokens=3,
        encoder={"max_num_encoder_input_tokens": 8, "encoder_cache_size": 8},
    ),
    "room for one that computes its prompt": scenario(
        add("a", 16, 2),
        STEP,
        add("b", 8),
        {**STEP, "n": 7},
        num_blocks=6,
        max_num_batched_tokens=4,
        connector={"matched": {"b": 8}, "async": ["b"]},
    ),
    "room for one that lost its load": scenario(
        add("a", 16),
        STEP,
        {"op": "kv_done", "recv": ["a"], "invalid": [1]},
        STEP,
        {"op": "kv_match", "matched": {"a": None}},
        {**STEP, "n": 2},
        add("b", 8),
        {**STEP, "n": 2},
        num_blocks=6,
        connector={"matched": {"a": 8, "b": 8}, **OVER_STEPS},
    ),
    "more is cached of null blocks": scenario(
        add("a", 20, 2),
        STEP,
        {"op": "kv_done", "recv": ["a"]},
        {**STEP, "n": 3},
        groups=[{"type": "full"}, {"type": "sliding_window", "sliding_window": 5}],
        connector={"matched": {"a": 16}, "all_groups": True, **OVER_STEPS},
    ),
    "an id comes back in flight": scenario(
        add("a", 20, 9),
        {"op": "schedule"},
        {"op": "abort", "ids": ["a"]},
        add("a", 8, 20),
        {"op": "update"},
        *({"op": op} for op in ("schedule", "schedule", "schedule", "update", "schedule")),
        {"op": "reset_prefix_cache", "reset_running": True},
        {**STEP, "n": 9},
        max_num_batched_tokens=8,
        pipeline_parallel_size=3,
        queue_depth=3,
    ),
    "paced by steps in flight": scenario(
        add("a", 8, 9),
        {**STEP, "n": 2},
        add("b", 20, 9),
        {**STEP, "n": 12},
        **PACED,
    ),
    "paced by steps that came back": scenario(
        add("a", 8, 9), {**STEP, "n": 12}, **{**PACED, "queue_depth": 1}
    ),
    "an id comes back": scenario(
        add("a", 8, 9),
        {**STEP, "n": 4},
        {"op": "abort", "ids": ["a"]},
        STEP,
        {"op": "drain"},
        add("a", 8, 9),
        {**STEP, "n": 4},
        {"op": "reset_prefix_cache", "reset_running": True},
        STEP,
        **AHEAD,
    ),
}
"""What a state tells, or leaves out, one by one."""


def verdicts(path: Path) -> dict[int, Verdict]:
    """Of what follows each state of a recording, by its number, that state with it."""
    records = written_out([json.loads(line) for line in path.read_text().splitlines()])
    return {
        record.step: check(Path("t"), stream=io.BytesIO(from_there(records, at)), deep=False)
        for at, record in enumerate(records)
        if isinstance(record, State)
    }


@pytest.fixture(scope="module")
def recorded(oracle_0_32_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with every recording."""
    folder = tmp_path_factory.mktemp("midway")
    every = {name: made for family in DRAWN for name, made in drawn(family).items()}
    record_all(oracle_0_32_python, every | SCENARIOS, folder, EVERY_STEP)
    return folder


@pytest.mark.parametrize("family", DRAWN)
def test_no_state_to_begin_with_leads_to_blame(family: str, recorded: Path) -> None:
    """All that follows conforms, mostly; what a state does not tell is named."""
    found = [v for name in drawn(family) for v in verdicts(recorded / f"{name}.jsonl").values()]
    assert {v.verdict for v in found} <= {"CONFORMS", "INCONCLUSIVE"}, found
    assert sum(v.verdict == "CONFORMS" for v in found) > len(found) // 2


STALE = "whether the stale output of request N will be dropped"
PUT_OFF = "which step in flight the blocks wait for that were given up"
NAMED = {
    "stale": STALE,
    "an id comes back": STALE,
    "an id comes back in flight": "the feature in_flight_of_another of request N",
    "room for one that lost its load": (
        "whether a load leaves room for the rest of request N, where judging began"
    ),
    "paced by steps that came back": "which step may run request N again",
    "put off": PUT_OFF,
    "kept while it is computed": PUT_OFF,
    "at two places": "at which of its places request N refers to item N",
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_a_state_leaves_out_is_named(name: str, recorded: Path) -> None:
    """Where the recording is judged from its beginning, it conforms."""
    path = recorded / f"{name}.jsonl"
    assert check(path).verdict == "CONFORMS"
    found = verdicts(path)
    told = {re.sub(r"\d+", "N", what) for v in found.values() for what in v.missing}
    assert {v.verdict for v in found.values()} <= {"CONFORMS", "INCONCLUSIVE"}, found
    assert told == ({NAMED[name]} if name in NAMED else set())


def test_what_is_assumed_of_a_state_is_known_in_the_end(recorded: Path) -> None:
    """Once a request has computed its prompt no room is left for the rest of it, and a load that
    does not begin then is blamed.
    """
    path = recorded / "room for one that computes its prompt.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    begins = [a for line in lines for a in line.get("answers", ()) if a.pop("begins", False)]
    assert len(begins) == 1 and begins[0].pop("blocks")
    records = written_out(lines)
    at = next(at for at, record in enumerate(records) if isinstance(record, State))
    verdict = check(Path("t"), stream=io.BytesIO(from_there(records, at)), deep=False)
    assert verdict.verdict == "VIOLATION" and verdict.first is not None
    assert verdict.first.rule == "REMOTE-12"
