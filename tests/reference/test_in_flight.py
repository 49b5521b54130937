"""Steps in flight: placeholders, what is dropped, what is owed, and the switches about them."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from vllm_shaped_driver import Driver, Names, vllm_config

from nullblock.reference.errors import UnsupportedFeature
from nullblock.reference.sched.async_scheduler import AsyncScheduler
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1

NAMES = Names("nullblock.reference")
SCHEDULE, UPDATE, DRAIN = ({"op": op} for op in ("schedule", "update", "drain"))
RESET = {"op": "reset_prefix_cache", "reset_running": True}
RUN = {"op": "run", "max_steps": 200}


def run(*events: dict[str, Any], ahead: bool = True, **options: Any) -> Driver:
    """The driver after those events; asynchronous unless told otherwise."""
    switches = {name: options.pop(name) for name in tuple(options) if hasattr(NORMATIVE, name)}
    config = {"block_size": 4, "num_blocks": 32, "async_scheduling": ahead, **options}
    scenario = {"config": config, "events": [*events]}
    driver = Driver(NAMES, scenario, semantics=replace(VLLM_0_22_1, **switches))
    driver.run()
    assert driver.lines[-1]["ev"] != "EXCEPTION"
    return driver


def add(name: str = "a", prompt: int = 10, **options: Any) -> dict[str, Any]:
    """A request with a prompt of that many tokens."""
    return {"op": "add", "id": name, "prompt": {"range": [0, prompt]}, **options}


def orders(driver: Driver) -> list[dict[str, int]]:
    """What each step scheduled."""
    return [dict(line["order"]) for line in driver.lines if line["ev"] == "schedule"]


def outputs(driver: Driver, name: str = "a") -> list[int]:
    """Every token that a client was given for a request."""
    found = [o for line in driver.lines for o in line.get("outputs", ())]
    return [token for output in found if output[0] == name for token in output[1]]


def test_a_scheduler_takes_the_configuration_of_its_own_mode_only() -> None:
    """Half of the rules would be missing otherwise."""
    config = vllm_config({**Driver(NAMES, {"events": []}).config, "async_scheduling": True})
    with pytest.raises(UnsupportedFeature, match="AsyncScheduler"):
        Scheduler(config, SimpleNamespace(), None, 4)
    config.scheduler_config.async_scheduling = False
    with pytest.raises(UnsupportedFeature, match="use Scheduler"):
        AsyncScheduler(config, SimpleNamespace(), None, 4)


def test_tokens_in_flight_are_scheduled_like_known_ones() -> None:
    """Each step is one token on, whatever has returned, and counts the outputs in flight."""
    driver = run(add(max_tokens=9), SCHEDULE, SCHEDULE, SCHEDULE)
    assert orders(driver) == [{"a": 10}, {"a": 1}, {"a": 1}]
    request = driver.scheduler.requests["a"]
    assert (request.num_computed_tokens, request.num_tokens) == (12, 10)
    assert request.num_output_placeholders == 3
    assert [one[3] for line in driver.lines[2:] for one in line["cached"]] == [1, 2]


def test_a_prefill_chunk_is_owed_nothing() -> None:
    """Only the step that reaches the last token samples one more."""
    driver = run(add(), SCHEDULE, SCHEDULE, SCHEDULE, max_num_batched_tokens=4)
    assert orders(driver) == [{"a": 4}, {"a": 4}, {"a": 2}]
    assert driver.scheduler.requests["a"].num_output_placeholders == 1


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("counts", [False, True])
def test_no_step_is_scheduled_whose_output_nobody_takes(depth: int, counts: bool) -> None:
    """0.22.1 avoids it with two steps in flight, and not with more."""
    driver = run(add(max_tokens=6), RUN, queue_depth=depth, stop_check_counts_frames=counts)
    num_steps = sum("a" in order for order in orders(driver))
    assert len(outputs(driver)) == 6
    assert num_steps == 6 + (0 if counts else depth - 2)


def test_the_stop_check_passes_over_nobody_who_may_get_more() -> None:
    """A request with no output in flight is scheduled, even at its last token."""
    driver = run(add(max_tokens=2), SCHEDULE, UPDATE, SCHEDULE, stop_check_counts_frames=True)
    assert orders(driver) == [{"a": 10}, {"a": 1}]


def test_a_block_is_cached_when_the_step_that_filled_it_returns() -> None:
    """When that step is scheduled, the tokens to hash are not known yet."""
    driver = run(add(prompt=7, max_tokens=9), SCHEDULE, SCHEDULE, SCHEDULE)
    (tables,) = driver.scheduler.kv_cache_manager.coordinator.single_type_managers
    assert tables.num_cached_block["a"] == 1
    driver.do_update({})
    assert tables.num_cached_block["a"] == 1, "its last token is known, and still being computed"
    driver.do_update({})
    assert tables.num_cached_block["a"] == 2


def test_an_output_for_a_preempted_request_is_kept() -> None:
    """And what is owed to it still: the resumed request does not sample it again."""
    events = [add("a", 11, max_tokens=9), add("b", 11, max_tokens=9)]
    driver = run(*events, RUN, num_blocks=8, queue_depth=3)
    preempted = [line["preempted"] for line in driver.lines if line.get("preempted")]
    assert preempted and len(outputs(driver, "a")) == len(outputs(driver, "b")) == 9


def test_a_reset_drops_what_is_in_flight() -> None:
    """One frame for each output owed; the same positions are sampled again."""
    driver = run(add(max_tokens=5), SCHEDULE, SCHEDULE, RESET)
    request = driver.scheduler.requests["a"]
    assert (request.num_output_placeholders, request.async_tokens_to_discard) == (0, 2)
    driver.do_drain({})
    assert outputs(driver) == [] and request.async_tokens_to_discard == 0
    driver.do_run({"max_steps": 20})
    assert len(outputs(driver)) == 5


@pytest.mark.parametrize(("adds_up", "discard"), [(False, 1), (True, 3)])
def test_a_second_reset_drops_what_the_first_left(adds_up: bool, discard: int) -> None:
    """0.22.1 forgets the first: frames of before it are then taken for outputs owed."""
    events = [add(max_tokens=9), SCHEDULE, SCHEDULE, RESET, SCHEDULE, RESET]
    driver = run(*events, discards_add_up=adds_up)
    assert driver.scheduler.requests["a"].async_tokens_to_discard == discard
    if adds_up:
        driver.do_drain({})
        assert outputs(driver) == []


@pytest.mark.parametrize("once", [False, True])
def test_a_synchronous_request_is_owed_each_output_once(once: bool) -> None:
    """Preempted and resumed with its output in flight, 0.22.1 samples the position twice."""
    events = [add(max_tokens=9), SCHEDULE, RESET, SCHEDULE]
    driver = run(*events, ahead=False, outputs_owed_once=once)
    request = driver.scheduler.requests["a"]
    assert request.is_prefill_chunk == once
    assert request.num_output_placeholders == once
    driver.do_drain({})
    assert len(outputs(driver)) == (1 if once else 2)
    # A token of two for one position: what follows was computed from the wrong sequence.
    assert (request.num_computed_tokens == request.num_tokens - 1) == once


def test_synchronously_what_is_owed_decides_nothing_else() -> None:
    """Neither how many tokens are scheduled, nor what workers count, nor what a reset drops."""
    driver = run(add(max_tokens=9), SCHEDULE, SCHEDULE, ahead=False, outputs_owed_once=True)
    assert orders(driver) == [{"a": 10}, {}]
    driver = run(add(max_tokens=9), SCHEDULE, RESET, ahead=False, outputs_owed_once=True)
    request = driver.scheduler.requests["a"]
    assert (request.num_output_placeholders, request.async_tokens_to_discard) == (1, 0)
    driver = run(add(max_tokens=9), SCHEDULE, RESET, SCHEDULE, ahead=False, outputs_owed_once=True)
    assert [one[3] for one in driver.lines[-1]["cached"]] == [0]


def test_an_output_of_an_earlier_owner_of_the_id_is_owed_to_nobody() -> None:
    """0.22.1 raises where the new one has nothing in flight; matched frames are passed over."""
    events = [add(), SCHEDULE, {"op": "abort", "ids": ["a"]}, add(prompt=7), UPDATE]
    scenario = {"config": {"async_scheduling": True}, "events": events}
    assert Driver(NAMES, scenario).run()[-1]["ev"] == "EXCEPTION"
    assert outputs(run(*events, frames_match_request=True)) == []


@pytest.mark.parametrize("ahead", [False, True])
def test_stages_are_told_tokens_only_where_they_cannot_hand_them_on(ahead: bool) -> None:
    """With pipeline parallelism: the tokens to compute, synchronously; nothing asynchronously."""
    options = {"pipeline_parallel_size": 2, "max_num_batched_tokens": 6}
    driver = run(add(max_tokens=2), SCHEDULE, SCHEDULE, DRAIN, ahead=ahead, **options)
    told = [line["new_token_ids"] for line in driver.lines if line["ev"] == "schedule"]
    assert told == ([[], []] if ahead else [[], [[6, 7, 8, 9]]])


def test_with_nothing_in_flight_both_schedulers_schedule_alike() -> None:
    """A batch queue of one step makes the modes equal in what they schedule."""
    events = [add("a", 11, max_tokens=9), add("b", 11, max_tokens=9), RUN]
    ahead, plain = (
        run(*events, ahead=is_ahead, num_blocks=8, queue_depth=1) for is_ahead in (True, False)
    )
    assert orders(ahead) == orders(plain) and outputs(ahead) == outputs(plain)
