"""Scenarios with sessions: what the specification plays, and what it refuses by name."""

import json
from typing import Any

import pytest

from nullblock.conformance import driver
from nullblock.conformance.adapters import reference
from nullblock.conformance.adapters.spec import create
from nullblock.conformance.adapters.spec_sessions import minding_queued
from nullblock.conformance.compare import first_difference
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.scenario import from_dict
from nullblock.spec.machine.events import reset_prefix_cache
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, Semantics

SESSION: dict[str, Any] = {
    "op": "add",
    "id": "s",
    "prompt": {"range": [0, 6]},
    "max_tokens": 9,
    "resumable": True,
}


def play(semantics: Semantics, *events: dict[str, Any], **config: Any) -> list[str]:
    """The lines of a scenario that begins with a session."""
    document = {"config": {"block_size": 4, **config}, "events": [SESSION, *events]}
    scenario = from_dict(document)
    return list(driver.run(scenario, create(scenario.config, semantics), dump="none"))


def alike(
    config: dict[str, Any], events: list[dict[str, Any]], semantics: Semantics = VLLM_0_22_1
) -> list[dict[str, Any]]:
    """The lines of a scenario, which specification and reference print alike."""
    scenario = from_dict({"config": config, "events": events})
    engines = [make(scenario.config, semantics) for make in (create, reference.create)]
    ours, theirs = (list(driver.run(scenario, engine)) for engine in engines)
    assert first_difference(ours, theirs) is None
    return [json.loads(line) for line in ours]


@pytest.mark.parametrize("arrival", [3, 0])
@pytest.mark.parametrize("semantics", [VLLM_0_22_1, NORMATIVE], ids=["vllm-0.22.1", "normative"])
def test_a_chunk_brings_its_arrival(arrival: float, semantics: Semantics) -> None:
    """Under PRIORITY a session that waits for a chunk takes its arrival, whether that moves it
    past another session there or not: vLLM leaves the heap as it was, and normative reorders it.
    """
    early = {**SESSION, "id": "early", "max_tokens": 1, "arrival": 1}
    events = [{**SESSION, "max_tokens": 1, "arrival": 2}, early, {"op": "step", "n": 3}]
    chunks = [{**SESSION, "arrival": arrival}, {**early, "arrival": 2}]
    config = {"block_size": 4, "policy": "priority", "max_num_seqs": 1}
    lines = alike(config, [*events, *chunks, {"op": "run"}], semantics)
    orders = [line["order"] for line in lines if line["ev"] == "schedule"]
    assert orders[:3] == [["early"], ["s"], []]
    assert orders[3] == (["s"] if arrival == 0 and semantics is NORMATIVE else ["early"])


BESIDE: dict[str, dict[str, Any]] = {
    "the second model runner": {"use_v2_model_runner": True, "async_scheduling": True},
    "encoder inputs": {"encoder": {"encoder_cache_size": 8}},
    "a window": {"groups": [{"type": "sliding_window", "sliding_window": 4}]},
    "groups": {"groups": [{"type": "full"}, {"type": "sliding_window", "sliding_window": 4}]},
}
ITEM = {"hash": "x", "offset": 1, "length": 2}
CHUNK = {**SESSION, "prompt": {"range": [50, 59]}}


@pytest.mark.parametrize("what", BESIDE)
def test_sessions_are_played_beside(what: str) -> None:
    """As the reference has them: the first chunk has items where there is an encoder."""
    items = {"mm_features": [ITEM]} if what == "encoder inputs" else {}
    lines = alike({"block_size": 4, **BESIDE[what]}, [SESSION | items, CHUNK, {"op": "run"}])
    assert sum(bool(line.get("new")) for line in lines) > 1, "no chunk continues"


@pytest.mark.parametrize("semantics", [VLLM_0_22_1, NORMATIVE], ids=["vllm-0.22.1", "normative"])
def test_items_of_a_later_chunk_stand_behind_what_its_session_keeps(semantics: Semantics) -> None:
    """As the reference has them: the chunk's item is its session's second, and is computed."""
    first, later = {"mm_features": [ITEM]}, {"mm_features": [{**ITEM, "hash": "y"}]}
    events = [{**SESSION, **first, "max_tokens": 2}, CHUNK | later, {"op": "run"}]
    document = {"config": {"block_size": 4, **BESIDE["encoder inputs"]}, "events": events}
    scenario = from_dict(document)
    ours, theirs = (
        list(driver.run(scenario, make(scenario.config, semantics)))
        for make in (create, reference.create)
    )
    assert sum('"scheduled_encoder_inputs":{"s":[1]}' in line for line in ours) == 1
    assert first_difference(ours, theirs) is None


