"""What vllm-0.32.0 does with sessions and connectors beside other features, one by one."""

import json
from typing import Any

import pytest
from fuzz.lockstep import ENGINES, difference, lines_of
from oracle.client import Oracle

from nullblock.conformance.errors import OutOfScope
from nullblock.spec.profiles import VLLM_0_32_0

Scenario = dict[str, Any]
STEP: dict[str, Any] = {"op": "step"}


def add(r: str, n: int, limit: int = 1, **more: Any) -> dict[str, Any]:
    """A request with a prompt of n tokens of its own."""
    first = 100 * ord(r)
    prompt = {"range": [first, first + n]}
    return {"op": "add", "id": r, "prompt": prompt, "max_tokens": limit, **more}


def scenario(*events: dict[str, Any], **config: Any) -> Scenario:
    """Small blocks, where nothing else is said."""
    return {"config": {"block_size": 4, **config}, "events": list(events)}


def loads(matched: dict[str, int | None] | None = None, **more: Any) -> Scenario:
    """A connector."""
    return {"matched": matched or {}, **more}


WINDOW = {"type": "sliding_window", "sliding_window": 5}
TWO = [{"type": "full"}, WINDOW]
AHEAD = {"async_scheduling": True, "queue_depth": 3}
ITEM = {"hash": "m", "offset": 2, "length": 4}
SESSION = {"resumable": True}
STATES = {"type": "mamba", "num_speculative_blocks": 1}
TWO_LOADS = (add("a", 3), add("b", 1), STEP)
LIMITED: dict[str, Any] = {"max_model_len": 3, "num_spec_tokens": 1}
LIMITED |= {"connector": loads({"a": 9, "b": 1}, **{"async": True})}
SCENARIOS: dict[str, Scenario] = {
    "a load leaves no room for states of drafts to come": scenario(
        add("a", 1),
        STEP,
        num_blocks=3,
        groups=[STATES],
        num_spec_tokens=1,
        connector=loads({"a": 4}, **{"async": True}, all_groups=True),
    ),
    "a load leaves blocks of full attention alone that stand behind states": scenario(
        add("a", 6),
        STEP,
        groups=[STATES, {"type": "full"}],
        connector=loads({"a": 4}, **{"async": True}, all_groups=True),
    ),
    "a load leaves room for drafts behind max_model_len where no window caps that": scenario(
        *TWO_LOADS,
        num_blocks=9,
        groups=[
            {"type": "full", "block_size": 2},
            {"type": "sliding_window", "sliding_window": 1, "block_size": 4},
        ],
        **LIMITED,
    ),
    "a load leaves room for states behind max_model_len, which nothing caps": scenario(
        *TWO_LOADS, block_size=2, num_blocks=3, groups=[{"type": "mamba"}], **LIMITED
    ),
    "a load leaves room for what another lacks, states beside among it": scenario(
        add("a", 5),
        add("b", 4),
        STEP,
        num_blocks=5,
        groups=[STATES],
        connector=loads({"a": 4, "b": 4}, **{"async": True}, all_groups=True),
    ),
    "a load beyond max_model_len leaves room for what others lack": scenario(
        {**add("a", 2, 3), "prompt": {"range": [0, 2]}},
        {**add("b", 6, 3), "prompt": {"range": [0, 6]}},
        {**add("c", 9), "prompt": {"range": [100, 109]}},
        {**add("d", 3, 2), "prompt": {"range": [100, 103]}},
        {**add("e", 6), "prompt": {"range": [0, 6]}},
        STEP,
        block_size=1,
        num_blocks=8,
        max_model_len=4,
        groups=[{"type": "sliding_window", "sliding_window": 2}],
        connector=loads({"a": 6, "b": 4, "c": 2, "e": 6}, **{"async": True}, all_groups=True),
    ),
    "a chunk that comes late moves its session behind another": scenario(
        add("a", 6, **SESSION, arrival=1),
        {**STEP, "n": 2},
        add("a", 6, **SESSION, arrival=9),
        add("b", 6, **SESSION, arrival=5),
        {**STEP, "n": 3},
        policy="priority",
    ),
    "a session that ends while it waits lets its embeddings go": scenario(
        add("a", 6, **SESSION, mm_features=[ITEM]),
        {**STEP, "n": 2},
        add("a", 1),
        STEP,
        async_scheduling=True,
        encoder={"max_num_encoder_input_tokens": 8, "encoder_cache_size": 8},
    ),
    "a session that ends by an output, and is kept": scenario(
        add("a", 6, 2, **SESSION),
        add("a", 1),
        {**STEP, "n": 5},
        **AHEAD,
        connector=loads(delay_free=True),
    ),
    "what is in flight of a session that ends is not behind its window": scenario(
        {"op": "add", "id": "b1", "prompt": [0], "max_tokens": 2, **SESSION},
        {"op": "add", "id": "b1", "prompt": [1]},
        {"op": "run"},
        block_size=1,
        async_scheduling=True,
        num_spec_tokens=1,
        groups=[{"type": "sliding_window", "sliding_window": 2}],
        connector=loads({"b1": 99}, all_groups=True, failure_policy="fail"),
    ),
    "a session that ends while it waits, by an output of who had its id": scenario(
        add("b", 6, 3),
        {"op": "schedule"},
        add("a", 6),
        {"op": "schedule"},
        {"op": "abort", "ids": ["a"]},
        {"op": "kv_done", "send": ["a"]},
        {"op": "update"},
        add("a", 6, **SESSION),
        add("a", 1),
        {"op": "update"},
        connector=loads(delay_free=["a"]),
    ),
    "a session that waits is loaded for, and stops": scenario(
        add("a", 8, 2, **SESSION),
        STEP,
        {"op": "kv_done", "recv": ["a"]},
        {**STEP, "n": 4},
        add("a", 8, 2, **SESSION),
        {**STEP, "n": 3},
        connector=loads({"a": 99}, **{"async": True}),
    ),
    "a session that goes back further than it was ahead": scenario(
        add("a", 1, 2, eos=0, **SESSION),
        {**STEP, "n": 5},
        {"op": "kv_done", "invalid": [1]},
        {**STEP, "n": 2},
        vocab=1,
        async_scheduling=True,
        queue_depth=6,
        connector=loads(),
    ),
    "one token that was loaded finds no slots": scenario(
        add("a", 1),
        {"op": "kv_done", "recv": ["a"]},
        STEP,
        {"op": "kv_match", "matched": {"a": 1}},
        STEP,
        block_size=2,
        num_blocks=5,
        num_spec_tokens=2,
        spec_method="eagle",
        connector=loads({"a": 1}, **{"async": True}),
    ),
    "what is in flight is not behind the window of who ends": scenario(
        add("a", 9),
        {"op": "schedule"},
        {"op": "abort", "ids": ["a"]},
        {"op": "update"},
        block_size=1,
        groups=[WINDOW],
        connector=loads(),
    ),
    "null blocks are put off with the others": scenario(
        add("a", 9, 2),
        {**STEP, "n": 4},
        {"op": "abort", "ids": ["a"]},
        {"op": "drain"},
        **AHEAD,
        block_size=1,
        groups=[WINDOW],
        long_prefill_token_threshold=4,
        connector=loads(),
    ),
    "two tables are put off from behind": scenario(
        add("a", 9, 2),
        add("b", 6, 2),
        {"op": "schedule"},
        {"op": "schedule"},
        {"op": "abort", "ids": None},
        {"op": "update"},
        {"op": "update"},
        **AHEAD,
        groups=TWO,
        connector=loads(all_groups=True),
    ),
    "a load leaves room for a prompt in both tables": scenario(
        add("a", 20),
        STEP,
        add("b", 8),
        {**STEP, "n": 2},
        num_blocks=14,
        max_num_batched_tokens=8,
        groups=[{"type": "full"}, {"type": "sliding_window", "sliding_window": 64}],
        connector=loads({"b": 8}, all_groups=True, **{"async": True}),
    ),
    "kept blocks of two tables go": scenario(
        add("a", 9),
        {"op": "schedule"},
        {"op": "kv_done", "recv": ["a"]},
        {"op": "abort", "ids": ["a"]},
        {"op": "update"},
        groups=TWO,
        connector=loads({"a": 99}, all_groups=True, **{"async": True}),
    ),
    "who is loaded gets no placeholders": scenario(
        add("a", 1),
        {**STEP, "n": 2},
        {**add("b", 2), "prompt": {"range": [9700, 9702]}},
        STEP,
        block_size=1,
        num_spec_tokens=1,
        max_num_scheduled_tokens=1,
        connector=loads({"b": 99}, **{"async": True}),
    ),
    "what no window sees goes before the rest": scenario(
        add("a", 9),
        {**STEP, "n": 2},
        enable_prefix_caching=False,
        block_size=1,
        groups=[*TWO, WINDOW],
        connector=loads(all_groups=True),
    ),
    "what is put off keeps its order behind null blocks": scenario(
        add("a", 9, 3),
        add("b", 9, 3),
        {**STEP, "n": 5},
        {"op": "abort", "ids": ["a"]},
        {"op": "abort", "ids": ["b"]},
        {"op": "drain"},
        **AHEAD,
        enable_prefix_caching=False,
        block_size=1,
        groups=[WINDOW],
        long_prefill_token_threshold=4,
        connector=loads(),
    ),
}


