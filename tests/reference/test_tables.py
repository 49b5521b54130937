"""The KV-cache manager: hits, slots, and giving them back."""

from dataclasses import replace
from typing import Any

import pytest

from nullblock.reference import kv_cache_utils as utils
from nullblock.reference.errors import UnsupportedFeature
from nullblock.reference.full_attention import FullAttentionManager
from nullblock.reference.hashing import sha256
from nullblock.reference.kv_cache_coordinator import (
    HybridKVCacheCoordinator,
    KVCacheCoordinatorNoPrefixCache,
    UnitaryKVCacheCoordinator,
)
from nullblock.reference.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    KVCacheSpec,
    MambaSpec,
    SlidingWindowSpec,
)
from nullblock.reference.kv_cache_manager import KVCacheBlocks, KVCacheManager
from nullblock.reference.request import Request
from nullblock.reference.sampling_params import SamplingParams
from nullblock.reference.windows import SlidingWindowManager
from nullblock.spec.profiles import VLLM_0_22_1

utils.init_none_hash(sha256)
HASHER = utils.get_request_block_hasher(4, sha256)


def config_of(num_blocks: int, spec: KVCacheSpec | None = None, groups: int = 1) -> KVCacheConfig:
    """Groups of blocks of four tokens."""
    spec = spec or FullAttentionSpec(block_size=4, num_kv_heads=1, head_size=1, dtype=None)
    return KVCacheConfig(num_blocks, [], [KVCacheGroupSpec([str(i)], spec) for i in range(groups)])


def manager_of(num_blocks: int, **options: Any) -> KVCacheManager:
    """A manager of that many blocks."""
    options = {"max_model_len": 64, "hash_block_size": 4, **options}
    return KVCacheManager(config_of(num_blocks), **options)


def request_of(name: str, num_tokens: int, **options: Any) -> Request:
    """A request with tokens 0, 1, 2, …"""
    params = SamplingParams(**options)
    return Request(name, list(range(num_tokens)), params, None, block_hasher=HASHER)


def test_a_prefix_that_another_request_filled_is_hit() -> None:
    """Whole blocks only, and never the last token."""
    manager = manager_of(16)
    first = request_of("first", 13)
    allocated = manager.allocate_slots(first, 13)
    assert allocated is not None and allocated.get_block_ids() == ([1, 2, 3, 4],)
    for num_tokens, hit in ((13, [1, 2, 3]), (12, [1, 2]), (11, [1, 2]), (5, [1]), (4, [])):
        blocks, num_computed = manager.get_computed_blocks(request_of("second", num_tokens))
        assert blocks.get_block_ids(allow_none=True) == (([*hit],) if hit else None)
        assert num_computed == 4 * len(hit)


def test_the_scan_stops_at_the_first_miss() -> None:
    """A cached block behind an evicted one is not a hit."""
    manager = manager_of(16)
    manager.allocate_slots(request_of("first", 13), 13)
    manager.evict_blocks({2})
    _, num_computed = manager.get_computed_blocks(request_of("second", 13))
    assert num_computed == 4


def test_nothing_is_hit_where_reading_is_off() -> None:
    """Caching off, or a request that wants its prompt computed: the shared empty answer."""
    manager = manager_of(16)
    manager.allocate_slots(request_of("first", 13), 13)
    skipping = request_of("second", 13, skip_reading_prefix_cache=True)
    assert manager.get_computed_blocks(skipping) == (manager.empty_kv_cache_blocks, 0)
    off = manager_of(16, enable_caching=False)
    off.allocate_slots(request_of("first", 13), 13)
    assert off.get_computed_blocks(request_of("second", 13)) == (off.empty_kv_cache_blocks, 0)
    assert off.coordinator.single_type_managers[0].num_cached_block == {}


def test_a_request_without_tokens_cannot_be_looked_up() -> None:
    """The look-up has no last token to leave out."""
    with pytest.raises(ValueError, match="without tokens"):
        manager_of(4).get_computed_blocks(request_of("empty", 0))


