"""The pool of KV-cache blocks: who is free, who is cached, in which order free ones are reused."""

from collections.abc import Iterable, Sequence
from typing import Any

from nullblock.reference.errors import refuse
from nullblock.reference.kv_cache_utils import (
    BlockHash,
    BlockHashList,
    BlockHashWithGroupId,
    FreeKVCacheBlockQueue,
    KVCacheBlock,
    block_hashes_of,
    generate_block_hash_extra_keys,
    get_block_hash,
    get_group_id,
    make_block_hash_with_group_id,
    maybe_convert_block_hash,
    to_event_extra_keys,
)
from nullblock.reference.kv_events import (
    MEDIUM_GPU,
    AllBlocksCleared,
    AnyKVCacheEvent,
    BlockRemoved,
    BlockStored,
)
from nullblock.reference.request import Request
from nullblock.spec.profiles import VLLM_0_22_1, Semantics


class BlockHashToBlockMap:
    """The prefix cache: from a key to every block with that content, oldest first.

    Equal content may stand in several blocks: tables are append-only, so a block that turns out
    to be a duplicate keeps its place. One block stands for itself; two or more are a dict by id.
    """

    def __init__(self) -> None:
        self._cache: dict[BlockHashWithGroupId, KVCacheBlock | dict[int, KVCacheBlock]] = {}

    def get_one_block(self, key: BlockHashWithGroupId) -> KVCacheBlock | None:
        """The block that was cached first under ``key``, or None."""
        found = self._cache.get(key)
        if isinstance(found, dict):
            return next(iter(found.values()))
        return found

    def insert(self, key: BlockHashWithGroupId, block: KVCacheBlock) -> None:
        """Add ``block`` behind those that already have the key."""
        found = self._cache.get(key)
        if found is None:
            self._cache[key] = block
        elif isinstance(found, dict):
            found[block.block_id] = block
        else:
            self._cache[key] = {found.block_id: found, block.block_id: block}

    def pop(self, key: BlockHashWithGroupId, block_id: int) -> KVCacheBlock | None:
        """Remove that block from the key; None if it is not there.

        Of several blocks the rest stay, as a dict even when one is left. Their key moves to the
        end of the map; nothing but a dump of the map can see that.
        """
        found = self._cache.pop(key, None)
        if found is None:
            return None
        if isinstance(found, dict):
            block = found.pop(block_id, None)
            if found:
                self._cache[key] = found
            return block
        if found.block_id == block_id:
            return found
        self._cache[key] = found
        return None

    def __len__(self) -> int:
        return len(self._cache)


