"""The scheduler through its public surface: queues, refusals, clients, statistics."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from vllm_shaped_driver import DEFAULTS, vllm_config

from nullblock.reference import kv_cache_utils as utils
from nullblock.reference.engine import EngineCoreEventType, EngineCoreOutput, FinishReason
from nullblock.reference.errors import UnsupportedFeature
from nullblock.reference.hashing import sha256
from nullblock.reference.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    SinkFullAttentionSpec,
    SlidingWindowSpec,
)
from nullblock.reference.outputs import (
    EMPTY_MODEL_RUNNER_OUTPUT,
    KVConnectorOutput,
    ModelRunnerOutput,
)
from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sampling_params import SamplingParams
from nullblock.reference.sched.interface import PauseState
from nullblock.reference.sched.output import CachedRequestData, SchedulerOutput
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.spec.profiles import VLLM_0_32_0

utils.init_none_hash(sha256)
HASHER = utils.get_request_block_hasher(4, sha256)


def scheduler_of(options: dict[str, Any] | None = None, **config: Any) -> Scheduler:
    """A scheduler over blocks of four tokens."""
    c = {**DEFAULTS, "block_size": 4, "num_blocks": 32, "max_model_len": 64, **config}
    spec = FullAttentionSpec(block_size=4, num_kv_heads=1, head_size=1, dtype=None)
    return Scheduler(
        vllm_config=vllm_config(c),
        kv_cache_config=KVCacheConfig(c["num_blocks"], [], [KVCacheGroupSpec(["l"], spec)]),
        structured_output_manager=None,
        block_size=4,
        **(options or {}),
    )


def request_of(name: str, tokens: range = range(6), **options: Any) -> Request:
    """A request with those tokens."""
    own = {"priority", "arrival_time", "client_index", "trace_headers"} & set(options)
    of_request = {key: options.pop(key) for key in own}
    params = SamplingParams(**{"max_tokens": 4, **options})
    return Request(name, list(tokens), params, None, block_hasher=HASHER, **of_request)


def update(scheduler: Scheduler, out: SchedulerOutput, token: int = 7) -> list[EngineCoreOutput]:
    """Every request that finished its prefill samples ``token``; the outputs of all clients."""
    ids = list(out.num_scheduled_tokens)
    chunks = [
        name in scheduler.requests and scheduler.requests[name].is_prefill_chunk for name in ids
    ]
    sampled = [[] if chunk else [token] for chunk in chunks]
    indices = {name: i for i, name in enumerate(ids)}
    by_client = scheduler.update_from_output(out, ModelRunnerOutput(ids, indices, sampled))
    return [output for outputs in by_client.values() for output in outputs.outputs]


def test_a_request_lives_from_arrival_to_its_last_token() -> None:
    """What workers and the front end hear of it, step by step."""
    scheduler = scheduler_of()
    scheduler.add_request(request_of("r", max_tokens=2, trace_headers={"a": "b"}))
    assert scheduler.get_request_counts() == (0, 1)
    out = scheduler.schedule()
    (new,) = out.scheduled_new_reqs
    assert (new.req_id, new.block_ids, new.num_computed_tokens) == ("r", ([1, 2],), 0)
    assert new.prompt_token_ids == list(range(6)) and new.sampling_params is not None
    (first,) = update(scheduler, out)
    assert (first.new_token_ids, first.finished, first.trace_headers) == ([7], False, {"a": "b"})
    assert first.prefill_stats is not None and first.prefill_stats.num_computed_tokens == 6
    out = scheduler.schedule()
    cached = out.scheduled_cached_reqs
    assert (cached.req_ids, cached.new_block_ids, cached.num_computed_tokens) == (
        ["r"],
        [None],
        [6],
    )
    assert cached.num_output_tokens == [1] and cached.all_token_ids == {}
    assert cached.num_reqs == 1 and not cached.is_context_phase("r")
    (second,) = update(scheduler, out)
    assert (second.finish_reason, second.prefill_stats) == (FinishReason.LENGTH, None)
    assert scheduler.requests == {} and scheduler.running == []
    assert scheduler.has_finished_requests() and not scheduler.has_unfinished_requests()
    assert scheduler.schedule().finished_req_ids == {"r"}
    assert not scheduler.has_requests()


def test_several_tokens_are_cut_at_the_stop_in_place() -> None:
    """What follows the stop is dropped from the caller's list as well."""
    scheduler = scheduler_of()
    scheduler.add_request(request_of("r", max_tokens=9, stop_token_ids=[5]))
    out = scheduler.schedule()
    sampled = [[3, 5, 8, 9]]
    outputs = scheduler.update_from_output(out, ModelRunnerOutput(["r"], {"r": 0}, sampled))
    (output,) = outputs[0].outputs
    assert output.new_token_ids == [3, 5] and sampled == [[3, 5]]
    assert (output.finish_reason, output.stop_reason) == (FinishReason.STOP, 5)


