"""Spec and reference agree on what ought to be, in scenarios that once told them apart."""

import json
from typing import Any

import pytest
from fuzz import lockstep
from fuzz.families import FAMILIES
from fuzz.waits import Waits

from nullblock.conformance.engine import ALL_FEATURES
from nullblock.conformance.errors import InputError
from nullblock.spec.fields import RUNNING, WAITING
from nullblock.spec.machine import remote
from nullblock.spec.profiles import NORMATIVE

STEP = {"op": "step"}


def parted(document: dict[str, Any]) -> str:
    """Where spec and reference part by the normative rules."""
    spec, reference = (lockstep.lines_of(e, document, NORMATIVE) for e in lockstep.ENGINES)
    assert not any('"EXCEPTION"' in line for line in spec)
    return lockstep.difference(spec, reference, bytewise=False)


def test_what_a_load_writes_to_is_kept_where_an_output_ends_its_request() -> None:
    """REMOTE-4: one that was preempted with its output in flight is being loaded again when that
    output comes, and is its last.
    """
    document = {
        "config": {
            **{"block_size": 2, "num_blocks": 9, "policy": "priority", "vocab": 1},
            **{"async_scheduling": True, "queue_depth": 4, "max_loras": 1},
            "connector": {"matched": {"Z0": 1}, "async": True, "delay_free": True},
        },
        "events": [
            {"op": "add", "id": "Z0", "prompt": [1, 1, 1], "max_tokens": 3, "eos": 0},
            {"op": "add", "id": "b1", "prompt": [1], "max_tokens": 3, "priority": -1, "lora": "B"},
            {"op": "add", "id": "f2", "prompt": [0, 1, 1, 0], "max_tokens": 4, "priority": -2,
             "lora": "C"},
            *[STEP] * 2,
            {"op": "kv_done", "recv": ["Z0"]},
            STEP,
            {"op": "kv_match", "matched": {"Z0": 16}},
            STEP,
            {"op": "drain"},
            {"op": "kv_done", "recv": ["Z0"]},
            *[STEP] * 4,
        ],
    }  # fmt: skip
    assert not parted(document)


def test_an_output_that_a_reset_has_dropped_is_owed_no_more_where_its_blocks_fail() -> None:
    """UPD-17: the reset counts it out, so that the report of a load that failed must not again."""
    document = {
        "config": {
            "async_scheduling": True,
            "connector": {"matched": {}, "async": True, "delay_free": True,
                          "failure_policy": "fail"},
        },
        "events": [
            {"op": "add", "id": "e2", "prompt": [1], "max_tokens": 1},
            {"op": "schedule"},
            {"op": "kv_done", "invalid": [2]},
            {"op": "reset_prefix_cache", "reset_running": True},
            STEP,
        ],
    }  # fmt: skip
    assert not parted(document)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("lost", [1, 2, 3])
@pytest.mark.parametrize("resets", [0, 1])
@pytest.mark.parametrize("budget", [2, 64])
def test_a_vector_made_of_what_was_not_loaded_is_made_again(
    asynchronous: bool, lost: int, resets: int, budget: int
) -> None:
    """REMOTE-28, UPD-51: the step that it comes of tells of none; one that was in flight when a
    reset preempted its request is taken, and ends it.
    """
    document = {
        "config": {
            "block_size": 1,
            "async_scheduling": asynchronous,
            "queue_depth": 3,
            "num_blocks": 4,
            "max_num_batched_tokens": budget,
            "connector": {"matched": {"a": 99}, "async": False},
        },
        "events": [
            {"op": "add", "id": "a", "prompt": [2, 1, 5], "max_tokens": 1, "pooling": True},
            {"op": "schedule"},
            *[{"op": "reset_prefix_cache", "reset_running": True}, {"op": "schedule"}] * resets,
            {"op": "kv_done", "invalid": [lost]},
            {"op": "update"},
            *[STEP] * 4,
        ],
    }
    assert not parted(document)
    lines = map(json.loads, lockstep.lines_of("spec", document, NORMATIVE))
    told = [len(line["outputs"]) for line in lines if line["ev"] == "update"]
    assert sum(told) == 1
    if not resets:
        assert told[0] == 0
    elif asynchronous:
        assert told[0] == 1


def test_a_step_without_a_token_owes_none_where_its_blocks_fail() -> None:
    """UPD-17: it is not owed that output any more, though none came."""
    document = {
        "config": {
            **{"async_scheduling": True, "num_spec_tokens": 1, "accept": [None]},
            "connector": {"matched": {}, "async": True, "delay_free": True,
                          "failure_policy": "fail"},
        },
        "events": [
            {"op": "add", "id": "e2", "prompt": [0], "max_tokens": 2},
            *[STEP] * 2,
            {"op": "kv_done", "invalid": [1]},
            STEP,
        ],
    }  # fmt: skip
    assert not parted(document)


def test_of_who_lacks_the_first_block_of_a_group_it_stays_noted_how_many_are_cached() -> None:
    """REMOTE-35: none, of each of its tables."""
    document = {
        "config": {
            "block_size": 1,
            "groups": [{"type": "full"}, {"type": "sliding_window", "sliding_window": 1}],
            "connector": {"matched": {}, "delay_free": True, "failure_policy": "fail",
                          "all_groups": True},
        },
        "events": [
            {"op": "add", "id": "b2", "prompt": [3], "max_tokens": 2},
            STEP,
            {"op": "kv_done", "invalid": [1]},
            STEP,
        ],
    }  # fmt: skip
    assert not parted(document)
    lines = map(json.loads, lockstep.lines_of("spec", document, NORMATIVE))
    last = [line["state"] for line in lines if line["ev"] == "update"][-1]
    assert last["requests"]["b2"]["num_cached_block"] == [0, 0]


@pytest.mark.parametrize("family", ["remote", "models-waits"])
def test_blocks_of_several_groups_that_were_not_loaded(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """REMOTE-23 to REMOTE-28: which vLLM takes no report of. Some who lack them run, some wait for
    their load, some have ended, under both policies.
    """
    found, find = set(), remote.find

    def noted(s: Any, r: Any) -> None:
        find(s, r)
        found.add((s.stage[r], s.k.fails_loads))

    monkeypatch.setattr(remote, "find", noted)
    monkeypatch.setattr(Waits, "lossy_groups", 60)
    played = 0
    for seed in range(160):
        document = FAMILIES[family].make(f"lossy:{seed}", 30, ALL_FEATURES)
        if len(document["config"].get("groups", ())) < 2:
            continue
        try:
            spec = lockstep.lines_of("spec", document, NORMATIVE)
        except InputError:
            continue
        played += 1
        reference = lockstep.lines_of("reference", document, NORMATIVE)
        assert not lockstep.difference(spec, reference, bytewise=False)
    assert played > 20
    assert {(stage, ends) for stage in (WAITING, RUNNING) for ends in (False, True)} <= found