def states(name: str) -> list[dict[str, Any]]:
    """The lines of the specification that tell a state."""
    lines = map(json.loads, lines_of("spec", SCENARIOS[name], VLLM_0_32_0))
    return [line for line in lines if line.get("state")]


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_engines_play_them_alike(name: str) -> None:
    """Line by line, exceptions too."""
    ours, theirs = (lines_of(e, SCENARIOS[name], VLLM_0_32_0) for e in ENGINES)
    assert difference(ours, theirs, bytewise=False) == ""


@pytest.mark.oracle
@pytest.mark.parametrize("name", SCENARIOS)
def test_the_release_does_the_same(name: str, oracle_0_32: Oracle) -> None:
    """Line by line."""
    ours = lines_of("spec", SCENARIOS[name], VLLM_0_32_0)
    assert difference(oracle_0_32.lines(SCENARIOS[name]), ours, bytewise=False) == ""


def test_a_late_chunk_puts_its_session_behind() -> None:
    """SESS-13: under PRIORITY it stands where the arrival of its chunk puts it, among those who
    wait with blocks, who are served first (WAIT-60).
    """
    name = "a chunk that comes late moves its session behind another"
    orders = [line["order"] for line in states(name) if line["ev"] == "schedule"]
    assert orders == [["a"], [], ["a", "b"], [], []]