def test_an_update_without_samples_changes_nothing() -> None:
    """An empty list of samples stands for none, as in vLLM."""
    scheduler = scheduler_of()
    scheduler.add_request(request_of("r"))
    out = scheduler.schedule()
    assert scheduler.update_from_output(out, ModelRunnerOutput(["r"], {"r": 0})) == {}
    assert scheduler.requests["r"].num_output_tokens == 0
    assert (
        scheduler.update_from_output(SchedulerOutput.make_empty(), EMPTY_MODEL_RUNNER_OUTPUT) == {}
    )


def test_outputs_go_to_the_client_that_asked() -> None:
    """Each client gets its own, and the ids that ended if they are wanted."""
    scheduler = scheduler_of({"include_finished_set": True})
    for client, (name, max_tokens) in enumerate((("a", 1), ("b", 2), ("c", 9))):
        scheduler.add_request(request_of(name, max_tokens=max_tokens, client_index=client))
    assert scheduler.finish_requests("c", RequestStatus.FINISHED_ABORTED) == [("c", 2)]
    out = scheduler.schedule()
    sampled = ModelRunnerOutput(["a", "b"], {"a": 0, "b": 1}, [[1], [2]])
    by_client = scheduler.update_from_output(out, sampled)
    assert [o.request_id for o in by_client[0].outputs] == ["a"]
    assert by_client[0].finished_requests == {"a"}
    assert [o.request_id for o in by_client[1].outputs] == ["b"]
    assert by_client[1].finished_requests is None
    assert by_client[2].outputs == [] and by_client[2].finished_requests == {"c"}
    out = scheduler.schedule()
    sampled = ModelRunnerOutput(["b"], {"b": 0}, [[2]])
    assert list(scheduler.update_from_output(out, sampled)) == [1]


def test_statistics_come_with_one_client_even_without_outputs() -> None:
    """And milestones come with the outputs."""
    scheduler = scheduler_of({"log_stats": True}, num_blocks=9)
    assert scheduler_of().make_stats() is None
    scheduler.add_request(request_of("r", max_tokens=2))
    out = scheduler.schedule()
    by_client = scheduler.update_from_output(out, ModelRunnerOutput(["r"], {"r": 0}, [[1]]))
    stats = by_client[0].scheduler_stats
    assert stats is not None and (stats.num_running_reqs, stats.num_waiting_reqs) == (1, 0)
    assert stats.kv_cache_usage == 0.25 and stats.prefix_cache_stats.queries == 6
    (output,) = by_client[0].outputs
    assert output.events is not None
    kinds = [event.type for event in output.events]
    assert kinds == [EngineCoreEventType.QUEUED, EngineCoreEventType.SCHEDULED]
    scheduler.reset_prefix_cache(reset_running_requests=True)
    empty = scheduler.update_from_output(SchedulerOutput.make_empty(), EMPTY_MODEL_RUNNER_OUTPUT)
    assert empty[0].outputs == [] and empty[0].scheduler_stats is not None
    assert empty[0].scheduler_stats.num_waiting_reqs == 1
    events = scheduler.requests["r"].take_events()
    assert events is not None and [e.type for e in events] == [EngineCoreEventType.PREEMPTED]


