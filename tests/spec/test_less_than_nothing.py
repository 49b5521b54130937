"""Of an empty prompt several kinds of layers find a hit of less than nothing (GROUP-66), and what
else has no tokens to compute.
"""

import json
from typing import Any

import pytest

from nullblock.conformance.adapters.reference import create as reference
from nullblock.conformance.adapters.spec import create
from nullblock.conformance.compare import first_difference
from nullblock.conformance.driver import run
from nullblock.conformance.scenario import from_dict
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, VLLM_0_32_0, Semantics

WINDOW, NARROW = ({"type": "sliding_window", "sliding_window": n} for n in (9, 2))
CHUNK = {"type": "chunked_local", "chunk": 8}
FULL = {"type": "full"}
MAMBA = {"type": "mamba", "mamba_cache_mode": "none"}
STATES = {"type": "mamba", "mamba_cache_mode": "align", "num_speculative_blocks": 1}
EMPTY = {"op": "add", "id": "a", "prompt": [], "max_tokens": 3}
STEP = {"op": "step", "n": 4}


def played(
    semantics: Semantics, groups: list[Any], *events: dict[str, Any], **config: Any
) -> list[dict[str, Any]]:
    """What the specification prints of these events, and so does the reference."""
    scenario = from_dict({"config": {"groups": groups, **config}, "events": list(events)})
    ours, theirs = (
        list(run(scenario, make(scenario.config, semantics))) for make in (create, reference)
    )
    assert first_difference(ours, theirs) is None
    return [json.loads(line) for line in ours]


def admitted(lines: list[dict[str, Any]]) -> tuple[int, Any, int]:
    """Of whom the first step admits: computed tokens, blocks, and scheduled tokens."""
    step = next(line for line in lines if line["ev"] == "schedule")
    new = step["new"][0]
    return new["computed"], new["blocks"], step["num_scheduled_tokens"][new["id"]]


@pytest.mark.parametrize("semantics", [VLLM_0_22_1, VLLM_0_32_0], ids=["0.22.1", "0.32.0"])
@pytest.mark.parametrize(
    "groups",
    [
        [WINDOW, NARROW],
        [CHUNK, WINDOW],
        [MAMBA, WINDOW],
        [WINDOW, {**NARROW, "eagle": True}],
        [{**CHUNK, "chunk": 16}, {**NARROW, "eagle": True}],
        [{**WINDOW, "eagle": True}, {**NARROW, "eagle": True}],
    ],
    ids=["windows", "chunks", "states", "eagle", "eagle and chunks", "eagles"],
)
@pytest.mark.parametrize("drafts", [0, 2])
def test_a_token_is_computed_that_there_is_not(
    drafts: int, groups: list[Any], semantics: Semantics
) -> None:
    """And no block is needed for it; from the next on all is as ever, after a preemption too."""
    reset = {"op": "reset_prefix_cache", "reset_running": True}
    lines = played(semantics, groups, EMPTY, reset, STEP, num_spec_tokens=drafts)
    computed, blocks, scheduled = admitted(lines)
    assert (computed, scheduled) == (-1, 1) and not any(blocks)
    again = played(semantics, groups, EMPTY, {"op": "step"}, reset, STEP, num_spec_tokens=drafts)
    assert any(line["ev"] == "update" and line["outputs"] for line in again)


def test_full_attention_that_drops_its_last_hit_finds_that_too_in_the_later_line() -> None:
    """GROUP-63: it looks one block further, in vllm-0.32.0 at nothing, and not at less."""
    groups = [WINDOW, {**FULL, "eagle": True}]
    assert admitted(played(VLLM_0_32_0, groups, EMPTY, STEP)) == (-1, [[], []], 1)
    raised = played(VLLM_0_22_1, groups, EMPTY, STEP)
    assert raised[-2]["ev"] == "EXCEPTION"
    unsure = {"matched": {"a": None}, "all_groups": True}
    waits = played(VLLM_0_32_0, groups, EMPTY, {"op": "step"}, connector=unsure)
    assert waits[-2]["state"]["waiting"] == ["a"]


