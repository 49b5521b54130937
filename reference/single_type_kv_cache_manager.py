"""The block tables of one KV-cache group."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from nullblock.reference.block_pool import BlockPool
from nullblock.reference.errors import UnsupportedFeature, refuse
from nullblock.reference.kv_cache_interface import FullAttentionSpec, KVCacheSpec
from nullblock.reference.kv_cache_utils import BlockHashList, KVCacheBlock
from nullblock.reference.request import Request
from nullblock.reference.utils import cdiv


class SingleTypeKVCacheManager:
    """Block tables that only grow, until a request gives its blocks back.

    ``req_to_blocks[id]`` is a request's table: block ``i`` holds its tokens ``[i*bs, (i+1)*bs)``.
    ``num_cached_block[id]`` says how many of them are in the prefix cache; there is no entry
    before the first one is.
    """

    def __init__(
        self,
        kv_cache_spec: KVCacheSpec,
        block_pool: BlockPool,
        enable_caching: bool,
        kv_cache_group_id: int,
        dcp_world_size: int = 1,
        pcp_world_size: int = 1,
        max_admission_blocks_per_request: int | None = None,
    ) -> None:
        refuse("decode context parallelism", dcp_world_size != 1)
        refuse("prefill context parallelism", pcp_world_size != 1)
        refuse("an admission cap", max_admission_blocks_per_request is not None)
        self.kv_cache_spec = kv_cache_spec
        self.block_size = kv_cache_spec.block_size
        self.block_pool = block_pool
        self.enable_caching = enable_caching
        self.kv_cache_group_id = kv_cache_group_id
        self.req_to_blocks: defaultdict[str, list[KVCacheBlock]] = defaultdict(list)
        self.num_cached_block: dict[str, int] = {}

    def get_num_blocks_to_allocate(
        self,
        request_id: str,
        num_tokens: int,
        new_computed_blocks: Sequence[KVCacheBlock],
        total_computed_tokens: int,
        num_tokens_main_model: int,
        apply_admission_cap: bool = False,
    ) -> int:
        """How many free blocks it takes to give the request ``num_tokens`` slots.

        A hit block that nobody holds is free now and will not be: it counts.
        """
        owned = len(self.req_to_blocks.get(request_id, ()))
        # Only a request without cached blocks of its own is ever looked up.
        assert not new_computed_blocks or request_id not in self.num_cached_block
        needed = cdiv(num_tokens, self.block_size) - owned - len(new_computed_blocks)
        free_hits = sum(block.ref_cnt == 0 and not block.is_null for block in new_computed_blocks)
        return max(needed, 0) + free_hits

    def allocate_new_computed_blocks(
        self,
        request_id: str,
        new_computed_blocks: Sequence[KVCacheBlock],
        num_local_computed_tokens: int,
        num_external_computed_tokens: int,
    ) -> None:
        """Start the request's table with the blocks that were hit, and blocks to load into."""
        if request_id in self.num_cached_block:
            assert not new_computed_blocks
            return
        table = self.req_to_blocks[request_id]
        assert not table
        if self.enable_caching:
            self.block_pool.touch(new_computed_blocks)
        else:
            assert not new_computed_blocks
        table.extend(new_computed_blocks)
        self.num_cached_block[request_id] = len(table)
        if num_external_computed_tokens:
            num_computed_tokens = num_local_computed_tokens + num_external_computed_tokens
            num_blocks = cdiv(num_computed_tokens, self.block_size) - len(table)
            table.extend(self.block_pool.get_new_blocks(num_blocks))

    def allocate_new_blocks(
        self, request_id: str, num_tokens: int, num_tokens_main_model: int
    ) -> list[KVCacheBlock]:
        """Extend the request's table to ``num_tokens`` slots; the new blocks."""
        table = self.req_to_blocks[request_id]
        num_new_blocks = cdiv(num_tokens, self.block_size) - len(table)
        if num_new_blocks <= 0:
            return []
        new_blocks = self.block_pool.get_new_blocks(num_new_blocks)
        table.extend(new_blocks)
        return new_blocks

    def cache_blocks(
        self, request: Request, num_tokens: int, alignment_tokens: int | None = None
    ) -> None:
        """Enter the full blocks among the first ``num_tokens`` tokens into the prefix cache."""
        request_id = request.request_id
        num_full_blocks = num_tokens // self.block_size
        num_cached_blocks = self.num_cached_block.get(request_id, 0)
        if num_cached_blocks >= num_full_blocks:
            return
        self.block_pool.cache_full_blocks(
            request=request,
            blocks=self.req_to_blocks[request_id],
            num_cached_blocks=num_cached_blocks,
            num_full_blocks=num_full_blocks,
            block_size=self.block_size,
            kv_cache_group_id=self.kv_cache_group_id,
        )
        self.num_cached_block[request_id] = num_full_blocks

    def free(self, request_id: str) -> None:
        """Give the request's blocks back, last first: a chain is reused from its tail."""
        self.block_pool.free_blocks(reversed(self.req_to_blocks.pop(request_id, [])))
        self.num_cached_block.pop(request_id, None)

    def remove_skipped_blocks(self, request_id: str, total_computed_tokens: int) -> None:
        """Nothing to do: full attention needs every token."""

    def get_num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """0: full attention needs every token."""
        return 0

    def new_step_starts(self) -> None:
        """Nothing to do."""


