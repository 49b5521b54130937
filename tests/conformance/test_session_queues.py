"""Sessions that vLLM 0.22.1 has queued twice, and who has ended and is left in a queue."""

from typing import Any

import pytest
from playing_sessions import CHUNK, SESSION, alike

from nullblock.conformance import driver
from nullblock.conformance.adapters import reference
from nullblock.conformance.adapters.spec import create
from nullblock.conformance.compare import first_difference
from nullblock.conformance.scenario import from_dict
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, Semantics

TWICE: dict[str, Any] = {"async_scheduling": True, "max_num_seqs": 1, "block_size": 4}
"""Where the next output of a session that stops is in flight, and one of its entries is left."""
LATE = {**SESSION, "eos": 7, "eos_at": 1}


def both(events: list[dict[str, Any]], semantics: Semantics, **config: Any) -> list[list[str]]:
    """The lines of a scenario, of specification and reference."""
    scenario = from_dict({"config": TWICE | config, "events": events})
    engines = (make(scenario.config, semantics) for make in (create, reference.create))
    return [list(driver.run(scenario, engine)) for engine in engines]


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("more", [{}, {"queue_depth": 3}], ids=["twice", "three times"])
def test_a_session_that_stops_again_stands_there_again(policy: str, more: dict[str, Any]) -> None:
    """SESS-7, in vllm-0.22.1; what ought to be drops that output, and it stands there once."""
    events = [LATE, {"op": "step", "n": 9}, CHUNK, {"op": "counts"}, {"op": "step", "n": 4}]
    for semantics in (VLLM_0_22_1, NORMATIVE):
        ours, theirs = both(events, semantics, policy=policy, max_num_seqs=2, **more)
        assert first_difference(ours, theirs) is None
        twice = any('"skipped_waiting":["s","s"' in line for line in ours)
        assert twice == (semantics == VLLM_0_22_1)
        assert any("EXCEPTION" in line for line in ours) == twice


ENDS: dict[str, list[dict[str, Any]]] = {
    "it is aborted": [{"op": "abort", "ids": ["s"]}, {"op": "counts"}, {"op": "step"}],
    "it is preempted": [{"op": "reset_prefix_cache", "reset_running": True}, {"op": "step"}],
    "it is preempted and aborted": [
        {"op": "reset_prefix_cache", "reset_running": True},
        *({"op": "abort", "ids": ["s"]}, {"op": "counts"}, {"op": "step"}),
    ],
    "it ends": [{**SESSION, "resumable": False}, {"op": "step", "n": 9}],
    "it goes on": [{"op": "step", "n": 12}, {"op": "counts"}],
}


@pytest.mark.parametrize("what", ENDS)
def test_what_becomes_of_a_session_that_runs_and_is_queued(what: str) -> None:
    """As the reference has it, the entry that is left in the skipped queue included."""
    again = {**CHUNK, "eos": 7, "eos_at": 3, "max_tokens": 9}
    events = [LATE, {"op": "step", "n": 6}, again, {"op": "step", "n": 2}, *ENDS[what]]
    ours, theirs = both(events, VLLM_0_22_1)
    assert any('"running":["s"],"skipped_waiting":["s"]' in line for line in ours)
    assert first_difference(ours, theirs) is None


RESET = {"op": "reset_prefix_cache", "reset_running": True}
RUNS_AND_WAITS = [LATE, {"op": "step", "n": 6}, CHUNK, {"op": "step", "n": 2}, RESET]
RUNS_AND_WAITS += [{"op": "step"}, {"op": "add", "id": "t", "prompt": [1], "max_tokens": 1}]
"""It is preempted while it stands in the skipped queue, and enters by its place there."""
STOPS = {"op": "step", "n": 8}
LATER = {**CHUNK, "arrival": 50}
BEHIND: dict[str, tuple[list[dict[str, Any]], list[str], list[str]]] = {
    "it runs": ([{"op": "step"}], ["s", "t"], []),
    "it stops": ([STOPS], ["s", "t"], ["s"]),
    "it stops, and takes a chunk": ([STOPS, LATER], ["s", "t"], ["s"]),
    "it stops with a chunk": ([LATER, STOPS], ["s", "t", "s"], []),
    "it is preempted": ([RESET], ["s", "s", "t"], []),
    "it is preempted, and enters": ([RESET, {"op": "step"}], ["s", "t"], []),
    "it is aborted": ([RESET, {"op": "abort", "ids": ["s"]}], ["t"], []),
}


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("what", BEHIND)
def test_what_becomes_of_a_session_that_runs_and_waits(what: str, policy: str) -> None:
    """SESS-6, PREEMPT-4: it keeps the place that it has in the waiting queue; under PRIORITY a
    heap does not learn of the chunk that moves it past another, and finds both as they stand.
    """
    events, waiting, skipped = BEHIND[what]
    lines = alike(TWICE | {"policy": policy}, [*RUNS_AND_WAITS, *events, {"op": "counts"}])
    last = next(line["state"] for line in reversed(lines) if "state" in line)
    assert sorted(last["waiting"]) == sorted(waiting) and last["skipped_waiting"] == skipped
    assert last["waiting"] == waiting or policy == "priority"


