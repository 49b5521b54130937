"""What a later line does beside a KV connector: REMOTE-40 to REMOTE-44, PREEMPT-8, WAIT-60."""

import json
from dataclasses import replace
from typing import Any

import pytest

from nullblock.conformance.adapters.spec import create
from nullblock.conformance.driver import run
from nullblock.conformance.lines.example import VECTORS
from nullblock.conformance.scenario import from_dict
from nullblock.spec.profiles import VLLM_0_32_0, Semantics

Scenario = dict[str, Any]


def recorded(name: str) -> Scenario:
    """A golden scenario."""
    document: Scenario = json.loads((VECTORS / f"{name}.json").read_text())
    return document


def played(document: Scenario, semantics: Semantics = VLLM_0_32_0) -> list[dict[str, Any]]:
    """The lines of a scenario that tell a state."""
    taken = from_dict(document)
    lines = map(json.loads, run(taken, create(taken.config, semantics)))
    return [line for line in lines if line.get("state")]


def without(switch: str) -> Semantics:
    """The line, but for one switch."""
    return replace(VLLM_0_32_0, **{switch: False})


@pytest.mark.parametrize(
    ("semantics", "waits"),
    [(VLLM_0_32_0, ["b"]), (without("loads_leave_room"), [])],
    ids=["with", "without"],
)
def test_a_load_leaves_room_for_a_prompt(semantics: Semantics, waits: list[str]) -> None:
    """REMOTE-40: six blocks are free, of which a prompt still lacks four."""
    first = played(recorded("load-finds-no-room-beside-a-prompt"), semantics)[0]
    assert first["state"]["waiting"] == waits
    assert first["state"]["skipped_waiting"] == (["b"] if not waits else [])


@pytest.mark.parametrize("matched", [8, None])
def test_for_whoever_reads_nothing_nothing_is_loaded(matched: int | None) -> None:
    """REMOTE-41: whether the remote side holds it or does not know yet."""
    document = recorded("nothing-is-loaded-for-who-reads-nothing")
    document["config"]["connector"]["matched"] = {"a": matched}
    (new,) = played(document)[0]["new"]
    assert new["computed"] == 0


@pytest.mark.parametrize(
    ("role", "free"), [("kv_both", 0), ("kv_consumer", 0), ("kv_producer", 3)]
)
def test_blocks_that_a_step_writes_are_not_free(role: str, free: int) -> None:
    """REMOTE-42 to REMOTE-44: of a request that is aborted with two steps in flight they are when
    both have come back, where the connector loads.
    """
    document = recorded("freed-while-a-step-computes")
    document["config"] |= {"num_blocks": 4}
    document["config"]["connector"]["kv_role"] = role
    document["events"] = [*document["events"][:4], {"op": "update"}, {"op": "update"}]
    assert [line["state"]["num_free"] for line in played(document)[2:]] == [free, free, 3]


def test_nobody_is_preempted_whose_blocks_would_not_be_free() -> None:
    """PREEMPT-8: whoever asks gets nothing in this step; otherwise the last is preempted."""
    document = recorded("nobody-is-preempted-in-flight")
    second, other = (
        [step for step in played(document, line) if step["ev"] == "schedule"][1]
        for line in (VLLM_0_32_0, without("freed_blocks_await_steps"))
    )
    assert not second["preempted"] and other["preempted"] == ["b"]


def test_who_lost_all_that_was_loaded_waits_before_the_others() -> None:
    """WAIT-60: it leaves those who wait with blocks when it has none and is passed over."""
    connector = {"matched": {"a": 8, "c": None}, "async": True}
    document: Scenario = {
        "config": {"block_size": 4, "num_blocks": 9, "max_num_seqs": 2, "connector": connector},
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 8]}, "max_tokens": 1},
            {"op": "step"},
            {"op": "add", "id": "b", "prompt": {"range": [20, 28]}, "max_tokens": 9},
            {"op": "kv_done", "recv": ["a"], "invalid": [1, 2]},
            {"op": "kv_match", "matched": {"a": None}},
            {"op": "add", "id": "c", "prompt": {"range": [40, 48]}, "max_tokens": 1},
            {"op": "step", "n": 3},
        ],
    }
    last = played(document)[-1]["state"]
    assert last["running"] == ["b"] and last["waiting"] == ["a", "c"]
    assert not last["skipped_waiting"]


def test_a_vector_that_has_come_is_in_flight_no_longer() -> None:
    """REMOTE-52: of eighteen tokens a window of five lets three blocks go, before the others."""
    document: Scenario = {
        "config": {
            "block_size": 4,
            "connector": {"matched": {}, "async": True, "all_groups": True},
            "groups": [{"type": "sliding_window", "sliding_window": 5}],
        },
        "events": [
            {"op": "add", "id": "a", "prompt": {"range": [0, 18]}, "pooling": True},
            {"op": "step"},
        ],
    }
    assert played(document)[-1]["state"]["free_queue"][-5:] == [63, 3, 2, 1, 4]