class FullAttentionManager(SingleTypeKVCacheManager):
    """The manager of full-attention layers."""

    @classmethod
    def find_longest_cache_hit(
        cls,
        block_hashes: BlockHashList,
        max_length: int,
        kv_cache_group_ids: list[int],
        block_pool: BlockPool,
        kv_cache_spec: KVCacheSpec,
        use_eagle: bool,
        alignment_tokens: int,
        dcp_world_size: int = 1,
        pcp_world_size: int = 1,
    ) -> tuple[list[KVCacheBlock], ...]:
        """The cached blocks of the longest cached prefix of at most ``max_length`` tokens.

        The scan stops at the first miss: what would follow is a hit on another prefix's block.
        EAGLE's head needs the hidden states of the last hit, which only computing it gives: with
        ``use_eagle`` the last block is left out.

        Raises:
            ValueError: ``max_length`` is negative, that is, the request has no tokens.
        """
        refuse("several KV cache groups", len(kv_cache_group_ids) != 1)
        refuse("an alignment other than the block", alignment_tokens != kv_cache_spec.block_size)
        max_num_blocks = max_length // kv_cache_spec.block_size
        if max_num_blocks < 0:
            raise ValueError("a request without tokens cannot be looked up in the prefix cache")
        get_one_block = block_pool.cached_block_hash_to_block.get_one_block
        group_suffix = kv_cache_group_ids[0].to_bytes(4, "big")
        hits: list[KVCacheBlock] = []
        for block_hash in block_hashes[:max_num_blocks]:
            block = get_one_block(block_hash + group_suffix)  # type: ignore[arg-type]
            if block is None:
                break
            hits.append(block)
        if use_eagle and hits:
            hits.pop()
        return (hits,)

    def get_num_common_prefix_blocks(self, running_request_id: str) -> int:
        """How many leading blocks every request that owns blocks shares with this one."""
        num_owners = len(self.req_to_blocks)
        num_common_blocks = 0
        for block in self.req_to_blocks[running_request_id]:
            if block.ref_cnt != num_owners:
                break
            num_common_blocks += 1
        return num_common_blocks


def get_manager_for_kv_cache_spec(
    kv_cache_spec: KVCacheSpec,
    max_num_batched_tokens: int,
    max_model_len: int,
    **kwargs: Any,
) -> FullAttentionManager:
    """The manager for a layer of that kind."""
    if type(kv_cache_spec) is not FullAttentionSpec:
        raise UnsupportedFeature(f"{type(kv_cache_spec).__name__} layers")
    return FullAttentionManager(kv_cache_spec, **kwargs)