def test_no_embeddings_are_referred_to_by_nobody() -> None:
    """SESS-14, ENC-14: their last user is gone."""
    last = states("a session that ends while it waits lets its embeddings go")[-1]
    assert last["state"]["encoder_cache"]["cached"] == {"m": []}


def test_of_a_kept_session_nothing_in_flight_counts() -> None:
    """REMOTE-19: its last turn is over, with one token in flight."""
    last = states("a session that ends by an output, and is kept")[-1]
    kept = last["state"]["requests"]["a"]
    assert (kept["computed"], kept["tokens"], kept["placeholders"]) == (7, 8, 0)


def test_of_a_session_that_ends_nothing_in_flight_is_behind_its_window() -> None:
    """SESS-5, REMOTE-52: what is in flight is taken back before it is asked what no token would
    see. The first of three blocks is let go then, and the others after it.
    """
    last = states("what is in flight of a session that ends is not behind its window")[-1]
    assert last["state"]["free_queue"][-2:] == [1, 2]


def test_who_ends_while_it_waits_is_told_what_is_stale() -> None:
    """REMOTE-18: what is in flight is stale, and here that is six tokens too few: those of who had
    its id.
    """
    last = states("a session that ends while it waits, by an output of who had its id")[-1]
    assert last["state"]["requests"]["a"]["discard"] == -6


