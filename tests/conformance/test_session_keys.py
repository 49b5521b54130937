"""Scenarios with sessions: what the specification plays, and what it refuses by name."""

from typing import Any

import pytest
from playing_sessions import CHUNK, SESSION, alike

from nullblock.conformance import driver
from nullblock.conformance.adapters import reference
from nullblock.conformance.adapters.spec import create
from nullblock.conformance.compare import first_difference
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.scenario import from_dict
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, Semantics


def play(semantics: Semantics, *events: dict[str, Any], **config: Any) -> list[str]:
    """The lines of a scenario that begins with a session."""
    document = {"config": {"block_size": 4, **config}, "events": [SESSION, *events]}
    scenario = from_dict(document)
    return list(driver.run(scenario, create(scenario.config, semantics), dump="none"))


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