@pytest.mark.parametrize(
    ("semantics", "items", "why"),
    [
        (NORMATIVE, [{**ITEM, "hash": str(n), "offset": n, "length": 1} for n in range(8)], "8"),
        (NORMATIVE, [{**ITEM, "hash": "y", "length": 8}], "never be computed"),
    ],
)
def test_items_that_a_session_cannot_have_are_refused(
    semantics: Semantics, items: list[dict[str, Any]], why: str
) -> None:
    """In normative: more than eight with those before, and one that no step can compute, which the
    reference lets wait for ever.
    """
    document = {"encoder": {"encoder_cache_size": 4, "max_num_encoder_input_tokens": 4}}
    first = {**SESSION, "mm_features": [ITEM], "id": "t", "max_tokens": 1}
    with pytest.raises(OutOfScope, match=why):
        play(
            semantics,
            first,
            {"op": "step", "n": 2},
            {**CHUNK, "id": "t", "mm_features": items},
            **document,
        )


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


def test_a_session_that_may_be_passed_over_in_both_queues_is_refused() -> None:
    """Where it would stand in each of them is not written down."""
    reset = {"op": "reset_prefix_cache", "reset_running": True}
    events = [LATE, {"op": "step", "n": 6}, CHUNK, {"op": "step", "n": 2}, reset]
    with pytest.raises(OutOfScope, match="the session 's' is preempted while it is queued"):
        both(events, VLLM_0_22_1, max_loras=1)


def test_what_is_raised_is_not_hidden_by_that_refusal() -> None:
    """It is looked for only where a decision has come to its end."""
    reached = [LATE, {"op": "step", "n": 6}, CHUNK, {"op": "step", "n": 2}]
    scenario = from_dict({"config": {**TWICE, "max_loras": 1}, "events": reached})
    engine: Any = create(scenario.config, VLLM_0_22_1)
    list(driver.run(scenario, engine))

    with pytest.raises(ZeroDivisionError), minding_queued(engine.s):
        reset_prefix_cache(engine.s, reset_running=True)
        raise ZeroDivisionError


def test_an_empty_chunk_beside_items_raises_when_its_session_is_to_go_on() -> None:
    """ENC-5: as in vLLM nothing is planned for no token, and nobody enters for it."""
    first = {**SESSION, "mm_features": [ITEM], "id": "t", "max_tokens": 1}
    empty = {**SESSION, "id": "t", "prompt": []}
    events = (first, {"op": "step", "n": 2}, empty, {"op": "run"})
    lines = play(VLLM_0_22_1, *events, **BESIDE["encoder inputs"])
    assert any('"ev":"EXCEPTION"' in line for line in lines)


LOADS = {"connector": {"matched": {"s": 5}, "async": True, "delay_free": True}}
NO_LOADS = {"matched": {"x": 1}}


@pytest.mark.parametrize("semantics", [VLLM_0_22_1, NORMATIVE], ids=["vllm-0.22.1", "normative"])
def test_sessions_are_played_beside_a_connector(semantics: Semantics) -> None:
    """As the reference has them: the first prompt is loaded, a turn ends and the next begins; at
    the end of the session its blocks are kept, and a chunk that comes then is nobody's.
    """
    events = [{**SESSION, "max_tokens": 1}, {"op": "step"}, {"op": "kv_done", "recv": ["s"]}]
    events += [{"op": "step", "n": 3}, CHUNK, {"op": "step", "n": 9}, CHUNK | {"resumable": False}]
    events += [{"op": "step"}, CHUNK, {"op": "step"}, {"op": "kv_done", "send": ["s"]}]
    events += [{"op": "step"}]
    scenario = from_dict({"config": {"block_size": 4, **LOADS}, "events": events})
    ours, theirs = (
        list(driver.run(scenario, make(scenario.config, semantics)))
        for make in (create, reference.create)
    )
    for status in ("WAITING_FOR_REMOTE_KVS", "WAITING_FOR_STREAMING_REQ", "FINISHED_ABORTED"):
        assert any(f'"status":"{status}"' in line for line in ours), status
    assert first_difference(ours, theirs) is None


def test_a_lost_block_of_a_session_that_waits_is_refused_where_it_is_looked_at() -> None:
    """In vllm-0.22.1 nobody looks at such a session."""
    events = ({"op": "step", "n": 9}, {"op": "kv_done", "invalid": [1]}, {"op": "step"})
    session = {**SESSION, "id": "t", "max_tokens": 1}
    with pytest.raises(OutOfScope, match="on which the waiting session .s. counts"):
        play(NORMATIVE, session, *events, connector=NO_LOADS)
    play(VLLM_0_22_1, session, *events, connector=NO_LOADS)


def test_a_chunk_that_leaves_no_room_is_refused_with_the_next_update() -> None:
    """SESS-15: the output names the session and the reason."""
    chunk = {**SESSION, "prompt": {"range": [50, 70]}}
    lines = play(NORMATIVE, chunk, {"op": "run"}, max_model_len=20)
    told = [line for line in lines if '"finish":"rejected"' in line]
    assert len(told) == 1 and "a prompt of 34 tokens leaves no room" in told[0]


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