class BlockPool:
    """All blocks. Block 0 is the null block: taken first, never handed out, never counted.

    Args:
        num_gpu_blocks: blocks in the pool, the null block included.
        enable_caching: whether freed blocks keep their content for later requests.
        hash_block_size: tokens that one block hash covers.
        enable_kv_cache_events: whether the prefix cache tells what is stored and removed.
    """

    def __init__(
        self,
        num_gpu_blocks: int,
        enable_caching: bool,
        hash_block_size: int,
        enable_kv_cache_events: bool = False,
        metrics_collector: object | None = None,
        *,
        semantics: Semantics = VLLM_0_22_1,
    ) -> None:
        refuse("KV cache metrics", metrics_collector is not None)
        self.metrics_collector = metrics_collector
        assert isinstance(num_gpu_blocks, int) and num_gpu_blocks > 0
        self.semantics = semantics
        self.num_gpu_blocks = num_gpu_blocks
        self.num_sink_blocks = 0
        """Blocks that have left the pool for good."""
        self.enable_caching = enable_caching
        self.hash_block_size = hash_block_size
        self.enable_kv_cache_events = enable_kv_cache_events
        self.kv_event_queue: list[AnyKVCacheEvent] = []
        """What happened since the last :meth:`take_events`."""
        self.blocks = [KVCacheBlock(block_id) for block_id in range(num_gpu_blocks)]
        self.free_block_queue = FreeKVCacheBlockQueue(self.blocks)
        self.cached_block_hash_to_block = BlockHashToBlockMap()
        self.further_keys: dict[int, list[BlockHashWithGroupId]] = {}
        """By block, the keys that it has besides its own (see prompt_ends.py)."""
        self.ended_blocks: dict[int, int] = {}
        """By block whose own key is the end of a prompt, the tokens before that."""
        self.has_evicted = False
        """Whether blocks that somebody may hold were evicted from outside."""
        self.null_block = self.free_block_queue.popleft()
        self.null_block.is_null = True

    def get_cached_block(
        self, block_hash: BlockHash, kv_cache_group_ids: list[int]
    ) -> list[KVCacheBlock] | None:
        """The cached block of each group, or None unless every group has one."""
        blocks: list[KVCacheBlock] = []
        for group_id in kv_cache_group_ids:
            key = make_block_hash_with_group_id(block_hash, group_id)
            block = self.cached_block_hash_to_block.get_one_block(key)
            if block is None:
                return None
            blocks.append(block)
        return blocks

    def cache_full_blocks(
        self,
        request: Request,
        blocks: list[KVCacheBlock],
        num_cached_blocks: int,
        num_full_blocks: int,
        block_size: int,
        kv_cache_group_id: int,
        block_mask: list[bool] | None = None,
    ) -> None:
        """Enter ``blocks[num_cached_blocks:num_full_blocks]`` into the prefix cache.

        It happens when slots are allocated, before the blocks are computed: whoever is admitted
        later in the same step already finds them. Null blocks are passed over, and those that the
        mask, one entry a block, leaves out.
        """
        if num_cached_blocks >= num_full_blocks:
            return
        last = self.semantics.last_hash_stands
        hashes = block_hashes_of(request, self.hash_block_size, block_size, last)
        new_blocks = blocks[num_cached_blocks:num_full_blocks]
        assert len(hashes) >= num_full_blocks
        assert block_mask is None or len(block_mask) == len(new_blocks)
        insert = self.cached_block_hash_to_block.insert
        # A prompt longer than max_model_len counts more full blocks than the table has: the table
        # is the shorter one, and ends the loop.
        for index, (block, block_hash) in enumerate(
            zip(new_blocks, hashes[num_cached_blocks:num_full_blocks], strict=False)
        ):
            if block.is_null or (block_mask is not None and not block_mask[index]):
                continue
            key = make_block_hash_with_group_id(block_hash, kv_cache_group_id)
            if block.block_id in self.ended_blocks:
                self._maybe_evict_cached_block(block)
            block.block_hash = key
            insert(key, block)
        if self.enable_kv_cache_events:
            # Where a prompt is longer than max_model_len the table ends early, and this raises, as
            # in vLLM: with events on, such a request cannot be scheduled at all.
            indexes = [
                i
                for i in range(num_cached_blocks, num_full_blocks)
                if not blocks[i].is_null
                and (block_mask is None or block_mask[i - num_cached_blocks])
            ]
            whole = range(num_cached_blocks, num_full_blocks)
            self._tell_stored(request, hashes, indexes, whole, block_size, kv_cache_group_id)

    def _tell_stored(
        self,
        request: Request,
        hashes: BlockHashList,
        stored: list[int],
        whole: range,
        size: int,
        kv_cache_group_id: int,
    ) -> None:
        """Queue the event for the blocks of a range, of which some were stored.

        The tokens are those of the whole range, more than the stored blocks have, and the parent
        is the block before it, which may never have been stored itself.
        """
        parent = hashes[whole.start - 1] if whole.start else None
        lora = request.lora_request
        self.kv_event_queue.append(
            BlockStored(
                block_hashes=[maybe_convert_block_hash(hashes[i]) for i in stored],
                parent_block_hash=None if parent is None else maybe_convert_block_hash(parent),
                token_ids=request.all_token_ids[whole.start * size : whole.stop * size],
                block_size=size,
                lora_id=lora.adapter_id if lora else None,
                medium=MEDIUM_GPU,
                lora_name=lora.name if lora else None,
                extra_keys=self._extra_keys(request, stored, size) or None,
                group_idx=kv_cache_group_id,
            )
        )

    def _extra_keys(
        self, request: Request, indices: list[int], size: int
    ) -> list[tuple[Any, ...] | None]:
        """What the hashes of those blocks of the request hold besides tokens."""
        mm_idx = 0
        found = []
        for start in (index * size for index in indices):
            keys, mm_idx = generate_block_hash_extra_keys(
                request, start, start + size, mm_idx, semantics=self.semantics
            )
            found.append(to_event_extra_keys(keys))
        return found

    def get_new_blocks(self, num_blocks: int) -> list[KVCacheBlock]:
        """Take blocks from the front of the queue; what they cached is lost.

        Raises:
            ValueError: there are not that many free blocks.
        """
        if num_blocks > self.free_block_queue.num_free_blocks:
            raise ValueError(f"Cannot get {num_blocks} free blocks from the pool")
        blocks = self.free_block_queue.popleft_n(num_blocks)
        for block in blocks:
            if block._block_hash is not None:
                self._maybe_evict_cached_block(block)
            assert block.ref_cnt == 0
            block.ref_cnt = 1
        return blocks

    def _maybe_evict_cached_block(self, block: KVCacheBlock) -> bool:
        """Take ``block`` out of the prefix cache; whether it was in."""
        key = block._block_hash
        if key is None or self.cached_block_hash_to_block.pop(key, block.block_id) is None:
            return False
        block.reset_hash()
        self.ended_blocks.pop(block.block_id, None)
        further = self.further_keys.pop(block.block_id, [])
        for other in further:
            self.cached_block_hash_to_block.pop(other, block.block_id)
        for gone in (key, *further) if self.enable_kv_cache_events else ():
            block_hash = maybe_convert_block_hash(get_block_hash(gone))
            self.kv_event_queue.append(
                BlockRemoved([block_hash], MEDIUM_GPU, group_idx=get_group_id(gone))
            )
        return True

    def touch(self, blocks: Sequence[KVCacheBlock]) -> None:
        """Hold cached blocks for one more request; a free one leaves the queue."""
        for block in blocks:
            if block.ref_cnt == 0 and not block.is_null:
                self.free_block_queue.remove(block)
            block.ref_cnt += 1

    def free_blocks(self, ordered_blocks: Iterable[KVCacheBlock]) -> None:
        """Let go of blocks; those that nobody holds any more join the queue in this order."""
        blocks = list(ordered_blocks)
        for block in blocks:
            block.ref_cnt -= 1
        freed = [block for block in blocks if block.ref_cnt == 0 and not block.is_null]
        if self.semantics.freed_unhashed_first:
            # Later lines of vLLM: what nobody can hit is reused before what somebody might.
            self.free_block_queue.prepend_n([b for b in freed if b._block_hash is None])
            freed = [block for block in freed if block._block_hash is not None]
        self.free_block_queue.append_n(freed)

    def evict_blocks(self, block_ids: Iterable[int]) -> None:
        """Take those blocks out of the prefix cache; whoever holds them keeps holding them.

        Only events show in which order; vLLM passes a set.
        """
        self.has_evicted = True
        for block_id in block_ids:
            assert block_id < len(self.blocks), (
                f"block {block_id} is not in a pool of {len(self.blocks)} blocks"
            )
            self._maybe_evict_cached_block(self.blocks[block_id])

    def reset_prefix_cache(self) -> bool:
        """Empty the prefix cache; False, and no change, while any request holds a block."""
        # In an idle pool only the null block is not free, and the blocks of sinks, which vLLM
        # 0.22.1 forgets here.
        apart = 1 + (self.num_sink_blocks if self.semantics.sinks_are_nobodys else 0)
        if self.num_gpu_blocks - self.free_block_queue.num_free_blocks != apart:
            return False
        self.cached_block_hash_to_block = BlockHashToBlockMap()
        self.further_keys.clear()
        self.ended_blocks.clear()
        for block in self.blocks:
            block.reset_hash()
        if self.enable_kv_cache_events:
            self.kv_event_queue.append(AllBlocksCleared())
        return True

    def get_num_free_blocks(self) -> int:
        """Free blocks, those that cache something included."""
        return self.free_block_queue.num_free_blocks

    def get_usage(self) -> float:
        """The share of the usable blocks that are held, 0 to 1."""
        usable = self.num_gpu_blocks - 1
        return 1.0 - self.get_num_free_blocks() / usable if usable else 0

    def take_events(self) -> list[AnyKVCacheEvent]:
        """KV cache events since the last call; none while they are off."""
        events, self.kv_event_queue = self.kv_event_queue, []
        return events