PASSES: dict[str, list[dict[str, Any]]] = {"in both": [], "twice in one": [{"op": "step"}, RESET]}


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("where", PASSES)
def test_a_session_is_passed_over_at_each_of_its_places(where: str, policy: str) -> None:
    """WAIT-55: preempted while it is queued, it is passed over for want of a place for its
    adapter, and stands in the skipped queue twice.
    """
    first = {**LATE, "lora": "A", "lora_id": 1, "arrival": 1}
    other = {"op": "add", "id": "t", "prompt": [1], "max_tokens": 9, "lora": "B", "lora_id": 2}
    other |= {"grammar": {"ready": False}, "arrival": 0}
    seated = {"op": "add", "id": "u", "prompt": [2], "max_tokens": 99, "arrival": 0}
    events = [seated, other, first, {"op": "step", "n": 6}, {**CHUNK, "arrival": 1}]
    events += [{"op": "step", "n": 2}, RESET, *PASSES[where], {"op": "abort", "ids": ["u"]}]
    events += [{"op": "grammar_ready", "ids": ["t"]}, {"op": "step"}]
    lines = alike(TWICE | {"max_loras": 1, "policy": policy, "max_num_seqs": 2}, events)
    last = next(line["state"] for line in reversed(lines) if "state" in line)
    assert (last["running"], last["waiting"], last["skipped_waiting"]) == (["t"], [], ["s", "s"])


def test_under_priority_a_session_that_has_ended_waits_where_its_last_chunk_put_it() -> None:
    """UPD-6, SESS-17: so whoever comes before that chunk enters first."""
    end = {**SESSION, "resumable": False}
    other = {"op": "add", "id": "t", "prompt": [1], "max_tokens": 9, "arrival": 25}
    events = [LATE, {"op": "step", "n": 6}, LATER, {"op": "step", "n": 2}, RESET, {"op": "step"}]
    events += [end, {"op": "step", "n": 8}, other, {"op": "step"}]
    lines = alike(TWICE | {"policy": "priority"}, events)
    last = next(line["state"] for line in reversed(lines) if "state" in line)
    assert (last["running"], last["waiting"], list(last["requests"])) == (["t"], ["s"], ["t"])


GRAMMAR: dict[str, Any] = {"ready": True}
PROMPT = [*range(1000, 1004), 2, 2]
LOSES: list[dict[str, Any]] = [
    {**SESSION, "id": "Z0", "prompt": PROMPT, "max_tokens": 4, "grammar": GRAMMAR},
    {"op": "add", "id": "\u00e92", "prompt": [1000], "max_tokens": 4, "grammar": GRAMMAR},
    {"op": "add", "id": "b3", "prompt": [1000], "max_tokens": 1, "grammar": GRAMMAR},
    {
        **{**SESSION, "id": "h5", "prompt": [*PROMPT, 1, 1, 0, 3, 3], "max_tokens": 2},
        "grammar": {**GRAMMAR, "reject_at": 0, "after": 2},
    },
    {"op": "step", "n": 11},
]
"""A session ends by its grammar, by an output that came late, while it stands in the queue of
those who wait apart.
"""


def has_raised(lines: list[dict[str, Any]]) -> bool:
    """Whether an exception ended a scenario."""
    return any(line["ev"] == "EXCEPTION" for line in lines)


