"""Layers that see a part of the past: a sliding window, or the chunk at hand.

What they no longer need is given back while the request runs, and the null block takes its place.
"""

from typing import Any

from nullblock.reference.block_pool import BlockPool
from nullblock.reference.block_tables import (
    SingleTypeKVCacheManager,
    align_down,
    check_undivided,
)
from nullblock.reference.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    KVCacheSpec,
    SlidingWindowSpec,
)
from nullblock.reference.kv_cache_utils import BlockHashList, KVCacheBlock
from nullblock.reference.utils import cdiv


class SlidingWindowManager(SingleTypeKVCacheManager):
    """The manager of layers that see the last ``sliding_window`` tokens."""

    def __init__(self, kv_cache_spec: SlidingWindowSpec, **kwargs: Any) -> None:
        super().__init__(kv_cache_spec, **kwargs)
        self.sliding_window = kv_cache_spec.sliding_window

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
        """The last run of cached blocks that is as long as a window, nulls before it.

        The search goes from right to left, a look-up a block. A run may only end where the hit
        may: at a multiple of the alignment, one block later for EAGLE. If none is long enough, one
        that begins with the first block is: nothing is before it.
        """
        assert isinstance(kv_cache_spec, SlidingWindowSpec)
        check_undivided(dcp_world_size, pcp_world_size)
        block_size = kv_cache_spec.block_size
        wanted = cdiv(kv_cache_spec.sliding_window - 1, block_size) + use_eagle
        run: list[list[KVCacheBlock]] = []
        num_skipped = 0
        for index in reversed(range(max_length // block_size)):
            cached = block_pool.get_cached_block(block_hashes[index], kv_cache_group_ids)
            if cached is None:
                run.clear()
                continue
            if not run and (index + 1 - use_eagle) * block_size % alignment_tokens:
                continue
            run.append(cached)
            if len(run) >= wanted:
                num_skipped = index
                break
        run.reverse()
        num_hits = num_skipped + len(run)
        if num_skipped == 0 and len(run) < wanted:
            num_hits = align_down(num_hits, block_size, alignment_tokens)
        if use_eagle and num_hits:
            num_hits = align_down(num_hits - 1, block_size, alignment_tokens)
        nulls = [block_pool.null_block] * num_skipped
        return tuple(
            (nulls + [blocks[group] for blocks in run])[:num_hits]
            for group in range(len(kv_cache_group_ids))
        )

    def _cache_block_mask(
        self, num_cached_blocks: int, num_full_blocks: int, alignment_tokens: int
    ) -> list[bool] | None:
        """The blocks of a window that ends at a multiple of the alignment; None: all of them.

        For EAGLE a run ends a block later. 0.22.1 leaves that block out: with unequal block sizes
        EAGLE groups of this kind are never hit there, a defect. A window of one token needs no
        block; 0.22.1 caches them all the same where blocks are as large as the alignment.
        """
        narrow = self.sliding_window == 1 and not self.drops_hit
        if self.block_pool.semantics.narrow_windows_uncached and narrow:
            return [False] * (num_full_blocks - num_cached_blocks)
        if alignment_tokens <= self.block_size:
            return None
        per_segment = alignment_tokens // self.block_size
        behind = int(self.drops_hit and self.block_pool.semantics.dropped_hits_reach_on)
        num_left_out = per_segment - cdiv(self.sliding_window - 1, self.block_size) - behind
        if num_left_out <= 0:
            return None
        return [
            index >= behind and (index - behind) % per_segment >= num_left_out
            for index in range(num_cached_blocks, num_full_blocks)
        ]

    def get_num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """Those before the window of the next token."""
        return max(0, num_computed_tokens - self.sliding_window + 1)

    def get_num_common_prefix_blocks(self, running_request_id: str) -> int:
        """0: prefixes are null here, and their count says nothing."""
        return 0


class ChunkedLocalAttentionManager(SingleTypeKVCacheManager):
    """The manager of layers that see the chunk of ``attention_chunk_size`` tokens at hand."""

    def __init__(self, kv_cache_spec: ChunkedLocalAttentionSpec, **kwargs: Any) -> None:
        super().__init__(kv_cache_spec, **kwargs)
        self.attention_chunk_size = kv_cache_spec.attention_chunk_size

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
        """Nulls for the chunks before the one of token ``max_length``, then what is cached of it.

        Nobody looks whether those chunks were ever computed: with this kind alone an empty cache
        gives a hit, a defect of 0.22.1.
        """
        assert isinstance(kv_cache_spec, ChunkedLocalAttentionSpec)
        check_undivided(dcp_world_size, pcp_world_size)
        assert not use_eagle, "EAGLE and chunked local attention do not go together"
        block_size = kv_cache_spec.block_size
        assert block_size == alignment_tokens, "chunked local attention needs equal block sizes"
        chunk_size = kv_cache_spec.attention_chunk_size
        chunk_start = max(0, max_length) // chunk_size * chunk_size // block_size
        hits: tuple[list[KVCacheBlock], ...] = tuple(
            [block_pool.null_block] * chunk_start for _ in kv_cache_group_ids
        )
        for index in range(chunk_start, max_length // block_size):
            cached = block_pool.get_cached_block(block_hashes[index], kv_cache_group_ids)
            if cached is None:
                break
            for group, block in zip(hits, cached, strict=True):
                group.append(block)
        return hits

    def get_num_skipped_tokens(self, num_computed_tokens: int) -> int:
        """Those before the chunk of the next token."""
        return num_computed_tokens // self.attention_chunk_size * self.attention_chunk_size

    def get_num_common_prefix_blocks(self, running_request_id: str) -> int:
        """0: prefixes are null here, and their count says nothing."""
        return 0
