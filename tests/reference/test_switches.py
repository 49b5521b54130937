"""Each decision switch of the reference: what 0.22.1 does, and what is right."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fuzz.lockstep import lines_of
from hypothesis import given
from hypothesis import strategies as st
from vllm_shaped_driver import Driver, Names

from nullblock.spec.facts import Config
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, Semantics
from nullblock.spec.rejection import why_unservable

NAMES = Names("nullblock.reference")


def run(events: list[dict[str, Any]], config: dict[str, Any], **switches: bool) -> Any:
    """The lines of a scenario under those switches, and the driver that ran it."""
    scenario = {"config": {"block_size": 4, "max_model_len": 64, **config}, "events": events}
    driver = Driver(NAMES, scenario, semantics=replace(VLLM_0_22_1, **switches))
    lines = driver.run()
    assert lines[-1]["ev"] != "EXCEPTION"
    return lines, driver


def add(name: str, lo: int, hi: int, **options: Any) -> dict[str, Any]:
    """A request with tokens lo to hi."""
    return {"op": "add", "id": name, "prompt": {"range": [lo, hi]}, **options}


STEP: dict[str, Any] = {"op": "step"}


def test_the_default_is_the_release() -> None:
    """Nothing that 0.22.1 does wrong is right by default."""
    driver = Driver(NAMES, {"events": []})
    assert driver.scheduler.semantics is VLLM_0_22_1


def test_a_scheduler_takes_its_profile_when_it_is_made() -> None:
    """And hands it to its KV-cache manager and hasher."""
    semantics = Semantics()
    driver = Driver(NAMES, {"events": []}, semantics=semantics)
    assert driver.scheduler.semantics is driver.scheduler.kv_cache_manager.semantics is semantics


UNSERVABLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "the prompt is empty": ({}, add("r", 0, 0)),
    "leaves no room for output: max_model_len is 64": ({}, add("r", 0, 64)),
    "19 tokens may need 5 blocks, the pool has 4": (
        {"num_blocks": 5},
        add("r", 0, 10, max_tokens=10),
    ),
    "25 tokens may have to be computed in one step of at most 24": (
        {"enable_chunked_prefill": False, "max_num_batched_tokens": 24},
        add("r", 0, 16, max_tokens=10),
    ),
}


@pytest.mark.parametrize("reason", UNSERVABLE)
def test_a_request_that_cannot_be_served_is_refused_with_its_reason(reason: str) -> None:
    """It never enters the queue; the next update says so, before that step's outputs."""
    config, event = UNSERVABLE[reason]
    events = [event, add("ok", 0, 6, max_tokens=1), STEP]
    lines, driver = run(events, config, reject_unservable=True)
    refused, served = lines[-1]["outputs"]
    assert refused[:3] == ["r", [], "rejected"] and reason in refused[3]
    assert served[0] == "ok"
    assert driver.scheduler.finished_req_ids == {"ok"}
    assert "r" not in driver.scheduler.requests


def test_an_engine_is_told_that_a_refusal_is_still_to_be_reported() -> None:
    """Otherwise nobody would ask for the update that carries it."""
    driver = Driver(NAMES, {"events": []}, semantics=Semantics())
    driver.do_add(add("r", 0, 0))
    assert driver.scheduler.has_requests() and not driver.scheduler.has_unfinished_requests()
    driver.do_step({})
    assert not driver.scheduler.has_requests()


FITS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({}, add("r", 0, 63, max_tokens=9)),
    ({"num_blocks": 6}, add("r", 0, 10, max_tokens=11)),
    ({"num_blocks": 5}, add("r", 0, 10, max_tokens=7)),
    (
        {"enable_chunked_prefill": False, "max_num_batched_tokens": 25},
        add("r", 0, 16, max_tokens=10),
    ),
    ({"max_num_batched_tokens": 5}, add("r", 0, 16, max_tokens=10)),
    (
        {
            "enable_chunked_prefill": False,
            "max_num_batched_tokens": 5,
            "long_prefill_token_threshold": 5,
        },
        add("r", 0, 16, max_tokens=10),
    ),
]


@pytest.mark.parametrize("config, event", FITS)
def test_a_request_that_just_fits_is_served_to_its_end(
    config: dict[str, Any], event: dict[str, Any]
) -> None:
    """The refusal is not too eager: at each limit the request still finishes."""
    lines, _ = run([event, {"op": "run", "max_steps": 99}], config, reject_unservable=True)
    finished = [output for line in lines for output in line.get("outputs", []) if output[4]]
    assert [output[2] for output in finished] == ["length"]