def test_hits_that_nobody_holds_count_against_the_free_blocks() -> None:
    """Two free hits and one new block do not fit in two free blocks."""
    manager = manager_of(4)
    first = request_of("first", 9)
    manager.allocate_slots(first, 9)
    manager.free(first)
    holder = request_of("holder", 3)
    manager.allocate_slots(holder, 3)
    second = request_of("second", 9)
    hits, num_computed = manager.get_computed_blocks(second)
    assert num_computed == 8 and manager.block_pool.get_num_free_blocks() == 2
    assert manager.allocate_slots(second, 1, num_computed, hits) is None
    assert manager.block_pool.get_num_free_blocks() == 2
    assert manager.get_block_ids("second") == ([],)
    manager.free(holder)
    new = manager.allocate_slots(second, 1, num_computed, hits)
    assert new is not None and new.get_block_ids() == ([3],)
    assert manager.get_block_ids("second") == ([1, 2, 3],)


def test_hits_that_somebody_holds_cost_nothing() -> None:
    """They are shared: each has two holders, and both must let go."""
    manager = manager_of(5)
    first, second = request_of("first", 9), request_of("second", 9)
    manager.allocate_slots(first, 9)
    hits, num_computed = manager.get_computed_blocks(second)
    assert manager.allocate_slots(second, 1, num_computed, hits) is not None
    assert [block.ref_cnt for block in manager.block_pool.blocks[1:]] == [2, 2, 1, 1]
    assert manager.get_num_common_prefix_blocks("first") == [2]
    manager.free(first)
    assert [block.ref_cnt for block in manager.block_pool.blocks[1:]] == [1, 1, 0, 1]
    assert manager.get_num_common_prefix_blocks("second") == [3]


def test_the_whole_sequence_must_fit_only_where_it_is_asked() -> None:
    """A first chunk fits; the whole prompt does not."""
    manager, request = manager_of(4), request_of("long", 20)
    assert manager.allocate_slots(request, 4, full_sequence_must_fit=True) is None
    assert manager.allocate_slots(request, 4) is not None


def test_the_whole_sequence_is_capped_by_the_model_length() -> None:
    """Tokens beyond max_model_len never get a slot."""
    manager = manager_of(4, max_model_len=12)
    allocated = manager.allocate_slots(request_of("long", 20), 20, full_sequence_must_fit=True)
    assert allocated is not None and allocated.get_block_ids() == ([1, 2, 3],)


def test_a_decode_takes_a_block_only_when_the_last_is_full() -> None:
    """In between it gets the one object that stands for no blocks."""
    manager, request = manager_of(8), request_of("r", 3)
    manager.allocate_slots(request, 3)
    request.num_computed_tokens = 3
    taken = []
    for token in range(6):
        request.append_output_token_ids(token)
        new = manager.allocate_slots(request, 1)
        assert new is not None
        taken.append(new.get_block_ids(allow_none=True))
        request.num_computed_tokens += 1
    assert taken == [None, ([2],), None, None, None, ([3],)]
    assert manager.coordinator.single_type_managers[0].num_cached_block == {"r": 2}


def test_a_block_is_cached_with_the_step_that_fills_it() -> None:
    """Before the step it cannot be hit; from its allocation on it can."""
    manager, request = manager_of(8), request_of("r", 7)
    manager.allocate_slots(request, 7)
    request.num_computed_tokens = 7
    request.append_output_token_ids(7)
    other = request_of("other", 9)
    assert manager.get_computed_blocks(other)[1] == 4
    manager.allocate_slots(request, 1)
    assert manager.get_computed_blocks(other)[1] == 8


def test_lookahead_slots_are_not_cached() -> None:
    """Slots for drafts get blocks, but no hash."""
    manager, request = manager_of(8), request_of("r", 4)
    allocated = manager.allocate_slots(request, 3, num_lookahead_tokens=5)
    assert allocated is not None and allocated.get_block_ids() == ([1, 2],)
    assert allocated.get_unhashed_block_ids() == [1, 2]
    assert allocated.get_unhashed_block_ids_all_groups() == [[1, 2]]


