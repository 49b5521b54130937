"""Waiting queues, stop conditions, and a few small functions."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nullblock.reference.engine import EngineCoreRequest, FinishReason
from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sampling_params import RepetitionDetectionParams, SamplingParams
from nullblock.reference.sched.request_queue import (
    FCFSRequestQueue,
    SchedulingPolicy,
    create_request_queue,
)
from nullblock.reference.sched.utils import check_sequence_repetition, check_stop, remove_all
from nullblock.reference.utils import ConstantList, cdiv
from nullblock.spec.profiles import VLLM_0_22_1, VLLM_0_32_0, Semantics


def request_of(name: str, priority: int = 0, arrival_time: float = 0.0, **params: Any) -> Request:
    """A request of one token."""
    sampling_params = SamplingParams(**params)
    return Request(name, [1], sampling_params, None, priority=priority, arrival_time=arrival_time)


def test_first_come_first_served_has_a_front() -> None:
    """Prepending goes before everything; a whole queue ends up reversed."""
    queue = create_request_queue(SchedulingPolicy.FCFS)
    a, b, c, d, e = (request_of(name) for name in "abcde")
    queue.add_request(a)
    queue.add_request(b)
    queue.prepend_request(c)
    assert queue.peek_request() is c and list(queue) == [c, a, b]
    queue.prepend_requests(FCFSRequestQueue([d, e]))
    assert list(queue) == [e, d, c, a, b] and len(queue) == 5
    queue.remove_request(c)
    queue.remove_requests([a, e, c])
    assert list(queue) == [d, b]
    assert queue.pop_request() is d and queue.pop_request() is b and not queue


REQUESTS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=9)


@given(ranks=REQUESTS, removed=st.sets(st.integers(0, 8)))
def test_priority_serves_the_smallest_rank(
    ranks: list[tuple[int, int]], removed: set[int]
) -> None:
    """By priority, then arrival, then id, whatever was added, prepended or removed before."""
    queue = create_request_queue(SchedulingPolicy.PRIORITY)
    requests = [request_of(f"r{i}", *rank) for i, rank in enumerate(ranks)]
    for i, request in enumerate(requests):
        if i % 2:
            queue.add_request(request)
        else:
            queue.prepend_request(request)
    leaving = [request for i, request in enumerate(requests) if i in removed]
    if len(leaving) == 1:
        queue.remove_request(leaving[0])
    else:
        queue.remove_requests(leaving)
    staying = [request for request in requests if request not in leaving]
    wanted = sorted(staying, key=lambda r: (r.priority, r.arrival_time, r.request_id))
    assert list(queue) == wanted and len(queue) == len(wanted)
    other = create_request_queue(SchedulingPolicy.PRIORITY)
    other.prepend_requests(queue)
    assert bool(other) is bool(wanted)
    if wanted:
        assert other.peek_request() is wanted[0]
    assert [other.pop_request() for _ in wanted] == wanted


@pytest.mark.parametrize("policy", list(SchedulingPolicy))
def test_what_changes_in_a_queue_is_put_in_order_when_one_says_so(
    policy: SchedulingPolicy,
) -> None:
    """By priority the first one, which arrives anew, comes last from then on, and not before; a
    queue that is served as it came stays as it is.
    """
    queue = create_request_queue(policy)
    a, b, c = (request_of(name, arrival_time=n) for n, name in enumerate("abc"))
    for request in (a, b, c):
        queue.add_request(request)
    a.arrival_time = 9
    assert queue.peek_request() is a
    queue.reorder()
    first_come = policy is SchedulingPolicy.FCFS
    assert list(queue) == ([a, b, c] if first_come else [b, c, a])
    assert queue.peek_request() is (a if first_come else b)


@pytest.mark.parametrize("policy", list(SchedulingPolicy))
def test_an_empty_queue_has_no_head(policy: SchedulingPolicy) -> None:
    """Neither to look at nor to take."""
    queue = create_request_queue(policy)
    assert not queue and len(queue) == 0
    with pytest.raises(IndexError):
        queue.peek_request()
    with pytest.raises(IndexError):
        queue.pop_request()
    with pytest.raises(ValueError):
        queue.remove_request(request_of("a"))


def test_requests_with_one_rank_are_still_ordered() -> None:
    """Of two with the same id exactly one is first."""
    one, other = request_of("a"), request_of("a")
    assert (one < other) is not (other < one)


def stop_of(outputs: list[int], *, length: int = 99, switch: bool = False, **params: Any) -> Any:
    """How a request with a prompt of one token and those outputs stops: status, reason."""
    request = request_of("r", **{"max_tokens": 8, **params})
    request.append_output_token_ids(outputs)
    semantics = replace(VLLM_0_22_1, length_before_min_tokens=switch)
    if not check_stop(request, length, semantics=semantics):
        assert request.status is RequestStatus.WAITING and request.stop_reason is None
        return None
    return request.get_finished_reason(), request.stop_reason


def test_the_stop_conditions_come_in_their_order() -> None:
    """A stop token before the length; the length at exactly its limit, and not one before."""
    assert stop_of([5], stop_token_ids=[5]) == (FinishReason.STOP, 5)
    assert stop_of([4], stop_token_ids=[5]) is None
    assert stop_of([1, 2, 5], stop_token_ids=[5], max_tokens=3) == (FinishReason.STOP, 5)
    assert stop_of([1, 2, 4], max_tokens=3) == (FinishReason.LENGTH, None)
    assert stop_of([1, 2], max_tokens=3) is None
    assert stop_of([1, 2], length=3) == (FinishReason.LENGTH, None)
    assert stop_of([1, 2], length=4) is None


def test_the_eos_comes_before_stop_tokens_and_may_be_ignored() -> None:
    """It leaves no stop reason; ignored, it is a token as any other."""
    for ignore_eos, wanted in ((False, (FinishReason.STOP, None)), (True, (FinishReason.STOP, 5))):
        request = request_of("r", stop_token_ids=[5], ignore_eos=ignore_eos)
        request.sampling_params.update_from_generation_config({}, 5)
        assert request.sampling_params.all_stop_token_ids == {5}
        request.append_output_token_ids(5)
        assert check_stop(request, 99)
        assert (request.get_finished_reason(), request.stop_reason) == wanted


def test_below_min_tokens_nothing_stops_a_request() -> None:
    """Not even the length, in vLLM; at min_tokens everything may."""
    params = {"min_tokens": 3, "stop_token_ids": [5]}
    assert stop_of([1, 5], **params) is None
    assert stop_of([1, 2, 5], **params) == (FinishReason.STOP, 5)
    assert stop_of([1, 2], length=3, **params) is None
    assert stop_of([1, 2], length=3, switch=True, **params) == (FinishReason.LENGTH, None)
    assert stop_of([1, 5], switch=True, **params) is None


def test_a_loop_in_the_output_stops_it() -> None:
    """A pattern of two, three times over, at the end."""
    params = RepetitionDetectionParams(max_pattern_size=3, min_pattern_size=2, min_count=3)
    assert stop_of([9, 1, 2, 1, 2, 1, 2], repetition_detection=params) == (
        FinishReason.REPETITION,
        "repetition_detected",
    )
    assert stop_of([9, 1, 2, 1, 2, 1, 3], repetition_detection=params) is None
    assert stop_of([1, 2, 1, 2], repetition_detection=params) is None


@pytest.mark.parametrize("semantics", [VLLM_0_22_1, VLLM_0_32_0])
def test_a_loop_below_min_tokens_does_not_stop_it(semantics: Semantics) -> None:
    """UPD-70: in no line, whatever eos and stop tokens may do there."""
    params = RepetitionDetectionParams(max_pattern_size=1, min_count=2)
    for min_tokens, wanted in ((4, False), (3, True)):
        request = request_of("r", min_tokens=min_tokens, repetition_detection=params)
        for token in (1, 1, 1):
            request.append_output_token_ids(token)
        assert check_stop(request, 99, semantics=semantics) is wanted


@given(
    tokens=st.lists(st.integers(0, 1), max_size=14),
    smallest=st.integers(0, 3),
    more=st.integers(0, 3),
    count=st.integers(2, 4),
)
def test_a_repetition_is_a_suffix_that_is_a_power(
    tokens: list[int], smallest: int, more: int, count: int
) -> None:
    """The definition, tried out on every suffix."""
    params = RepetitionDetectionParams(smallest + more, smallest, count)
    sizes = range(max(smallest, 1), smallest + more + 1)
    wanted = any(
        len(tokens) >= size * count and tokens[-size * count :] == tokens[-size:] * count
        for size in sizes
    )
    assert check_sequence_repetition(tokens, params) is wanted


def test_parameters_that_cannot_be_met_are_refused() -> None:
    """Each says which value is wrong."""
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"max_tokens": 0}, "max_tokens must be at least 1"),
        ({"min_tokens": -1}, "min_tokens must not be negative"),
        ({"min_tokens": 5, "max_tokens": 4}, "got 5 and 4"),
        ({"stop_token_ids": ["x"]}, "integers"),
        ({"n": 0}, "n must be"),
        ({"temperature": -1.0}, "temperature"),
    ]
    for params, message in wrong:
        with pytest.raises(ValueError, match=message):
            SamplingParams(**params)
    with pytest.raises(ValueError, match="min_count"):
        RepetitionDetectionParams(max_pattern_size=2)
    with pytest.raises(ValueError, match="min_pattern_size"):
        RepetitionDetectionParams(max_pattern_size=1, min_pattern_size=2)


def test_sampling_parameters_fill_in_what_depends_on_others() -> None:
    """Lists for None, the cache flag from prompt logprobs, further end tokens from the model."""
    params = SamplingParams(stop="x")
    assert (params.stop, params.stop_token_ids, params.skip_reading_prefix_cache) == (
        ["x"],
        [],
        False,
    )
    assert SamplingParams(prompt_logprobs=1).skip_reading_prefix_cache
    assert SamplingParams(logprobs=2).num_logprobs == 2
    params = SamplingParams(stop_token_ids=[3])
    params.update_from_generation_config({"eos_token_id": [1, 2]}, 2)
    assert params.eos_token_id == 2 and sorted(params.stop_token_ids or ()) == [1, 3]
    assert params.all_stop_token_ids == {1, 2, 3}
    copy = params.clone()
    assert copy == params and copy.all_stop_token_ids is not params.all_stop_token_ids
    ignoring = SamplingParams(ignore_eos=True)
    ignoring.update_from_generation_config({"eos_token_id": 1}, 2)
    assert ignoring.eos_token_id is None and ignoring.stop_token_ids == []


def test_a_request_can_be_made_from_what_a_front_end_sends() -> None:
    """Field by field, and with the hashes of its prompt."""
    sent = EngineCoreRequest(
        request_id="r",
        prompt_token_ids=[1, 2, 3],
        mm_features=None,
        sampling_params=SamplingParams(max_tokens=5),
        pooling_params=None,
        arrival_time=2.5,
        lora_request=None,
        cache_salt="na",
        data_parallel_rank=None,
        client_index=3,
        priority=-1,
        trace_headers={"a": "b"},
    )
    request = Request.from_engine_core_request(sent, lambda request: [])
    assert (request.request_id, list(request.all_token_ids)) == ("r", [1, 2, 3])
    assert (request.max_tokens, request.arrival_time, request.cache_salt) == (5, 2.5, "na")
    assert (request.client_index, request.priority) == (3, -1)
    assert request.trace_headers == {"a": "b"} and request.num_tokens_with_spec == 3
    assert request.sampling_params is sent.sampling_params


def test_a_finished_status_has_a_reason_and_no_other_has() -> None:
    """Finished is whatever follows PREEMPTED."""
    for status in RequestStatus:
        finished = status > RequestStatus.PREEMPTED
        assert RequestStatus.is_finished(status) is finished
        # A session that waits for its next chunk has stopped, and has not ended.
        has_stopped = finished or status is RequestStatus.WAITING_FOR_STREAMING_REQ
        assert (RequestStatus.get_finished_reason(status) is not None) is has_stopped
    assert [str(reason) for reason in FinishReason] == (
        ["stop", "length", "abort", "error", "repetition", "rejected"]
    )
    assert RequestStatus.get_finished_reason(RequestStatus.FINISHED_IGNORED) is FinishReason.LENGTH
    assert str(RequestStatus.RUNNING) == "RUNNING"


def test_removing_one_item_keeps_the_list_and_several_make_a_new_one() -> None:
    """As vLLM's callers see it."""
    items = [1, 2, 3]
    assert remove_all(items, set()) is items
    assert remove_all(items, {2}) is items and items == [1, 3]
    assert remove_all(items, {9}) is items and items == [1, 3]
    assert remove_all(items, {1, 9}) == [3] and items == [1, 3]


@given(a=st.integers(), b=st.integers(min_value=1))
def test_cdiv_rounds_up(a: int, b: int) -> None:
    """The smallest multiple that is not below."""
    assert (cdiv(a, b) - 1) * b < a <= cdiv(a, b) * b


def test_a_view_follows_its_list_and_cannot_change_it() -> None:
    """It reads as a list and has no way to write."""
    items = [1, 2]
    view = ConstantList(items)
    items.append(3)
    assert list(view) == [1, 2, 3] and view[-1] == 3 and view[:2] == [1, 2] and len(view) == 3
    assert 3 in view and repr(view) == "ConstantList([1, 2, 3])"
    assert view.copy() == items and view.copy() is not items
    with pytest.raises(TypeError):
        view[0] = 5  # type: ignore[index]