@pytest.mark.parametrize(
    "groups", [[WINDOW], [FULL], [WINDOW, FULL]], ids=["window", "full", "in"]
)
@pytest.mark.parametrize("semantics", [VLLM_0_22_1, VLLM_0_32_0], ids=["0.22.1", "0.32.0"])
def test_elsewhere_an_empty_prompt_raises(semantics: Semantics, groups: list[Any]) -> None:
    """With one group there is nothing to compute; full attention cannot be looked up."""
    assert played(semantics, groups, EMPTY, STEP)[-2]["ev"] == "EXCEPTION"


def test_what_ought_to_be_refuses_it() -> None:
    """LIFE-11: it never enters."""
    lines = played(NORMATIVE, [WINDOW, NARROW], EMPTY, STEP)
    assert not any(line.get("new") for line in lines if line["ev"] == "schedule")


@pytest.mark.parametrize("matched", [None, 0, 7])
@pytest.mark.parametrize("over", [True, False], ids=["over steps", "at once"])
def test_what_is_not_there_may_be_loaded(over: bool, matched: int | None) -> None:
    """REMOTE-1: from less than nothing to nothing is a token, where a load may take all."""
    connector = {"matched": {"a": matched}, "async": over, "all_groups": True}
    done = {"op": "kv_done", "recv": ["a"]}
    lines = played(VLLM_0_22_1, [WINDOW, NARROW], EMPTY, STEP, done, STEP, connector=connector)
    states = [line["state"]["requests"].get("a", {}) for line in lines if line.get("state")]
    loads = any(state.get("status") == "WAITING_FOR_REMOTE_KVS" for state in states)
    assert loads == (over and matched is not None)


def test_whoever_has_the_id_next_has_had_nothing_loaded() -> None:
    """Nothing is noted of the blocks of its prompt before one is cached."""
    connector = {"matched": {"a": 0}, "async": True, "all_groups": True}
    loads = [EMPTY, {"op": "step"}, {"op": "kv_done", "recv": ["a"]}, {"op": "step"}]
    again = [{"op": "abort", "ids": ["a"]}, {"op": "step"}, {**EMPTY, "prompt": [1, 2, 3]}, STEP]
    lines = played(VLLM_0_22_1, [WINDOW, NARROW], *loads, *again, connector=connector)
    known = [line["state"]["requests"] for line in lines if line.get("state")]
    noted = [state["a"]["num_cached_block"] for state in known if "a" in state]
    assert [0, 0] in noted and noted[-1] == [None, None]


@pytest.mark.parametrize("beside", [1, 3])
def test_blocks_behind_an_empty_table_go_to_the_front_in_their_order(beside: int) -> None:
    """QUEUE-10: in vllm-0.32.0 who ends has the states for drafts alone, in its last table."""
    groups = [WINDOW, {**MAMBA, "num_speculative_blocks": beside}]
    last = played(VLLM_0_32_0, groups, {**EMPTY, "max_tokens": 1}, {"op": "step"}, num_blocks=9)[
        -2
    ]
    assert last["state"]["free_queue"] == [*range(beside, 0, -1), *range(beside + 1, 9)]


def tables(lines: list[dict[str, Any]]) -> list[Any]:
    """The blocks of request a after each decision, where it has any."""
    states = [line["state"]["requests"] for line in lines if line.get("state")]
    return [state["a"]["blocks"] for state in states if "a" in state]


def test_a_state_before_the_first_is_taken_for_the_last() -> None:
    """GROUP-68: who began with the states beside alone gives the last of all back, once a token
    counts as settled, and is left without it.
    """
    lines = played(VLLM_0_22_1, [WINDOW, STATES], {**EMPTY, "max_tokens": 5}, {**STEP, "n": 5})
    assert [table[1] for table in tables(lines)[::2]] == [[1], [1, 3], [1, 3], [1, 0], [1, 0]]