def test_a_live_id_cannot_be_added_again() -> None:
    """It can once the first has ended."""
    scheduler = scheduler_of()
    scheduler.add_request(request_of("r"))
    with pytest.raises(AssertionError, match="duplicate request id: 'r'"):
        scheduler.add_request(request_of("r"))
    scheduler.finish_requests(["r", "unknown"], RequestStatus.FINISHED_ABORTED)
    scheduler.add_request(request_of("r"))
    assert scheduler.get_request_counts() == (0, 1)


def test_requests_can_only_be_finished_with_a_finished_status() -> None:
    """Not put back to waiting."""
    with pytest.raises(AssertionError):
        scheduler_of().finish_requests(None, RequestStatus.WAITING)


def test_ending_requests_takes_them_out_of_their_queues() -> None:
    """Running, waiting and preempted alike, and in one call."""
    scheduler = scheduler_of(max_num_seqs=2)
    for i, name in enumerate("abcd"):
        scheduler.add_request(request_of(name, range(i * 10, i * 10 + 6)))
    scheduler.schedule()
    ended = scheduler.finish_requests(["a", "c"], RequestStatus.FINISHED_ABORTED)
    assert sorted(ended) == [("a", 0), ("c", 0)]
    assert [r.request_id for r in scheduler.running] == ["b"]
    assert [r.request_id for r in scheduler.waiting] == ["d"]
    assert scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == 29
    assert [name for name, _ in scheduler.finish_requests(None, RequestStatus.FINISHED_ERROR)] == [
        "b",
        "d",
    ]
    assert scheduler.kv_cache_manager.block_pool.get_num_free_blocks() == 31


def test_the_pause_state_decides_what_counts_as_unfinished() -> None:
    """Everything, only the running, or nothing."""
    scheduler = scheduler_of(max_num_seqs=1)
    for name in "ab":
        scheduler.add_request(request_of(name))
    scheduler.schedule()
    left = []
    for state in PauseState:
        scheduler.set_pause_state(state)
        assert scheduler.pause_state is state
        left.append(scheduler.get_num_unfinished_requests())
    assert left == [2, 1, 0]
    assert scheduler.schedule().num_scheduled_tokens == {}


def test_a_reset_with_blocks_held_by_a_stranger_is_an_error() -> None:
    """Every running request was preempted, and still the pool is in use."""
    scheduler = scheduler_of()
    scheduler.kv_cache_manager.block_pool.get_new_blocks(1)
    assert not scheduler.reset_prefix_cache()
    with pytest.raises(RuntimeError, match="still held"):
        scheduler.reset_prefix_cache(reset_running_requests=True)


def test_a_request_says_how_much_it_wants() -> None:
    """Without sampling parameters, or without max_tokens in them, nobody knows."""
    with pytest.raises(ValueError, match="neither sampling_params"):
        Request("r", [1], None, None)
    with pytest.raises(AssertionError, match="max_tokens"):
        Request("r", [1], SamplingParams(max_tokens=None), None)