def test_a_table_is_put_off_behind_those_after_it() -> None:
    """REMOTE-54: the window's blocks stand in the free queue before those of full attention."""
    last = states("two tables are put off from behind")[-1]
    assert last["state"]["free_queue"][:4] == [10, 8, 6, 3]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_session_stops_once(engine: str) -> None:
    """One that waits for a chunk takes an output of who had its id: the release counts it twice
    among those that wait for one, and takes it out of its queue.
    """
    document = scenario(
        add("a", 1),
        {"op": "schedule"},
        {"op": "abort", "ids": ["a"]},
        add("a", 1, **SESSION),
        {"op": "schedule"},
        {"op": "update"},
        {"op": "update"},
    )
    if engine == "spec":
        with pytest.raises(OutOfScope, match="'a' stops again while it waits"):
            lines_of(engine, document, VLLM_0_32_0)
    else:
        last = json.loads(lines_of(engine, document, VLLM_0_32_0)[-2])
        assert last["state"]["skipped_waiting"] == []


def test_inputs_let_go_are_let_go_in_order() -> None:
    """Of a request that goes back behind some of its inputs the release keeps a set that it has
    taken some out of.
    """
    items = [{"hash": h, "offset": 2 * n, "length": 2} for n, h in enumerate("xy")]
    document = scenario(
        add("a", 4, 9, mm_features=items),
        {**STEP, "n": 2},
        {"op": "kv_done", "invalid": [1]},
        {**STEP, "n": 2},
        block_size=2,
        async_scheduling=True,
        max_num_batched_tokens=2,
        encoder={"max_num_encoder_input_tokens": 8, "encoder_cache_size": 8},
        connector=loads(),
    )
    with pytest.raises(OutOfScope, match="behind some of its inputs"):
        lines_of("spec", document, VLLM_0_32_0)


@pytest.mark.oracle
def test_no_block_of_several_groups_is_reported(oracle_0_32: Oracle) -> None:
    """The release raises for any such report, whoever runs."""
    document = {
        "config": {
            "connector": {"matched": {}, "all_groups": True},
            "groups": [{"type": "full"}, {"type": "sliding_window", "sliding_window": 5}],
        },
        "events": [{"op": "kv_done", "invalid": [2]}, STEP],
    }
    raised = [oracle_0_32.lines(document)[-2]]
    raised += [lines_of(engine, document, VLLM_0_32_0)[-2] for engine in ENGINES]
    assert {json.loads(line)["type"] for line in raised} == {"RuntimeError"}


@pytest.mark.oracle
def test_a_load_is_not_minded_where_an_output_ends_its_request(oracle_0_32: Oracle) -> None:
    """REMOTE-4: it comes for who had the id before; what the load writes to is free at once."""
    document = {
        "config": {"num_blocks": 4, "connector": {"async": True}},
        "events": [
            add("a", 1, 1),
            {"op": "schedule"},
            {"op": "abort", "ids": ["a"]},
            {"op": "kv_match", "matched": {"a": 1}},
            add("a", 1, 1),
            {"op": "schedule"},
            {"op": "update"},
        ],
    }
    theirs = oracle_0_32.lines(document)
    assert json.loads(theirs[-2])["state"]["num_free"] == 3
    for engine in ENGINES:
        ours = lines_of(engine, document, VLLM_0_32_0)
        assert not difference(ours, theirs, bytewise=False)