def test_a_session_goes_on_from_the_states_beside_alone() -> None:
    """GROUP-27: with nothing computed it has had a state, and takes one block more."""
    session = {**EMPTY, "max_tokens": 1, "resumable": True}
    chunk = {**session, "prompt": [7, 8]}
    step = {"op": "step"}
    lines = played(VLLM_0_22_1, [NARROW, STATES], session, step, chunk, step, block_size=1)
    assert tables(lines)[0][1] == [1] and tables(lines)[-1][1] == [0, 1, 4]


@pytest.mark.parametrize("num_blocks", [3, 4])
def test_states_beside_alone_need_room_for_one_more(num_blocks: int) -> None:
    """GROUP-27: one block is counted that is not taken."""
    states = {**STATES, "num_speculative_blocks": 2}
    lines = played(VLLM_0_22_1, [WINDOW, states], EMPTY, {"op": "step"}, num_blocks=num_blocks)
    new = next(line for line in lines if line["ev"] == "schedule")["new"]
    assert [request["blocks"] for request in new] == [[[], [1, 2]]] * (num_blocks - 3)


@pytest.mark.parametrize("many", [1, 2])
def test_more_is_loaded_than_states_have_places(many: int) -> None:
    """REMOTE-51: a prompt longer than max_model_len; vLLM raises where its load needs more places
    of states at ends of steps than its tokens do.
    """
    groups = [{**STATES, "num_speculative_blocks": 0}, MAMBA]
    connector = {"matched": {"a": 35}, "async": True, "all_groups": True}
    prompt = {**EMPTY, "prompt": list(range(many))}
    config: dict[str, Any] = {"block_size": 1, "max_model_len": 1, "connector": connector}
    lines = played(VLLM_0_22_1, groups, prompt, {"op": "schedule"}, **config)
    assert (lines[-2]["ev"] == "EXCEPTION") == (many > 1)


def test_who_has_nothing_to_compute_is_not_held_back() -> None:
    """WAIT-8: vLLM raises before it asks for room, of which there is none."""
    groups = [{**MAMBA, "num_speculative_blocks": 2}, WINDOW]
    first = {"op": "add", "id": "b", "prompt": {"range": [0, 3]}, "max_tokens": 9}
    nothing = {**EMPTY, "skip_cache_read": True}
    lines = played(
        VLLM_0_22_1, groups, first, {"op": "step"}, nothing, STEP, block_size=4, num_blocks=5
    )
    assert lines[-2]["ev"] == "EXCEPTION"


@pytest.mark.parametrize(("matched", "done"), [(1, True), (4, False), (7, False)])
def test_a_reset_goes_by_how_many_blocks_count_as_free(matched: int, done: bool) -> None:
    """LIFE-10: a load has left two more than there are (GROUP-65), as many as the sinks hold; or
    one, or none.
    """
    groups = [{**MAMBA, "num_speculative_blocks": 2}, FULL, {"type": "sink", "sink_len": 6}]
    config: dict[str, Any] = {"block_size": 3, "num_blocks": 21, "max_num_batched_tokens": 9}
    config |= {"connector": {"matched": {"a": 4, "b": matched}, "all_groups": True}}
    config |= {"scheduler_reserve_full_isl": False}
    events = [{"op": "add", "id": "a", "prompt": {"range": [0, 16]}, "max_tokens": 4}, STEP]
    events += [{"op": "add", "id": "b", "prompt": {"range": [0, 10]}, "max_tokens": 1}, STEP]
    events += [{"op": "reset_prefix_cache"}]
    lines = played(VLLM_0_22_1, groups, *events, **config)
    assert next(line for line in lines if line["ev"] == "reset_prefix_cache")["ok"] == done
