"""The pool and the block tables of every group: what all coordinators have in common."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from nullblock.reference.block_pool import BlockPool
from nullblock.reference.cross_attention import CrossAttentionManager
from nullblock.reference.kv_cache_interface import KVCacheConfig
from nullblock.reference.kv_cache_utils import BlockHash, KVCacheBlock
from nullblock.reference.mamba import MambaManager
from nullblock.reference.request import Request
from nullblock.reference.single_type_kv_cache_manager import (
    SingleTypeKVCacheManager,
    get_manager_for_kv_cache_spec,
)
from nullblock.spec.profiles import VLLM_0_22_1, Semantics

GroupBlocks = tuple[Sequence[KVCacheBlock], ...]
"""Blocks by group."""


class KVCacheCoordinator(ABC):
    """One manager a group, asked in the order of the groups; they share one pool."""

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
        self.kv_cache_config = kv_cache_config
        self.max_model_len = max_model_len
        self.enable_caching = enable_caching
        self.hash_block_size = hash_block_size
        self.block_pool = BlockPool(
            num_gpu_blocks=kv_cache_config.num_blocks,
            enable_caching=enable_caching,
            hash_block_size=hash_block_size,
            enable_kv_cache_events=enable_kv_cache_events,
            metrics_collector=metrics_collector,
            semantics=semantics,
        )
        self.eagle_group_ids = {i for i, group in enumerate(groups) if group.is_eagle_group}
        """Groups whose hits lose their last block: those that are marked, with or without EAGLE,
        or with it all of them if none is."""
        if use_eagle and not self.eagle_group_ids:
            self.eagle_group_ids = set(range(len(groups)))
        self.single_type_managers = tuple(
            get_manager_for_kv_cache_spec(
                group.kv_cache_spec,
                max_num_batched_tokens,
                max_model_len,
                block_pool=self.block_pool,
                enable_caching=enable_caching,
                kv_cache_group_id=group_id,
                dcp_world_size=dcp_world_size,
                pcp_world_size=pcp_world_size,
            )
            for group_id, group in enumerate(groups)
        )

        for group_id, manager in enumerate(self.single_type_managers):
            if isinstance(manager, MambaManager):
                manager.loses_last_block = use_eagle
                manager.is_marked = group_id in self.eagle_group_ids

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
        """How many free blocks it takes to give the request ``num_tokens`` slots in each group."""
        num_blocks = 0
        for manager, hits in zip(self.single_type_managers, new_computed_blocks, strict=True):
            if isinstance(manager, CrossAttentionManager):
                num_blocks += manager.get_num_blocks_to_allocate(
                    request_id, num_encoder_tokens, (), 0, num_encoder_tokens, apply_admission_cap
                )
                continue
            num_blocks += manager.get_num_blocks_to_allocate(
                request_id,
                num_tokens,
                hits,
                total_computed_tokens,
                num_tokens_main_model,
                apply_admission_cap,
            )
        return num_blocks

    def allocate_new_computed_blocks(
        self,
        request_id: str,
        new_computed_blocks: GroupBlocks,
        num_local_computed_tokens: int,
        num_external_computed_tokens: int,
        num_known: int | None = None,
        loads_late: bool = False,
    ) -> None:
        """Start the request's tables with the blocks that were hit, and those to load into.

        vLLM 0.22.1 does both group by group: a group may be given a block that a later one hits
        (upstream 33775).

        Args:
            num_known: tokens before the one that is computed next; None: all of both.
            loads_late: the load takes longer than the step.
        """
        local, external = num_local_computed_tokens, num_external_computed_tokens
        known = local + external if num_known is None else num_known
        apart = self.block_pool.semantics.hits_precede_loads
        fresh: list[SingleTypeKVCacheManager] = []
        for manager, hits in zip(self.single_type_managers, new_computed_blocks, strict=True):
            if not apart:
                manager.allocate_new_computed_blocks(
                    request_id, hits, local, external, known, loads_late
                )
            elif manager.adopt_hits(request_id, hits, known) and external:
                fresh.append(manager)
        for manager in fresh:
            manager.take_to_load(request_id, local + external, known, loads_late)

    def allocate_new_blocks(
        self,
        request_id: str,
        num_tokens: int,
        num_tokens_main_model: int,
        num_encoder_tokens: int = 0,
    ) -> tuple[list[KVCacheBlock], ...]:
        """Extend the request's tables to ``num_tokens`` slots; the new blocks."""
        return tuple(
            [
                manager.allocate_new_blocks(
                    request_id,
                    num_encoder_tokens
                    if isinstance(manager, CrossAttentionManager)
                    else num_tokens,
                    num_tokens_main_model,
                )
                for manager in self.single_type_managers
            ]
        )

    def cache_blocks(self, request: Request, num_computed_tokens: int) -> None:
        """Enter the full blocks among the first tokens into the prefix cache."""
        for manager in self.single_type_managers:
            manager.cache_blocks(request, num_computed_tokens)

    def is_covered(self, request: Request, num_computed: int, slots: int, scheduled: int) -> bool:
        """Whether a running request's step changes nothing in any group."""
        if self.block_pool.semantics.prompt_ends_cached and (
            self.block_pool.has_evicted or num_computed < request.num_prompt_tokens
        ):
            # What was evicted is given the key of a prompt's end again, and with EAGLE a block is
            # given it that is not full.
            return False
        request_id = request.request_id
        num_filled = min(scheduled, request.num_tokens)
        for manager in self.single_type_managers:
            to_cache = self.num_cacheable_tokens(num_filled, manager)
            if not manager.is_covered(request_id, num_computed, slots, scheduled, to_cache):
                return False
        return True

    def num_cacheable_tokens(self, num_tokens: int, manager: SingleTypeKVCacheManager) -> int:
        """How many of the first tokens the prefix cache may be offered of a group."""
        return num_tokens if self.enable_caching else 0

    def free(self, request_id: str) -> None:
        """Give the request's blocks back, group after group."""
        for manager in self.single_type_managers:
            manager.free(request_id)

    def remove_skipped_blocks(self, request_id: str, total_computed_tokens: int) -> None:
        """Give back the blocks that no later token needs."""
        for manager in self.single_type_managers:
            manager.remove_skipped_blocks(request_id, total_computed_tokens)

    def get_blocks(self, request_id: str) -> tuple[list[KVCacheBlock], ...]:
        """The request's tables; empty, and not created, where it has none."""
        return tuple(
            [manager.req_to_blocks.get(request_id) or [] for manager in self.single_type_managers]
        )

    def get_num_common_prefix_blocks(self, running_request_id: str) -> list[int]:
        """For each group, how many leading blocks all owners of blocks share."""
        return [
            manager.get_num_common_prefix_blocks(running_request_id)
            for manager in self.single_type_managers
        ]

    def junction(self, num_hits: int) -> int:
        """How far the hits of the last look-up reached before all kinds of layers agreed on so
        many tokens; 0: no further. One group is of one kind.
        """
        return 0

    def new_step_starts(self) -> None:
        """A step begins."""
        for manager in self.single_type_managers:
            manager.new_step_starts()

    @abstractmethod
    def find_longest_cache_hit(
        self, block_hashes: list[BlockHash], max_cache_hit_length: int
    ) -> tuple[tuple[list[KVCacheBlock], ...], int]:
        """The longest cached prefix: its blocks, and its length in tokens."""