CONFIGURATIONS: dict[str, tuple[str, str, object]] = {
    "asynchronous": ("scheduler_config", "async_scheduling", True),
    "events on a network": (
        "",
        "kv_events_config",
        SimpleNamespace(enable_kv_cache_events=True, publisher="zmq"),
    ),
    "encoder connectors": ("", "ec_transfer_config", object()),
    "encoder-decoder": ("model_config", "is_encoder_decoder", True),
    "multimodal": ("model_config", "is_multimodal_model", True),
    "routed experts": ("model_config", "enable_return_routed_experts", True),
    "metrics": ("observability_config", "kv_cache_metrics", True),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_configuration_out_of_scope_is_refused_by_name(name: str) -> None:
    """When the scheduler is made, and not when the feature is first missed."""
    part, field, value = CONFIGURATIONS[name]
    config = vllm_config(DEFAULTS)
    setattr(getattr(config, part) if part else config, field, value)
    spec = FullAttentionSpec(block_size=4, num_kv_heads=1, head_size=1, dtype=None)
    cache = KVCacheConfig(8, [], [KVCacheGroupSpec(["l"], spec)])
    with pytest.raises(UnsupportedFeature, match=name) as refusal:
        Scheduler(config, cache, None, 4)
    assert isinstance(refusal.value, NotImplementedError)


RANKS = ("decode_context_parallel_size", "prefill_context_parallel_size")
"""Sizes of context parallelism."""


def test_block_sizes_are_the_caches_for_one_group() -> None:
    """Scheduler and hashes use the same: what a block of all ranks holds. Of several groups none
    is divided.
    """
    config = vllm_config({**DEFAULTS, "block_size": 12})
    spec = FullAttentionSpec(block_size=12, num_kv_heads=1, head_size=1, dtype=None)
    cache = KVCacheConfig(8, [], [KVCacheGroupSpec(["l"], spec)])
    assert utils.resolve_kv_cache_block_sizes(cache, config) == (12, 12)
    config.parallel_config.decode_context_parallel_size = 2
    assert utils.resolve_kv_cache_block_sizes(cache, config) == (24, 24)
    config.parallel_config.prefill_context_parallel_size = 3
    assert utils.resolve_kv_cache_block_sizes(cache, config) == (72, 72)
    cache = KVCacheConfig(8, [], [KVCacheGroupSpec([name], spec) for name in "ab"])
    with pytest.raises(ValueError, match="cannot be divided among 6 ranks"):
        utils.resolve_kv_cache_block_sizes(cache, config)


@pytest.mark.parametrize("ranks", RANKS)
def test_ranks_beside_other_layers_are_refused_by_name(ranks: str) -> None:
    """A window, a sink, several groups; in a later line, whose scheduler leaves blocks as they are
    there, ranks of prefill.
    """
    config = vllm_config(DEFAULTS)
    layer = {"block_size": 4, "num_kv_heads": 1, "head_size": 1, "dtype": None}
    full, sink = FullAttentionSpec(**layer), SinkFullAttentionSpec(**layer, sink_len=4)
    window = SlidingWindowSpec(**layer, sliding_window=6)
    for specs in ([window], [sink], [full, window]):
        cache = KVCacheConfig(8, [], [KVCacheGroupSpec([f"l{s}"], s) for s in specs])
        Scheduler(config, cache, None, 4)
        setattr(config.parallel_config, ranks, 2)
        with pytest.raises(UnsupportedFeature, match="beside anything but one group of full"):
            Scheduler(config, cache, None, 4)
        setattr(config.parallel_config, ranks, 1)
    cache = KVCacheConfig(8, [], [KVCacheGroupSpec(["l"], full)])
    setattr(config.parallel_config, ranks, 2)
    assert Scheduler(config, cache, None, 8).kv_cache_manager.block_pool.hash_block_size == 8
    config.max_in_flight_tokens = 64  # later releases have it
    in_prefill = pytest.raises(UnsupportedFeature, match="prefill context parallelism in a later")
    with in_prefill if "prefill" in ranks else nullcontext():
        Scheduler(config, cache, None, 8, semantics=VLLM_0_32_0)


def test_model_outputs_out_of_scope_are_refused_before_anything_changes() -> None:
    """Log probabilities, routed experts."""
    scheduler = scheduler_of()
    scheduler.add_request(request_of("r"))
    out = scheduler.schedule()
    extras: list[dict[str, Any]] = [
        {"logprobs": object()},
        {"prompt_logprobs_dict": {"r": object()}},
        {"routed_experts": object()},
    ]
    for extra in extras:
        with pytest.raises(UnsupportedFeature):
            scheduler.update_from_output(out, ModelRunnerOutput(["r"], {"r": 0}, [[1]], **extra))
    assert scheduler.requests["r"].num_output_tokens == 0
    assert scheduler.get_grammar_bitmask(out) is None and scheduler.get_kv_connector() is None


def test_a_resumed_request_without_outputs_is_in_its_context_phase() -> None:
    """As long as it has sampled nothing."""
    data = CachedRequestData(["a", "b"], {"b"}, [], {}, [None, None], [4, 4], [1, 0])
    assert [data.is_context_phase(name) for name in "abc"] == [False, True, False]
    assert KVConnectorOutput().is_empty() and not KVConnectorOutput({"a"}).is_empty()
