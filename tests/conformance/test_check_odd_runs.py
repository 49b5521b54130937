"""Traces of runs that hardly anybody has: a number used again, fewer outputs in flight than none,
hits of less than nothing, no room for a step in flight, a session that vLLM raises for where the
rules go on.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from bases import FOUND
from record_again import record_all
from traces import documents, trace_of

from nullblock.conformance.adapters.vllm.numbering import AdapterNumbers
from nullblock.conformance.checker.check import check
from nullblock.conformance.errors import OutOfScope

VECTORS = Path(__file__).parents[2] / "conformance" / "vectors"
OWES_LESS: dict[str, Any] = {
    "config": {"async_scheduling": True, "num_spec_tokens": 8, "max_num_batched_tokens": 16},
    "events": [
        {"op": "add", "id": "a", "prompt": [2], "max_tokens": 30},
        {"op": "step", "n": 2},
        {"op": "reset_prefix_cache", "reset_running": True},
        {"op": "add", "id": "b", "prompt": {"range": [1, 21]}, "max_tokens": 9},
        {"op": "step", "n": 14},
    ],
}
"""In vllm-0.22.1 drafts rejected after a reset are taken off what is owed since (UPD-19)."""

HELD_AND_HIT: dict[str, Any] = {
    "config": {
        **{"block_size": 1, "num_blocks": 16, "policy": "priority", "num_spec_tokens": 5},
        **{"async_scheduling": True, "queue_depth": 3, "accept": [3, 0]},
    },
    "events": [
        {"op": "add", "id": "a", "prompt": [1000], "max_tokens": 2},
        {"op": "step"},
        {"op": "add", "id": "s", "prompt": [1], "max_tokens": 2, "priority": -7}
        | {"resumable": True},
        {"op": "add", "id": "b", "prompt": [1000], "max_tokens": 2, "priority": -8},
        {"op": "step", "n": 2},
        {"op": "add", "id": "s", "prompt": {"range": [5000, 5002]}, "max_tokens": 1}
        | {"resumable": True},
        {"op": "step", "n": 3},
    ],
}
"""A session goes on with blocks and nothing computed, and its first block is a hit: vLLM 0.22.1
asserts that who holds blocks hits none (SingleTypeKVCacheManager.get_num_blocks_to_allocate).
"""


@pytest.mark.parametrize("engine", ["spec", "reference"])
def test_what_was_looked_up_for_an_earlier_owner_is_forgotten(engine: str, tmp_path: Path) -> None:
    """The one before was looked up last, hit, and got no room; it left, and nothing has been
    cached since. The new one has as many tokens, and other ones.
    """
    document = json.loads(FOUND.read_text())["id-used-again-after-a-lookup-that-led-nowhere"]
    path = tmp_path / "again.jsonl"
    path.write_bytes(trace_of(document, engine, "vllm-0.22.1"))
    verdict = check(path, deep=False)
    assert (verdict.verdict, verdict.missing) == ("CONFORMS", [])


@pytest.mark.oracle
def test_fewer_outputs_than_none_are_told(oracle_python: Path, tmp_path: Path) -> None:
    """`num_output` counts what is in flight: vLLM's recorder tells it as it is, as we do, and it
    is judged; a state knows by it whom a step in flight owes a token.
    """
    record_all(oracle_python, {"recorded": OWES_LESS}, tmp_path, "1")
    (tmp_path / "ours.jsonl").write_bytes(trace_of(OWES_LESS, "reference", "vllm-0.22.1"))
    for name in ("recorded", "ours"):
        path = tmp_path / f"{name}.jsonl"
        lines = documents(path.read_bytes())
        told = [n for line in lines for n in line.get("cached", {}).get("num_output", ())]
        assert min(told) < 0
        verdict = check(path, deep=False)
        assert (verdict.verdict, verdict.missing) == ("CONFORMS", []), verdict.first


ENDED_BEFORE: dict[str, Any] = {
    "recorded_from": 3,
    "events": [
        {"op": "add", "id": "a", "prompt": [1, 2], "max_tokens": 9},
        {"op": "step"},
        {"op": "abort", "ids": ["a"]},
        {"op": "add", "id": "a", "prompt": [1], "max_tokens": 3},
        {"op": "step", "n": 3},
    ],
}
"""Who ended before recording began is reported in the first step that is recorded, in which who
has the id now is new.
"""


@pytest.mark.oracle
def test_who_ended_before_recording_began_has_a_number(
    oracle_python: Path, tmp_path: Path
) -> None:
    """The state says who is to be reported, whether anybody has the id again or not."""
    record_all(oracle_python, {"recorded": ENDED_BEFORE}, tmp_path)
    _, state, *lines = documents((tmp_path / "recorded.jsonl").read_bytes())
    step = next(line for line in lines if line["ev"] == "schedule")
    assert (state["finished"], step["finished"], step["new"][0]["id"]) == ([0], [0], 0)
    verdict = check(tmp_path / "recorded.jsonl", deep=False)
    assert (verdict.verdict, verdict.missing) == ("CONFORMS", []), verdict.first


@pytest.mark.oracle
def test_nothing_is_judged_from_where_free_blocks_are_miscounted(
    oracle_python: Path, tmp_path: Path
) -> None:
    """Of a state in which vLLM counts more free blocks than are in its queue (GROUP-65) the queue
    is left out: its length would be taken for the count.
    """
    name = "defect-free-blocks-are-miscounted"
    document = json.loads((VECTORS / f"{name}.json").read_text())
    c = {"op": "add", "id": "c", "prompt": [7], "max_tokens": 1}
    document["events"] += [c, {"op": "step", "n": 2}]
    begins = {f"from {at}": {**document, "recorded_from": at} for at in range(6)}
    record_all(oracle_python, {name: document, **begins}, tmp_path, "1")
    assert check(tmp_path / f"{name}.jsonl", deep=False).verdict == "CONFORMS"
    missing = []
    for begun in begins:
        verdict = check(tmp_path / f"{begun}.jsonl", deep=False)
        assert verdict.verdict != "VIOLATION", (begun, verdict.first)
        missing += verdict.missing
    assert missing and set(missing) == {"`free_queue` of the state at step 0"}


@pytest.mark.oracle
def test_an_encoder_cache_that_does_not_add_up_is_nobodys_fault(
    oracle_python: Path, tmp_path: Path
) -> None:
    """An input came in two sizes: vLLM counts other slots of its cache than its items have from
    then on. A recording that begins later does not tell why.
    """
    add = {"op": "add", "prompt": {"range": [1, 9]}, "max_tokens": 9}
    document = {
        "config": {"encoder": {"max_num_encoder_input_tokens": 8, "encoder_cache_size": 8}},
        "events": [
            {**add, "id": "a", "mm_features": [{"hash": "m", "offset": 0, "length": 4}]},
            {"op": "step"},
            {**add, "id": "b", "mm_features": [{"hash": "m", "offset": 0, "length": 6}]},
            {"op": "step", "n": 2},
            {"op": "abort", "ids": ["a", "b"]},
            {"op": "step"},
        ],
    }
    begins = {"late": document | {"recorded_from": 5}, "before": document}
    record_all(oracle_python, begins, tmp_path)
    (told,) = check(tmp_path / "late.jsonl", deep=False).missing
    assert told.startswith("whether an encoder input had two sizes before: of 8 slots ")
    assert told.endswith("(ENC-22)")
    assert check(tmp_path / "before.jsonl", deep=False).verdict == "CONFORMS"


def test_no_trace_tells_of_no_room_for_a_step_in_flight() -> None:
    """A `queue_depth` of 0 plays as one of 1; where admission reckons with it, vLLM has none."""
    document = {
        "config": {
            **{"async_scheduling": True, "queue_depth": 0},
            "groups": [{"type": "sliding_window", "sliding_window": 8}],
        },
        "events": [{"op": "add", "id": "a", "prompt": [1], "max_tokens": 1}, {"op": "run"}],
    }
    assert trace_of(document, "reference", "vllm-0.22.1")
    with pytest.raises(OutOfScope, match="with no step in flight"):
        trace_of(document, "reference", "vllm-0.32.0")


@pytest.mark.oracle
def test_vllm_raises_for_who_holds_blocks_and_is_hit(oracle_python: Path, tmp_path: Path) -> None:
    """The rules go on there; what vLLM is known to assert besides explains the end."""
    record_all(oracle_python, {"recorded": HELD_AND_HIT}, tmp_path)
    (tmp_path / "ours.jsonl").write_bytes(trace_of(HELD_AND_HIT, "spec", "vllm-0.22.1"))
    for name in ("recorded", "ours"):
        verdict = check(tmp_path / f"{name}.jsonl", deep=False)
        assert (verdict.verdict, verdict.missing) == ("CONFORMS", []), verdict.first
        raised = verdict.raised
        assert raised is not None and raised.type == "AssertionError"
        assert raised.rules == "a session that holds blocks is hit"


def judged(document: dict[str, Any], path: Path) -> list[str]:
    """What the verdict on our trace of a scenario is missing, which is INCONCLUSIVE."""
    path.write_bytes(trace_of(document, "reference", "vllm-0.22.1"))
    verdict = check(path, deep=False)
    assert verdict.verdict == "INCONCLUSIVE"
    return verdict.missing


def test_a_number_is_used_again_whose_owner_has_ended_in_the_queue(tmp_path: Path) -> None:
    """UPD-6: an output that an earlier owner was owed ends the second one, who was passed over,
    and in vllm-0.22.1 stays where it stood. What that makes of a third no rule says.
    """
    add = {"op": "add", "id": "a", "prompt": [2], "max_tokens": 1}
    document = {
        "config": {"async_scheduling": True, "connector": {"matched": {}}},
        "events": [
            {**add, "max_tokens": 3, "eos": 1, "eos_at": 1},
            {"op": "schedule"},
            {"op": "step", "n": 2},
            {"op": "kv_match", "matched": {"a": None}},
            {**add, "pooling": True},
            {"op": "step"},
            add,
        ],
    }
    (missing,) = judged(document, tmp_path / "third.jsonl")
    assert missing == "what a queue makes of request number 0, whose owner has ended there"


UNNUMBERED: dict[str, Any] = {
    "config": {"max_loras": 1},
    "events": [
        {"op": "add", "id": "a", "prompt": [1], "max_tokens": 3, "lora": "x", "lora_id": None},
        {"op": "step", "n": 2},
    ],
}
"""With a cap vLLM compares the numbers of who runs with 0, and so raises from the second step on
(Scheduler.schedule: scheduled_loras); no front end lets such an adapter pass.
"""


@pytest.mark.oracle
def test_an_adapter_without_a_number_is_out_of_scope_by_name(
    oracle_python: Path, tmp_path: Path
) -> None:
    """The rules have no such exception, and a trace of it no fault: the recorder goes on and says
    what it met, and so does a trace of ours.
    """
    record_all(oracle_python, {"recorded": UNNUMBERED}, tmp_path)
    (tmp_path / "ours.jsonl").write_bytes(trace_of(UNNUMBERED, "reference", "vllm-0.22.1"))
    for name in ("recorded", "ours"):
        path = tmp_path / f"{name}.jsonl"
        verdict = check(path, deep=False)
        assert (verdict.verdict, verdict.missing) == (
            *("INCONCLUSIVE", ["the feature adapter_below_1 of request 0"]),
        )
        assert verdict.raised is not None and verdict.raised.type == "TypeError"
        assert b'"ev":"lost"' not in path.read_bytes()


def test_adapters_without_a_number_are_one() -> None:
    """Who has one is counted as of an adapter that is forgotten with the last who has it."""
    adapters = AdapterNumbers()
    assert [adapters.add(id, adapter) for id, adapter in (("a", None), ("b", 7), ("c", None))] == [
        *(1, 2, 1)
    ]
    for id in ("a", "nobody", "c"):
        adapters.remove(id)
    assert [adapters.add("d", 7), adapters.add("e", None)] == [2, 3]


@pytest.mark.oracle
def test_the_end_of_a_session_brings_nothing(oracle_python: Path, tmp_path: Path) -> None:
    """What ends a session wants a vector: vLLM drops all but that it is the end, so that workers
    go on sampling for the session, and the run is an ordinary one.
    """
    document = json.loads(FOUND.read_text())["end-of-a-session-wants-a-vector"]
    record_all(oracle_python, {"recorded": document}, tmp_path)
    for engine in ("spec", "reference"):
        (tmp_path / f"{engine}.jsonl").write_bytes(trace_of(document, engine, "vllm-0.22.1"))
    for name in ("recorded", "spec", "reference"):
        verdict = check(tmp_path / f"{name}.jsonl", deep=False)
        assert (verdict.verdict, verdict.missing) == ("CONFORMS", []), verdict.first


def test_a_connector_is_asked_with_a_hit_of_less_than_nothing(tmp_path: Path) -> None:
    """GROUP-66: so a trace tells it, and is no damaged one."""
    windows = [{"type": "sliding_window", "sliding_window": n} for n in (2, 7)]
    connector = {"matched": {"a": 9}, "async": True, "all_groups": True}
    document = {
        "config": {"groups": windows, "connector": connector},
        "events": [{"op": "add", "id": "a", "prompt": [], "max_tokens": 1}, {"op": "schedule"}],
    }
    path = tmp_path / "less.jsonl"
    (missing,) = judged(document, path)
    assert missing.startswith("a prompt of 0 tokens beside a KV connector")
    (answer,) = (a for line in documents(path.read_bytes()) for a in line.get("answers", ()))
    assert answer["local"] < 0