def test_a_session_that_ended_where_it_waits_may_lack_blocks() -> None:
    """How many of its tokens were computed decides: whoever is behind waits for good."""
    config = {"block_size": 3, "num_blocks": 6, "vocab": 2}
    config |= {"async_scheduling": True, "queue_depth": 3}
    lines = alike(config, LOSES)
    assert "h5" in lines[-2]["state"]["skipped_waiting"] and not has_raised(lines)


STAYS: list[dict[str, Any]] = [
    {
        **{**SESSION, "id": "a", "prompt": {"range": [0, 3]}, "max_tokens": 6},
        "grammar": {"ready": True, "reject_at": 6},
    },
    {"op": "add", "id": "b", "prompt": [3, 1, 0, 2, 1], "max_tokens": 5},
    {"op": "run"},
]
"""The same, with four steps in flight; and the other one has left it no block."""


def test_a_session_that_ended_where_it_waits_may_have_to_stay() -> None:
    """With nothing to compute: vLLM 0.22.1 raises before it asks for room."""
    config: dict[str, Any] = {"block_size": 2, "num_blocks": 9, "max_num_batched_tokens": 1}
    config |= {"async_scheduling": True, "queue_depth": 4}
    assert has_raised(alike(config, STAYS))


BY_EOS = {"eos": 1, "eos_at": 2}
BEGINS: list[dict[str, Any]] = [
    {"op": "add", "id": "a", "prompt": [1000], "max_tokens": 1},
    {**SESSION, "id": "b", "prompt": {"range": [1000, 1009]}, "max_tokens": 4, **BY_EOS},
    {"op": "step"},
    {"op": "kv_match", "matched": {"b": 99}},
    {"op": "step", "n": 4},
    {**SESSION, "id": "b", "prompt": [0], "max_tokens": 1},
    {"op": "step", "n": 3},
    {"op": "drain"},
    {"op": "kv_done", "invalid": [2]},
    {"op": "step", "n": 3},
]
"""Of a session that is queued while it runs blocks were not loaded: it ends, and is kept."""


def test_a_session_that_ended_where_it_waits_may_begin_a_load() -> None:
    """As nothing of it is computed then: vLLM 0.22.1 loads it again, and so it lives again."""
    connector = {"matched": {"a": 4, "b": 0}, "async": True, "delay_free": True}
    config: dict[str, Any] = {"max_num_seqs": 1, "async_scheduling": True}
    config["connector"] = connector | {"failure_policy": "fail"}
    lines = alike(config, BEGINS)
    states = (line.get("state") for line in lines)
    told = [s["requests"]["b"]["status"] for s in states if s and "b" in s["requests"]]
    assert told[told.index("FINISHED_ERROR") + 1] == "WAITING_FOR_REMOTE_KVS"
    assert not has_raised(lines)


def test_that_such_a_load_has_ended_cannot_be_reported() -> None:
    """Where nothing of it is kept: the engine does not know it, and raises."""
    connector = {"matched": {"a": 4, "b": 0}, "async": True, "failure_policy": "fail"}
    config = {"max_num_seqs": 1, "async_scheduling": True, "connector": connector}
    lines = alike(config, [*BEGINS[:-1], {"op": "step"}])
    assert lines[-2]["state"]["skipped_waiting"] == ["a", "b"]
    reported = [{"op": "kv_done", "recv": ["b"]}, {"op": "step"}]
    assert has_raised(alike(config, [*BEGINS, *reported])) and not has_raised(lines)


PREEMPTED: list[dict[str, Any]] = [
    {**SESSION, "id": "a", "prompt": [0], "max_tokens": 2},
    {"op": "step", "n": 4},
    {"op": "drain"},
    {**SESSION, "id": "a", "prompt": {"range": [5000, 5004]}, "max_tokens": 1},
    {"op": "step", "n": 5},
]
"""A session that is queued while it runs is preempted, enters, and stops in both queues."""


def test_a_session_that_stops_while_it_runs_and_stands_in_both_queues_stays_in_both() -> None:
    """SESS-6, in vllm-0.22.1."""
    config = {"block_size": 2, "num_blocks": 6, "max_num_seqs": 1}
    config |= {"async_scheduling": True, "queue_depth": 4}
    last = alike(config, PREEMPTED)[-2]["state"]
    assert last["waiting"] == ["a"] and "a" in last["skipped_waiting"]