def test_nothing_to_compute_is_an_error() -> None:
    """Zero tokens are refused; the request is named."""
    with pytest.raises(ValueError, match="request 'r'"):
        manager_of(8).allocate_slots(request_of("r", 4), 0)


def test_blocks_are_freed_last_first() -> None:
    """So the tail of a chain is reused before its head; freeing the unknown is nothing."""
    manager, request = manager_of(8), request_of("r", 12)
    manager.allocate_slots(request, 12)
    manager.free(request)
    queue = manager.block_pool.free_block_queue.get_all_free_blocks()
    assert [block.block_id for block in queue] == [4, 5, 6, 7, 3, 2, 1]
    manager.free(request)
    assert manager.block_pool.get_num_free_blocks() == 7


def test_no_prefix_is_common_without_caching() -> None:
    """Not even for a request that is alone."""
    manager = manager_of(8, enable_caching=False)
    manager.allocate_slots(request_of("r", 12), 12)
    assert manager.get_num_common_prefix_blocks("r") == [0]
    assert isinstance(manager.coordinator, KVCacheCoordinatorNoPrefixCache)
    assert isinstance(manager_of(8).coordinator, UnitaryKVCacheCoordinator)


def test_withdrawing_uncaches_what_is_not_computed() -> None:
    """Only in the profile that says so, and only blocks beyond the computed tokens."""
    for uncaches in (False, True):
        manager = manager_of(8, semantics=replace(VLLM_0_22_1, withdraw_uncaches=uncaches))
        request = request_of("r", 12)
        manager.allocate_slots(request, 6)
        request.num_computed_tokens = 6
        manager.allocate_slots(request, 6)
        manager.withdraw(request)
        manager.free(request)
        assert manager.get_computed_blocks(request_of("other", 13))[1] == (4 if uncaches else 12)


def test_statistics_count_tokens_by_attempt() -> None:
    """Queries and hits; preempted requests apart; a report empties them, a reset is noted."""
    manager = manager_of(8, log_stats=True)
    first = request_of("first", 9)
    manager.get_computed_blocks(first)
    manager.allocate_slots(first, 9)
    second = request_of("second", 9)
    manager.get_computed_blocks(second)
    second.num_preemptions = 1
    manager.get_computed_blocks(second)
    stats = manager.make_prefix_cache_stats()
    assert stats is not None
    assert (stats.requests, stats.queries, stats.hits) == (2, 18, 8)
    assert (stats.preempted_requests, stats.preempted_queries, stats.preempted_hits) == (1, 9, 8)
    assert not stats.reset
    manager.free(first)
    assert manager.reset_prefix_cache()
    stats = manager.make_prefix_cache_stats()
    assert stats is not None and stats.reset and stats.requests == 0
    assert manager_of(8).make_prefix_cache_stats() is None


def test_blocks_by_group_add_up() -> None:
    """Group by group, and without groups of its own an empty one stays empty."""
    one, two = (KVCacheBlocks(([utils.KVCacheBlock(i)],)) for i in (1, 2))
    assert (one + two).get_block_ids() == ([1, 2],)
    empty = one.new_empty()
    assert empty.get_block_ids() == ([],) and empty.get_block_ids(allow_none=True) is None


def test_what_is_out_of_scope_is_refused_when_the_manager_is_made() -> None:
    """A kind of layer that nobody knows, metrics; and sizes that differ, ranks included."""
    with pytest.raises(KeyError, match="KVCacheSpec"):
        KVCacheManager(config_of(8, KVCacheSpec(4)), 64, 4)
    with pytest.raises(UnsupportedFeature, match="metrics"):
        manager_of(8, metrics_collector=object())
    for ranks in ("dcp_world_size", "pcp_world_size"):
        with pytest.raises(AssertionError, match="hash_block_size 4, block_size 8"):
            manager_of(8, **{ranks: 2})
    with pytest.raises(AssertionError, match="hash_block_size 8"):
        manager_of(8, hash_block_size=8)
    with pytest.raises(AssertionError, match="all of one kind"):
        KVCacheManager(config_of(8, groups=2), 64, 4)


