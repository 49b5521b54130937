"""From a request to the block tables of its groups: which coordinator a configuration needs."""

from typing import Any

from nullblock.reference.group_coordinator import GroupBlocks, KVCacheCoordinator
from nullblock.reference.hybrid_coordinator import HybridKVCacheCoordinator
from nullblock.reference.kv_cache_interface import KVCacheConfig
from nullblock.reference.kv_cache_utils import BlockHash, KVCacheBlock
from nullblock.spec.profiles import VLLM_0_22_1, Semantics

__all__ = [
    "GroupBlocks",
    "HybridKVCacheCoordinator",
    "KVCacheCoordinator",
    "KVCacheCoordinatorNoPrefixCache",
    "UnitaryKVCacheCoordinator",
    "get_kv_cache_coordinator",
]


class KVCacheCoordinatorNoPrefixCache(KVCacheCoordinator):
    """Prefix caching is off: nothing is ever found, and no prefix counts as common.

    Any number of groups, of any kinds.
    """

    def __init__(
        self,
        kv_cache_config: KVCacheConfig,
        max_model_len: int,
        max_num_batched_tokens: int,
        use_eagle: bool,
        enable_kv_cache_events: bool,
        dcp_world_size: int,
        pcp_world_size: int,
        hash_block_size: int,
        metrics_collector: object | None = None,
        *,
        semantics: Semantics = VLLM_0_22_1,
    ) -> None:
        super().__init__(
            kv_cache_config,
            max_model_len,
            max_num_batched_tokens,
            use_eagle,
            False,
            enable_kv_cache_events,
            dcp_world_size,
            pcp_world_size,
            hash_block_size,
            metrics_collector,
            semantics=semantics,
        )

    def get_num_common_prefix_blocks(self, running_request_id: str) -> list[int]:
        """No block is common when none is shared."""
        return [0] * len(self.single_type_managers)

    def find_longest_cache_hit(
        self, block_hashes: list[BlockHash], max_cache_hit_length: int
    ) -> tuple[tuple[list[KVCacheBlock], ...], int]:
        """Nothing."""
        return tuple([] for _ in self.single_type_managers), 0


class UnitaryKVCacheCoordinator(KVCacheCoordinator):
    """Prefix caching over one group: a hit is as long as its blocks."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        (self._manager,) = self.single_type_managers
        self._manager.drops_hit = 0 in self.eagle_group_ids
        self.kv_cache_spec = self._manager.kv_cache_spec
        self.block_size = self._manager.block_size
        assert not self.enable_caching or self.hash_block_size == self.block_size, (
            f"one group is hashed by its own blocks: hash_block_size {self.hash_block_size}, "
            f"block_size {self.block_size}"
        )

    def find_longest_cache_hit(
        self, block_hashes: list[BlockHash], max_cache_hit_length: int
    ) -> tuple[tuple[list[KVCacheBlock], ...], int]:
        """The longest cached prefix of at most ``max_cache_hit_length`` tokens."""
        hit_blocks = self._manager.find_longest_cache_hit(
            block_hashes=block_hashes,
            max_length=max_cache_hit_length,
            kv_cache_group_ids=[0],
            block_pool=self.block_pool,
            kv_cache_spec=self.kv_cache_spec,
            use_eagle=0 in self.eagle_group_ids,
            alignment_tokens=self.block_size,
            dcp_world_size=self._manager.dcp_world_size,
            pcp_world_size=self._manager.pcp_world_size,
        )
        return hit_blocks, len(hit_blocks[0]) * self.block_size


def get_kv_cache_coordinator(
    kv_cache_config: KVCacheConfig,
    max_model_len: int,
    max_num_batched_tokens: int,
    use_eagle: bool,
    enable_caching: bool,
    enable_kv_cache_events: bool,
    dcp_world_size: int,
    pcp_world_size: int,
    hash_block_size: int,
    metrics_collector: object | None = None,
    *,
    semantics: Semantics = VLLM_0_22_1,
) -> KVCacheCoordinator:
    """The coordinator for that configuration."""
    if not enable_caching:
        return KVCacheCoordinatorNoPrefixCache(
            kv_cache_config,
            max_model_len,
            max_num_batched_tokens,
            use_eagle,
            enable_kv_cache_events,
            dcp_world_size,
            pcp_world_size,
            hash_block_size,
            metrics_collector,
            semantics=semantics,
        )
    several = len(kv_cache_config.kv_cache_groups) > 1
    coordinator = HybridKVCacheCoordinator if several else UnitaryKVCacheCoordinator
    return coordinator(
        kv_cache_config,
        max_model_len,
        max_num_batched_tokens,
        use_eagle,
        enable_caching,
        enable_kv_cache_events,
        dcp_world_size,
        pcp_world_size,
        hash_block_size,
        metrics_collector,
        semantics=semantics,
    )