def test_a_withdrawn_victim_leaves_no_hash_of_what_it_did_not_compute() -> None:
    """0.22.1 lets another request hit blocks whose KV was never written."""
    config = {
        "num_blocks": 9,
        "policy": "priority",
        "long_prefill_token_threshold": 8,
        "scheduler_reserve_full_isl": False,
    }
    events = [
        add("lo", 0, 28, priority=9, max_tokens=2),
        STEP,
        add("hi", 100, 108, priority=0, max_tokens=3),
        *[STEP] * 3,
        add("other", 0, 24, priority=1, max_tokens=1),
        {"op": "run", "max_steps": 99},
    ]
    hits = {}
    for uncaches in (False, True):
        lines, _ = run(events, config, withdraw_uncaches=uncaches)
        assert any(line["preempted"] == ["lo"] for line in lines if line["ev"] == "schedule")
        (hits[uncaches],) = (
            new[2] for line in lines for new in line.get("new", []) if new[0] == "other"
        )
    assert hits[True] < hits[False]


def test_of_equals_the_greatest_id_is_preempted() -> None:
    """0.22.1 preempts the first of equals in the list, which then goes before the other one."""
    config = {"num_blocks": 6, "block_size": 4, "policy": "priority", "max_num_seqs": 2}
    events = [add("a", 0, 8, arrival=1), add("b", 20, 28, arrival=1), *[STEP] * 2]
    preempted = {}
    for by_id in (False, True):
        lines, _ = run(events, config, victim_by_id=by_id)
        preempted[by_id] = [line["preempted"] for line in lines if line.get("preempted")]
    assert preempted == {False: [["a"]], True: [["b"]]}


def test_a_victim_before_the_index_makes_nobody_lose_a_turn() -> None:
    """0.22.1 forgets that the list got shorter when the victim had nothing scheduled."""
    # "stuck" sits in running with nothing to schedule: its prompt fills the model's length.
    config = {
        "num_blocks": 11,
        "policy": "priority",
        "max_model_len": 16,
        "max_num_batched_tokens": 24,
        "long_prefill_token_threshold": 12,
    }
    events = [
        add("stuck", 0, 16, priority=9),
        *[STEP] * 2,
        add("x", 20, 28, priority=0),
        add("y", 40, 48, priority=1),
        add("z", 60, 68, priority=2),
        *[STEP] * 5,
    ]
    orders = {}
    for shifts in (False, True):
        lines, _ = run(events, config, victim_shifts_index=shifts)
        preempting = [line for line in lines if line.get("preempted")]
        assert preempting[0]["preempted"] == ["stuck"]
        orders[shifts] = [name for name, _ in preempting[0]["order"]]
    assert orders == {False: ["x", "z"], True: ["x", "y", "z"]}


def test_the_length_ends_a_request_that_has_no_room_for_its_min_tokens() -> None:
    """0.22.1 keeps it running for ever, without scheduling anything."""
    events = [add("r", 0, 12, max_tokens=20, min_tokens=10), {"op": "run", "max_steps": 20}]
    lines, driver = run(events, {"max_model_len": 16})
    assert [r.request_id for r in driver.scheduler.running] == ["r"]
    assert lines[-1]["outputs"] == []
    lines, driver = run(events, {"max_model_len": 16}, length_before_min_tokens=True)
    assert driver.scheduler.running == []
    assert lines[-1]["outputs"][0][2] == "length"


def test_a_frame_belongs_to_the_request_that_was_scheduled() -> None:
    """0.22.1 gives it to whoever has the id when it arrives."""
    events = [
        add("r", 0, 10),
        {"op": "schedule"},
        {"op": "abort", "ids": ["r"]},
        add("r", 50, 57),
        {"op": "update"},
    ]
    for matched in (False, True):
        lines, driver = run(events, {}, frames_match_request=matched)
        assert len(lines[-1]["outputs"]) == driver.scheduler.requests["r"].num_output_tokens
        assert driver.scheduler.requests["r"].num_output_tokens == (0 if matched else 1)
    lines, _ = run([add("r", 0, 10), STEP], {}, frames_match_request=True)
    assert len(lines[-1]["outputs"]) == 1


def test_freed_blocks_without_a_hash_may_go_to_the_front() -> None:
    """They keep their order; blocks with a hash go to the back, as all do in 0.22.1."""
    events = [add("r", 0, 10), STEP, {"op": "abort", "ids": ["r"]}]
    config = {"num_blocks": 8, "max_num_batched_tokens": 10}
    for first, wanted in ((False, [4, 5, 6, 7, 3, 2, 1]), (True, [3, 4, 5, 6, 7, 2, 1])):
        lines, _ = run(events, config, freed_unhashed_first=first)
        assert lines[-1]["state"]["free_queue"] == wanted
    config["enable_prefix_caching"] = False
    lines, _ = run(events, config, freed_unhashed_first=True)
    assert lines[-1]["state"]["free_queue"] == [3, 2, 1, 4, 5, 6, 7]


