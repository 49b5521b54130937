"""From a request to the block tables of its groups: in this scope, of its one group."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from nullblock.reference.block_pool import BlockPool
from nullblock.reference.errors import UnsupportedFeature, refuse
from nullblock.reference.kv_cache_interface import KVCacheConfig
from nullblock.reference.kv_cache_utils import BlockHash, KVCacheBlock
from nullblock.reference.request import Request
from nullblock.reference.single_type_kv_cache_manager import get_manager_for_kv_cache_spec
from nullblock.spec.profiles import VLLM_0_22_1, Semantics

GroupBlocks = tuple[Sequence[KVCacheBlock], ...]
"""Blocks by group: in this scope, a tuple of one."""


class KVCacheCoordinator(ABC):
    """The pool and the tables of every group; what vLLM sums over groups is one term here."""

    def __init__(
        self,
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
    ) -> None:
        groups = kv_cache_config.kv_cache_groups
        refuse(f"{len(groups)} KV cache groups", len(groups) != 1)
        self.kv_cache_config = kv_cache_config
        self.max_model_len = max_model_len
        # Unless some groups are marked as EAGLE's, all of them are.
        self.eagle_group_ids = {i for i, group in enumerate(groups) if group.is_eagle_group}
        if use_eagle and not self.eagle_group_ids:
            self.eagle_group_ids = set(range(len(groups)))
        self.enable_caching = enable_caching
        self.block_pool = BlockPool(
            num_gpu_blocks=kv_cache_config.num_blocks,
            enable_caching=enable_caching,
            hash_block_size=hash_block_size,
            enable_kv_cache_events=enable_kv_cache_events,
            metrics_collector=metrics_collector,
            semantics=semantics,
        )
        self.kv_cache_spec = groups[0].kv_cache_spec
        self.block_size = self.kv_cache_spec.block_size
        self._manager = get_manager_for_kv_cache_spec(
            self.kv_cache_spec,
            max_num_batched_tokens,
            max_model_len,
            block_pool=self.block_pool,
            enable_caching=enable_caching,
            kv_cache_group_id=0,
            dcp_world_size=dcp_world_size,
            pcp_world_size=pcp_world_size,
        )
        self.single_type_managers = (self._manager,)

    def get_num_blocks_to_allocate(
        self,
        request_id: str,
        num_tokens: int,
        new_computed_blocks: GroupBlocks,
        num_encoder_tokens: int,
        total_computed_tokens: int,
        num_tokens_main_model: int,
        apply_admission_cap: bool = False,
    ) -> int:
        """How many free blocks it takes to give the request ``num_tokens`` slots."""
        return self._manager.get_num_blocks_to_allocate(
            request_id,
            num_tokens,
            new_computed_blocks[0],
            total_computed_tokens,
            num_tokens_main_model,
        )

    def allocate_new_computed_blocks(
        self,
        request_id: str,
        new_computed_blocks: GroupBlocks,
        num_local_computed_tokens: int,
        num_external_computed_tokens: int,
    ) -> None:
        """Start the request's table with the blocks that were hit."""
        self._manager.allocate_new_computed_blocks(
            request_id,
            new_computed_blocks[0],
            num_local_computed_tokens,
            num_external_computed_tokens,
        )

    def allocate_new_blocks(
        self,
        request_id: str,
        num_tokens: int,
        num_tokens_main_model: int,
        num_encoder_tokens: int = 0,
    ) -> tuple[list[KVCacheBlock], ...]:
        """Extend the request's table to ``num_tokens`` slots; the new blocks."""
        return (self._manager.allocate_new_blocks(request_id, num_tokens, num_tokens_main_model),)

    def cache_blocks(self, request: Request, num_computed_tokens: int) -> None:
        """Enter the full blocks among the first tokens into the prefix cache."""
        self._manager.cache_blocks(request, num_computed_tokens)

    def free(self, request_id: str) -> None:
        """Give the request's blocks back."""
        self._manager.free(request_id)

    def get_blocks(self, request_id: str) -> tuple[list[KVCacheBlock], ...]:
        """The request's table; empty, and not created, if it has none."""
        return (self._manager.req_to_blocks.get(request_id) or [],)

    def get_num_common_prefix_blocks(self, running_request_id: str) -> list[int]:
        """For each group, how many leading blocks all owners of blocks share."""
        return [self._manager.get_num_common_prefix_blocks(running_request_id)]

    @abstractmethod
    def find_longest_cache_hit(
        self, block_hashes: list[BlockHash], max_cache_hit_length: int
    ) -> tuple[tuple[list[KVCacheBlock], ...], int]:
        """The longest cached prefix: its blocks, and its length in tokens."""


class KVCacheCoordinatorNoPrefixCache(KVCacheCoordinator):
    """Prefix caching is off: nothing is ever found, and no prefix counts as common."""

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
        return [0]

    def find_longest_cache_hit(
        self, block_hashes: list[BlockHash], max_cache_hit_length: int
    ) -> tuple[tuple[list[KVCacheBlock], ...], int]:
        """Nothing."""
        return ([],), 0


class UnitaryKVCacheCoordinator(KVCacheCoordinator):
    """Prefix caching over one group: a hit is as long as its blocks."""

    def __init__(
        self,
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
    ) -> None:
        super().__init__(
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
        assert not enable_caching or hash_block_size == self.block_size, (
            f"one group is hashed by its own blocks: hash_block_size {hash_block_size}, "
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
        )
        return hit_blocks, len(hit_blocks[0]) * self.block_size


class HybridKVCacheCoordinator:
    """Several groups: out of scope."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise UnsupportedFeature("several KV cache groups")


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
    return UnitaryKVCacheCoordinator(
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