LAYER: dict[str, Any] = {"block_size": 4, "num_kv_heads": 1, "head_size": 1, "dtype": None}
PARTIAL: list[KVCacheSpec] = [
    SlidingWindowSpec(**LAYER, sliding_window=6),
    ChunkedLocalAttentionSpec(**LAYER, attention_chunk_size=8),
    MambaSpec(block_size=4, shapes=((1,),), dtypes=(None,), mamba_cache_mode="all"),
]
"""Layers that see a part of the past."""
FULL = FullAttentionSpec(**LAYER)


@pytest.mark.parametrize("spec", PARTIAL, ids=lambda spec: type(spec).__name__)
@pytest.mark.parametrize("ranks", ["dcp_world_size", "pcp_world_size"])
def test_only_blocks_of_full_attention_are_divided(spec: KVCacheSpec, ranks: str) -> None:
    """Others raise when a prefix is looked up, several groups when they are made."""
    options: dict[str, Any] = {"max_model_len": 64, "hash_block_size": 8, ranks: 2}
    alone = KVCacheManager(config_of(8, spec), **options)
    with pytest.raises(AssertionError, match="not divided among 2 ranks"):
        alone.get_computed_blocks(request_of("a", 9))
    groups = [KVCacheGroupSpec([name], layer) for name, layer in (("a", FULL), ("b", spec))]
    with pytest.raises(AssertionError, match="not divided among 2 ranks"):
        KVCacheManager(KVCacheConfig(8, [], groups), **options)


def test_hits_start_a_table_of_one_kind() -> None:
    """As vLLM calls it: the hits, then blocks to load into; nulls for what is out of a window. It
    starts once.
    """
    layer: dict[str, Any] = {"block_size": 4, "num_kv_heads": 1, "head_size": 1, "dtype": None}
    window = SlidingWindowSpec(**layer, sliding_window=5)
    for spec, skipped in ((FullAttentionSpec(**layer), 0), (window, 2)):
        manager = KVCacheManager(config_of(16, spec), max_model_len=64, hash_block_size=4)
        assert manager.allocate_slots(request_of("first", 9), 9) is not None
        (tables,) = manager.coordinator.single_type_managers
        hits = tables.req_to_blocks["first"][:2]
        tables.allocate_new_computed_blocks("second", hits, 8, 4)
        held = [block.block_id for block in tables.req_to_blocks["second"]]
        assert held == [0 if i < skipped else b for i, b in enumerate([1, 2, 4])]
        assert tables.num_cached_block["second"] == 2
        tables.allocate_new_computed_blocks("second", [], 8, 4)
        assert len(tables.req_to_blocks["second"]) == 3


def test_several_groups_are_told_by_kind() -> None:
    """Tuples of layers, groups and their manager, full attention first; one kind is an error."""
    layer: dict[str, Any] = {"block_size": 4, "num_kv_heads": 1, "head_size": 1, "dtype": None}
    full, window = FullAttentionSpec(**layer), SlidingWindowSpec(**layer, sliding_window=5)
    groups = [KVCacheGroupSpec([str(i)], spec) for i, spec in enumerate((window, full, window))]
    groups[0].is_eagle_group = True
    manager = KVCacheManager(KVCacheConfig(16, [], groups), max_model_len=64, hash_block_size=4)
    coordinator = manager.coordinator
    assert isinstance(coordinator, HybridKVCacheCoordinator)
    assert coordinator.attention_groups == [
        (full, [1], FullAttentionManager),
        (window, [0, 2], SlidingWindowManager),
    ]
    assert (coordinator.lcm_block_size, coordinator.eagle_attn_group_indices) == (4, {1})
    coordinator.kv_cache_config = KVCacheConfig(16, [], groups[::2])
    with pytest.raises(AssertionError, match="one kind"):
        coordinator.verify_and_split_kv_cache_groups()