@given(
    prompt_len=st.integers(0, 20),
    max_tokens=st.integers(1, 20),
    config=st.fixed_dictionaries(
        {
            "block_size": st.integers(1, 4),
            "num_blocks": st.integers(2, 12),
            "max_model_len": st.integers(2, 24),
            "max_num_batched_tokens": st.integers(1, 24),
            "long_prefill_token_threshold": st.integers(0, 24),
            "enable_chunked_prefill": st.booleans(),
        }
    ),
)
def test_a_refusal_reads_as_the_specification_words_it(
    prompt_len: int, max_tokens: int, config: dict[str, Any]
) -> None:
    """Both refuse the same requests for the same reason."""
    driver = Driver(NAMES, {"config": config, "events": []}, semantics=NORMATIVE)
    driver.do_add(add("r", 0, prompt_len, max_tokens=max_tokens))
    refused = [request.stop_reason for request in driver.scheduler._rejected]
    limits = {name: value for name, value in config.items() if name != "max_num_batched_tokens"}
    facts = Config(
        max_num_scheduled_tokens=config["max_num_batched_tokens"], max_num_seqs=8, **limits
    )
    reason = why_unservable(facts, prompt_len, max_tokens)
    assert refused == ([] if reason is None else [reason])


@pytest.mark.parametrize("num_drafts", [0, 2])
@pytest.mark.parametrize("ahead", [False, True])
def test_an_output_that_a_failed_load_makes_worthless_is_owed_no_longer(
    num_drafts: int, ahead: bool
) -> None:
    """Nor are its drafts: the request starts over, drops the output that is in flight, no good
    one after it, and is served to its end. In the release the output stays counted,
    asynchronously (UPD-17).
    """
    config = {
        **{"block_size": 4, "num_blocks": 96, "connector": {"matched": {"a": 8}}},
        **{"num_spec_tokens": num_drafts, "accept": "all", "async_scheduling": ahead},
    }
    more = [{"op": "schedule"}, {"op": "kv_done", "invalid": [2]}, {"op": "update"}]
    events = [add("a", 0, 12, max_tokens=12), STEP, {"op": "drain"}, *more]
    document = {"config": config, "events": [*events, {"op": "run", "max_steps": 20}]}
    lines = [json.loads(line) for line in lines_of("reference", document, NORMATIVE)]
    failed = next(i for i, line in enumerate(lines) if line["ev"] == "kv_done") + 1
    state = lines[failed]["state"]["requests"]["a"]
    assert (state["computed"], state["placeholders"], state["discard"]) == (0, 0, 0)
    drafted = any(line.get("spec") for line in lines[failed + 1 :])
    assert drafted == (num_drafts > 0)
    ends = [output for line in lines for output in line.get("outputs", []) if output["finish"]]
    assert [end["finish"] for end in ends] == ["length"]
    released = [json.loads(line) for line in lines_of("reference", document, VLLM_0_22_1)]
    owed = released[failed]["state"]["requests"]["a"]["placeholders"]
    assert owed == (1 + num_drafts if ahead else 0)


ADAPTERS: dict[str, list[dict[str, Any]]] = {
    "a pause": [
        add("a", 0, 4, lora="A", lora_id=1),
        add("b", 0, 4, lora="B", lora_id=2),
        *[{"op": "schedule"}] * 2,
    ],
    "a number that is not above 0": [
        add("a", 0, 4, lora="A", lora_id=-1),
        add("b", 0, 4, lora="B", lora_id=2),
        *[STEP] * 2,
    ],
}


@pytest.mark.parametrize("what", ADAPTERS)
def test_the_adapter_of_a_running_request_keeps_its_place(what: str) -> None:
    """In 0.22.1 another one takes it while the request is passed over for its output in flight,
    and at any time if the adapter's number is not above 0.
    """
    document = {"config": {"max_loras": 1}, "events": ADAPTERS[what]}
    for keeps, wanted in ((False, ["a", "b"]), (True, ["a"])):
        semantics = replace(VLLM_0_22_1, adapters_keep_places=keeps)
        lines = [json.loads(line) for line in lines_of("reference", document, semantics)]
        assert lines[-2]["state"]["running"] == wanted


def test_a_request_that_stops_while_it_is_skipped_is_gone() -> None:
    """In 0.22.1 it stays in the skipped queue, and the step that would admit it raises."""
    events = [
        add("a", 0, 4, max_tokens=1, lora="A", lora_id=1),
        {"op": "schedule"},
        {"op": "reset_prefix_cache", "reset_running": True},
        add("b", 0, 4, max_tokens=2, priority=-1, lora="B", lora_id=2),
        {"op": "schedule"},
        *[{"op": "update"}] * 2,
    ]
    config = {"max_loras": 1, "policy": "priority"}
    for leaves, wanted in ((False, ["a"]), (True, [])):
        semantics = replace(VLLM_0_22_1, stops_leave_every_queue=leaves)
        document = {"config": config, "events": [*events, *[STEP] * 2]}
        lines = [json.loads(line) for line in lines_of("reference", document, semantics)]
        stopped = next(line for line in lines if line["ev"] == "update")
        assert [(o["id"], o["finish"]) for o in stopped["outputs"]] == [("a", "length")]
        assert stopped["state"]["skipped_waiting"] == wanted
        assert any(line["ev"] == "EXCEPTION" for line in lines) != leaves