ONE_AT_A_TIME: dict[str, Any] = {"max_num_seqs": 1, "policy": "priority"}
ONE_AT_A_TIME |= {"async_scheduling": True, "queue_depth": 3}


def test_under_priority_one_that_runs_and_is_queued_stays_where_it_stands() -> None:
    """It stops with a chunk, and joins the waiting queue: in the skipped one, which is a heap, it
    stands once.
    """
    chunk = {**SESSION, "id": "a", "prompt": [1000], "max_tokens": 1}
    events = [{**chunk, "max_tokens": 2}, {"op": "step", "n": 3}, {"op": "drain"}]
    events += [chunk, {"op": "schedule"}, chunk, {"op": "schedule"}, {"op": "drain"}]
    last = alike(ONE_AT_A_TIME, events)[-2]["state"]
    assert last["waiting"] == last["skipped_waiting"] == ["a"]


def test_under_priority_one_in_both_queues_leaves_the_one_that_is_served() -> None:
    """A chunk puts it before the head of the skipped queue, which a heap does not learn of: so its
    turn comes in the waiting queue, and it stays in the skipped one.
    """
    first = {**SESSION, "id": "a", "prompt": [2], "max_tokens": 2}
    chunk = {**first, "max_tokens": 1}
    other = {**SESSION, "id": "b", "prompt": [1], "max_tokens": 1}
    events = [first, other, {"op": "step", "n": 5}, {"op": "drain"}, {**chunk, "prompt": [1]}]
    events += [{"op": "schedule"}, {**chunk, "arrival": 0}, {"op": "schedule"}, {"op": "drain"}]
    lines = alike(ONE_AT_A_TIME, [*events, {"op": "schedule"}])
    before, after = (line["state"] for line in lines[-3:-1])
    assert before["waiting"] == ["a"] and set(before["skipped_waiting"]) == {"a", "b"}
    assert (after["running"], after["waiting"]) == (["a"], [])
    assert set(after["skipped_waiting"]) == {"a", "b"}


def test_a_session_that_is_preempted_while_it_waits_stands_there_twice() -> None:
    """PREEMPT-4, in vllm-0.22.1: it has a place at the front of the queue, and the one behind."""
    first, steps, drain, chunk, _ = PREEMPTED
    chunk = {**chunk, "prompt": {"range": [5000, 5003]}}
    events = [first, {**steps, "n": 5}, drain, chunk, {**steps, "n": 5}]
    config = {"block_size": 1, "num_blocks": 5, "max_num_seqs": 1}
    config |= {"async_scheduling": True, "queue_depth": 5}
    states = [line["state"] for line in alike(config, events) if "state" in line]
    assert any(state["waiting"] == ["a", "a"] for state in states)


FORGOTTEN: list[dict[str, Any]] = [
    {"op": "add", "id": "a", "prompt": {"range": [1000, 1004]}, "max_tokens": 4},
    {"op": "add", "id": "b", "prompt": [0, 1, 0, 1], "max_tokens": 3, "stop": [3, 0, 1]},
    {"op": "step"},
    {"op": "kv_match", "matched": {"b": None}},
    {"op": "step"},
    {"op": "kv_done", "send": ["b"]},
    {"op": "step", "n": 2},
]
"""A request ends where it waits apart, and its blocks are sent: the engine knows it no more."""


def test_of_whom_nobody_knows_several_groups_agree_on_a_prefix() -> None:
    """It still stands where it waited, and is tried."""
    groups = [{"type": "full"}, {"type": "sink", "sink_len": 2}]
    connector = {"matched": {"a": 5, "b": 4}, "delay_free": True, "all_groups": True}
    config: dict[str, Any] = {"block_size": 2, "num_blocks": 13, "vocab": 2, "groups": groups}
    config |= {"async_scheduling": True, "queue_depth": 3}
    config["connector"] = connector | {"failure_policy": "fail"}
    lines = alike(config, FORGOTTEN)
    assert lines[-2]["state"]["skipped_waiting"] == ["b"] and not has_raised(lines)