def refused(config: dict[str, Any], events: list[dict[str, Any]], why: str) -> list[str]:
    """What the reference prints of a scenario that the specification refuses in these words."""
    scenario = from_dict({"config": config, "events": events})
    with pytest.raises(OutOfScope, match=why):
        list(driver.run(scenario, create(scenario.config, VLLM_0_22_1)))
    return list(driver.run(scenario, reference.create(scenario.config, VLLM_0_22_1)))


def test_a_session_that_ended_where_it_waits_may_lack_blocks() -> None:
    """How many of its tokens were computed is forgotten here, so a scenario is refused where that
    decides: vLLM 0.22.1 passes it over, and the reference does.
    """
    config = {"block_size": 3, "num_blocks": 6, "vocab": 2}
    config |= {"async_scheduling": True, "queue_depth": 3}
    theirs = refused(config, LOSES, "'h5' has ended and would be scheduled again")
    assert not any('"EXCEPTION"' in line for line in theirs)


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
    """With nothing to compute: vLLM 0.22.1 raises before it asks for room, and the reference
    does.
    """
    config: dict[str, Any] = {"block_size": 2, "num_blocks": 9, "max_num_batched_tokens": 1}
    config |= {"async_scheduling": True, "queue_depth": 4}
    theirs = refused(config, STAYS, "'a' has ended and would be scheduled again")
    assert any('"EXCEPTION"' in line for line in theirs)


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
    """As nothing of it is computed then: vLLM 0.22.1 loads it again, and the reference does."""
    connector = {"matched": {"a": 4, "b": 0}, "async": True, "delay_free": True}
    config: dict[str, Any] = {"max_num_seqs": 1, "async_scheduling": True}
    config["connector"] = connector | {"failure_policy": "fail"}
    theirs = refused(config, BEGINS, "'b' has ended and would be scheduled again")
    states = (json.loads(line).get("state") for line in theirs)
    told = [s["requests"]["b"]["status"] for s in states if s and "b" in s["requests"]]
    assert told[told.index("FINISHED_ERROR") + 1] == "WAITING_FOR_REMOTE_KVS"
    assert not any('"EXCEPTION"' in line for line in theirs)


PREEMPTED: list[dict[str, Any]] = [
    {**SESSION, "id": "a", "prompt": [0], "max_tokens": 2},
    {"op": "step", "n": 4},
    {"op": "drain"},
    {**SESSION, "id": "a", "prompt": {"range": [5000, 5004]}, "max_tokens": 1},
    {"op": "step", "n": 5},
]
"""A session that is queued while it runs is preempted, enters, and stops in both queues."""


def test_a_session_that_runs_and_stands_in_both_queues_may_not_stop() -> None:
    """No rule says in which it stays: vLLM 0.22.1 leaves it in both, and the reference does."""
    config = {"block_size": 2, "num_blocks": 6, "max_num_seqs": 1}
    config |= {"async_scheduling": True, "queue_depth": 4}
    theirs = refused(config, PREEMPTED, "'a' stops while it runs and is queued")
    last = json.loads(theirs[-2])["state"]
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


def test_nor_is_it_preempted_there() -> None:
    """It would stand in the waiting queue twice, which no rule says."""
    first, steps, drain, chunk, _ = PREEMPTED
    chunk = {**chunk, "prompt": {"range": [5000, 5003]}}
    events = [first, {**steps, "n": 5}, drain, chunk, {**steps, "n": 5}]
    config = {"block_size": 1, "num_blocks": 5, "max_num_seqs": 1}
    config |= {"async_scheduling": True, "queue_depth": 5}
    theirs = refused(config, events, "'a' is preempted while it is queued")
    assert any('"waiting":["a","a"]' in line for line in theirs)


FORGOTTEN: list[dict[str, Any]] = [
    {"op": "add", "id": "a", "prompt": {"range": [1000, 1004]}, "max_tokens": 4},
    {"op": "add", "id": "b", "prompt": [0, 1, 0, 1], "max_tokens": 3, "stop": [3, 0, 1]},
    {"op": "step"},
    {"op": "kv_match", "matched": {"b": None}},
    {"op": "step"},
    {"op": "kv_done", "send": ["b"]},
    {"op": "step", "n": 2},
]
"""A request ends where it waits apart, and its blocks are sent: nothing is known of it then."""


def test_of_what_is_forgotten_several_groups_agree_on_no_prefix() -> None:
    """It still stands where it waited, and is tried: vLLM 0.22.1 goes on, and the reference."""
    groups = [{"type": "full"}, {"type": "sink", "sink_len": 2}]
    connector = {"matched": {"a": 5, "b": 4}, "delay_free": True, "all_groups": True}
    config: dict[str, Any] = {"block_size": 2, "num_blocks": 13, "vocab": 2, "groups": groups}
    config |= {"async_scheduling": True, "queue_depth": 3}
    config["connector"] = connector | {"failure_policy": "fail"}
    theirs = refused(config, FORGOTTEN, "'b' has ended and would be scheduled again")
    assert not any('"EXCEPTION"' in line for line in theirs)
