"""Full attention: every token is needed to the end."""

from itertools import islice
from typing import Any

from nullblock.reference.block_pool import BlockPool
from nullblock.reference.block_tables import SingleTypeKVCacheManager, align_down
from nullblock.reference.kv_cache_interface import KVCacheSpec, SinkFullAttentionSpec
from nullblock.reference.kv_cache_utils import BlockHashList, KVCacheBlock
from nullblock.reference.prompt_ends import cache_prompt_end
from nullblock.reference.request import Request


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

        Raises:
            ValueError: ``max_length`` is negative, that is, the request has no tokens.
        """
        block_size = kv_cache_spec.block_size * dcp_world_size * pcp_world_size
        max_num_blocks = max_length // block_size
        if max_num_blocks < 0:
            raise ValueError("a request without tokens cannot be looked up in the prefix cache")
        hits: tuple[list[KVCacheBlock], ...]
        if len(kv_cache_group_ids) == 1:
            hits = (_chain(block_hashes, max_num_blocks, kv_cache_group_ids[0], block_pool),)
        else:
            hits = tuple([] for _ in kv_cache_group_ids)
            for block_hash in islice(block_hashes, max_num_blocks):
                cached = block_pool.get_cached_block(block_hash, kv_cache_group_ids)
                if cached is None:
                    break
                for group, block in zip(hits, cached, strict=True):
                    group.append(block)
        num_hits = len(hits[0])
        if use_eagle and num_hits:
            num_hits -= 1
        num_hits = align_down(num_hits, block_size, alignment_tokens)
        for group in hits:
            del group[num_hits:]
        return hits

    def cache_blocks(
        self, request: Request, num_tokens: int, alignment_tokens: int | None = None
    ) -> None:
        """The same, and in some lines the end of the prompt, where it is within a block."""
        super().cache_blocks(request, num_tokens, alignment_tokens)
        pool = self.block_pool
        if pool.semantics.prompt_ends_cached and self.block_size != pool.hash_block_size:
            cache_prompt_end(
                pool,
                request,
                self.req_to_blocks[request.request_id],
                num_tokens,
                self.block_size,
                self.kv_cache_group_id,
                drops_hit=self.drops_hit,
            )

    def get_num_common_prefix_blocks(self, running_request_id: str) -> int:
        """How many leading blocks every request that owns blocks shares with this one."""
        num_owners = len(self.req_to_blocks)
        num_common_blocks = 0
        for block in self.req_to_blocks[running_request_id]:
            if block.ref_cnt != num_owners:
                break
            num_common_blocks += 1
        return num_common_blocks


def _chain(
    block_hashes: BlockHashList, max_num_blocks: int, group_id: int, block_pool: BlockPool
) -> list[KVCacheBlock]:
    """The cached blocks of one group up to the first miss."""
    get_one_block = block_pool.cached_block_hash_to_block.get_one_block
    group_suffix = group_id.to_bytes(4, "big")
    hits: list[KVCacheBlock] = []
    for block_hash in islice(block_hashes, max_num_blocks):
        block = get_one_block(block_hash + group_suffix)  # type: ignore[arg-type]
        if block is None:
            break
        hits.append(block)
    return hits


class SinkFullAttentionManager(FullAttentionManager):
    """The same with a few blocks for tokens that every request sees and none owns.

    They leave the pool for good. In vLLM 0.22.1 they are not counted, so that the pool is never
    idle again: the prefix cache cannot be reset any more.
    """

    def __init__(
        self,
        kv_cache_spec: SinkFullAttentionSpec,
        block_pool: BlockPool,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(kv_cache_spec, block_pool, *args, **kwargs)
        sink_len = kv_cache_spec.sink_len
        assert sink_len is not None and sink_len > 0 and sink_len % self.block_size == 0, (
            f"a sink is whole blocks of {self.block_size} tokens, not {sink_len} tokens"
        )
        block_pool.num_sink_blocks += sink_len // self.block_size
        self.sink_blocks = block_pool.free_block_queue.popleft_n(sink_len // self.block_size)
