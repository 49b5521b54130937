"""Names of vLLM's that decide nothing: what code written against its core finds, and gets."""

from types import SimpleNamespace
from typing import Any

import pytest
from vllm_shaped_driver import DEFAULTS, vllm_config

from nullblock.reference import kv_events
from nullblock.reference.engine import EngineCoreRequest
from nullblock.reference.errors import UnsupportedFeature
from nullblock.reference.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
)
from nullblock.reference.multimodal.inputs import PlaceholderRange
from nullblock.reference.pooling_params import PoolingParams
from nullblock.reference.request import Request
from nullblock.reference.sampling_params import SamplingParams, StructuredOutputsParams
from nullblock.reference.sched.async_scheduler import AsyncScheduler
from nullblock.reference.sched.output import CachedRequestData, NewRequestData
from nullblock.reference.stats import CachingMetrics, PrefixCacheStats
from nullblock.reference.structured_output.request import (
    StructuredOutputOptions,
    StructuredOutputRequest,
)
from nullblock.reference.utils import ConstantList


def test_a_constant_list_has_a_list_s_methods_and_refuses_to_change() -> None:
    """By TypeError, as vLLM's does; its owner sees no change."""
    tokens = [1, 2, 1]
    view: Any = ConstantList(tokens)
    for change in (
        lambda: view.append(3),
        lambda: view.extend([3]),
        lambda: view.insert(0, 3),
        lambda: view.pop(0),
        lambda: view.remove(1),
        lambda: view.clear(),
        lambda: view.__setitem__(0, 3),
        lambda: view.__delitem__(0),
    ):
        with pytest.raises(TypeError):
            change()
    assert tokens == [1, 2, 1] and view.index(1, 1) == 2


def test_data_for_workers_may_be_told_without_the_prompt() -> None:
    """Of tokens, how many they are; of embeddings, their shape."""
    request = Request("r", [7, 8, 9], SamplingParams(max_tokens=1), None)
    request.prompt_embeds = SimpleNamespace(shape=(3, 5))
    new = NewRequestData.from_request(request, ([1],), [7, 8, 9])
    assert new.anon_repr() == (
        "NewRequestData(req_id=r,prompt_token_ids_len=3,prefill_token_ids_len=3,mm_features=[],"
        f"sampling_params={request.sampling_params},block_ids=([1],),num_computed_tokens=0,"
        "lora_request=None,prompt_embeds_shape=(3, 5))"
    )
    assert "prompt_token_ids=[7, 8, 9],prefill_token_ids=[7, 8, 9]," in repr(new)
    cached = CachedRequestData(["r"], {"r"}, [[7, 8]], {"r": [7, 8, 9]}, [([1],)], [2], [1])
    assert repr(cached) == cached.anon_repr()
    assert cached.anon_repr() == (
        "CachedRequestData(req_ids=['r'],resumed_req_ids={'r'},new_token_ids_lens=[2],"
        "all_token_ids_lens={'r': 3},new_block_ids=[([1],)],num_computed_tokens=[2],"
        "num_output_tokens=[1])"
    )


def test_a_request_says_whether_it_reads_the_prefix_cache() -> None:
    """The sampling parameters say it, or the pooling parameters; as they are when it is asked."""
    request = Request("r", [1], SamplingParams(prompt_logprobs=1), None)
    assert request.get_skip_reading_prefix_cache()
    assert request.sampling_params is not None
    request.sampling_params.skip_reading_prefix_cache = False
    assert not request.get_skip_reading_prefix_cache()


def test_a_front_end_s_request_has_one_kind_of_parameters() -> None:
    """Whichever it is."""
    sampling, pooling = SamplingParams(), PoolingParams()
    for given in ((sampling, None), (None, pooling)):
        request = EngineCoreRequest("r", [1], None, *given, 0.0, None, None, None)
        assert request.params is (given[0] or given[1])


def test_a_grammar_is_known_by_its_key() -> None:
    """What it is written in, and the text; a schema and a choice as JSON."""
    options = StructuredOutputOptions
    for given, key in (
        ({"json": {"type": "object"}}, (options.JSON, '{"type": "object"}')),
        ({"json": "{}"}, (options.JSON, "{}")),
        ({"json_object": True}, (options.JSON_OBJECT, "")),
        ({"regex": "a+"}, (options.REGEX, "a+")),
        ({"choice": ["a", "b"]}, (options.CHOICE, '["a", "b"]')),
        ({"grammar": "g"}, (options.GRAMMAR, "g")),
        ({"structural_tag": "t"}, (options.STRUCTURAL_TAG, "t")),
    ):
        params: dict[str, Any] = given
        wanted = StructuredOutputRequest(StructuredOutputsParams(**params))
        assert wanted.structured_output_key == key


def test_runs_of_embeddings_in_a_prompt() -> None:
    """First and last position of each; without a mask it is one run."""
    mask = [False, True, False, True, True]
    assert PlaceholderRange(2, 5, mask).extract_embeds_range() == [(3, 3), (5, 6)]
    assert PlaceholderRange(2, 5).extract_embeds_range() == [(2, 6)]
    assert PlaceholderRange(2, 2, [False, False]).extract_embeds_range() == []


def test_the_rate_of_hits_is_of_the_most_recent_requests() -> None:
    """Old reports go when there are too many requests, a reset forgets all, empty ones are
    nothing.
    """
    metrics = CachingMetrics(max_recent_requests=3)
    assert metrics.empty and metrics.hit_rate == 0.0
    metrics.observe(PrefixCacheStats(requests=2, queries=10, hits=10))
    metrics.observe(PrefixCacheStats())
    metrics.observe(PrefixCacheStats(requests=1, queries=10, hits=5))
    assert metrics.hit_rate == 0.75
    metrics.observe(PrefixCacheStats(requests=4, queries=10, hits=1))
    assert metrics.hit_rate == 0.1 and not metrics.empty
    metrics.observe(PrefixCacheStats(reset=True))
    assert metrics.empty and not metrics.query_queue


def test_events_of_blocks_can_be_members_of_sets() -> None:
    """Equal events are one."""

    def stored(*keys: Any) -> kv_events.BlockStored:
        return kv_events.BlockStored([1, 2], 3, [4, 5], 1, None, "GPU", None, list(keys) or None)

    assert len({stored(), stored(), stored(("salt",), None)}) == 2
    removed = [kv_events.BlockRemoved([1], "GPU", group) for group in (0, 0, 1)]
    assert len(set(removed)) == 2


def test_a_publisher_may_be_registered() -> None:
    """It is made with the other fields of the configuration; a name is taken once, or unknown."""
    factory = kv_events.EventPublisherFactory

    class Noting(kv_events.NullEventPublisher):
        def __init__(self, data_parallel_rank: int, topic: str) -> None:
            super().__init__(data_parallel_rank)
            self.topic = topic

    config = SimpleNamespace(enable_kv_cache_events=True, publisher="noting", topic="t")
    with pytest.raises(ValueError, match="no publisher 'noting'"):
        factory.create(config)
    factory.register_publisher("noting", Noting)
    try:
        with pytest.raises(KeyError):
            factory.register_publisher("noting", Noting)
        publisher = factory.create(config, 3)
        assert isinstance(publisher, Noting)
        assert (publisher.topic, publisher._data_parallel_rank) == ("t", 3)
    finally:
        del factory._registry["noting"]


IMPOSSIBLE: tuple[dict[str, Any], ...] = (
    {"n": 2, "temperature": 0.0},
    {"presence_penalty": 2.5},
    {"frequency_penalty": -2.5},
    {"repetition_penalty": 0.0},
    {"top_p": 0.0},
    {"top_k": -2},
    {"min_p": 1.5},
    {"logprobs": -2},
    {"prompt_logprobs": -2},
    {"stop": [""]},
    {"stop": "end", "detokenize": False},
    {"bad_words": [""]},
)


@pytest.mark.parametrize("given", IMPOSSIBLE, ids=str)
def test_impossible_sampling_parameters_are_refused(given: dict[str, Any]) -> None:
    """When they are made."""
    with pytest.raises(ValueError, match=r", got "):
        SamplingParams(**given)


def test_sampling_parameters_fill_what_follows_from_others() -> None:
    """Greedy sampling has no tail to cut; True means one log probability."""
    greedy = SamplingParams(temperature=0.0, top_p=0.5, top_k=7, min_p=0.5)
    assert (greedy.top_p, greedy.top_k, greedy.min_p) == (1.0, 0, 0.0)
    params = SamplingParams(temperature=0.001, seed=-1, logprobs=True, stop=["ab", "abcd"])
    assert (params.temperature, params.seed, params.logprobs) == (0.01, None, 1)
    assert (params.bad_words, params.output_text_buffer_length) == ([], 3)
    assert SamplingParams(logprob_token_ids=[5, 6]).num_logprobs == 2


def test_a_front_end_may_leave_parameters_out() -> None:
    """None stands for a default, where a default is no None; biases are bounded."""
    given: dict[str, Any] = {"n": None, "temperature": None, "top_p": None, "max_tokens": None}
    params = SamplingParams.from_optional(
        **given, logit_bias={"5": 500, 6: -500}, thinking_token_budget=9
    )
    assert (params.n, params.temperature, params.top_p, params.max_tokens) == (1, 1.0, 1.0, None)
    assert params.logit_bias == {5: 100.0, 6: -100.0} and params.thinking_token_budget == 9


def test_a_scheduler_has_what_its_configuration_says() -> None:
    """Ranks, observability, and placeholders for the drafts that workers make."""
    config = vllm_config({**DEFAULTS, "async_scheduling": True})
    config.speculative_config = SimpleNamespace(
        num_speculative_tokens=2, use_eagle=lambda: False, uses_draft_model=lambda: False
    )
    spec = FullAttentionSpec(block_size=16, num_kv_heads=1, head_size=1, dtype=None)
    cache = KVCacheConfig(8, [], [KVCacheGroupSpec(["l"], spec)])
    scheduler = AsyncScheduler(config, cache, None, 16)
    assert (scheduler.dcp_world_size, scheduler.pcp_world_size) == (1, 1)
    assert scheduler.observability_config is config.observability_config
    assert scheduler.kv_metrics_collector is scheduler.perf_metrics is None
    manager = scheduler.kv_cache_manager
    assert manager.metrics_collector is manager.block_pool.metrics_collector is None
    assert scheduler._spec_token_placeholders == [-1, -1]
    config.observability_config.enable_mfu_metrics = True
    AsyncScheduler(config, cache, None, 16)
    with pytest.raises(UnsupportedFeature, match="metrics of a model's work"):
        AsyncScheduler(config, cache, None, 16, log_stats=True)
