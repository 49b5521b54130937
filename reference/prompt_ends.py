"""The ends of prompts within blocks that several hashes cover, as lines after 0.22.1 cache them.

Such a block has a key of its own; it gets the hash at which the prompt ends as one more. Nobody
who is scheduled here looks a block up by that. It shows in events and in the cache, and a block
that was evicted from outside has it for its only key.
"""

from nullblock.reference.block_pool import BlockPool
from nullblock.reference.kv_cache_utils import (
    KVCacheBlock,
    generate_block_hash_extra_keys,
    make_block_hash_with_group_id,
    maybe_convert_block_hash,
    to_event_extra_keys,
)
from nullblock.reference.kv_events import MEDIUM_GPU, BlockStored
from nullblock.reference.request import Request
from nullblock.spec.keys import prompt_end


def cache_prompt_end(
    pool: BlockPool,
    request: Request,
    table: list[KVCacheBlock],
    num_tokens: int,
    block_size: int,
    kv_cache_group_id: int,
    *,
    drops_hit: bool,
) -> None:
    """Give the block of a table in which the request's prompt ends its further key, if so many
    tokens of it are cached.

    Args:
        drops_hit: a look-up drops what it hits last, so that all of the prompt may be hit.
    """
    covered = pool.hash_block_size
    end = prompt_end(request.num_prompt_tokens + drops_hit, covered, block_size)
    index = end // block_size
    if end == 0 or end > num_tokens or index >= len(table):
        return
    block, block_hash = table[index], request.block_hashes[end // covered - 1]
    key = make_block_hash_with_group_id(block_hash, kv_cache_group_id)
    if block.is_null or key == block.block_hash:
        return
    if key in pool.further_keys.get(block.block_id, ()):
        return
    if pool.ended_blocks.get(block.block_id, end) < end:
        # A session has gone on within the block.
        pool._maybe_evict_cached_block(block)
    further = pool.further_keys.setdefault(block.block_id, [])
    if block.block_hash is None:
        block.block_hash = key
        pool.ended_blocks[block.block_id] = end
    else:
        further.append(key)
    pool.cached_block_hash_to_block.insert(key, block)
    if pool.enable_kv_cache_events:
        pool.kv_event_queue.append(_stored(pool, request, end, kv_cache_group_id))


def _stored(pool: BlockPool, request: Request, end: int, kv_cache_group_id: int) -> BlockStored:
    """The event for the tokens of one hash that ends there."""
    start = end - pool.hash_block_size
    index = start // pool.hash_block_size
    keys, _ = generate_block_hash_extra_keys(request, start, end, 0, semantics=pool.semantics)
    lora = request.lora_request
    parent = request.block_hashes[index - 1] if index else None
    return BlockStored(
        block_hashes=[maybe_convert_block_hash(request.block_hashes[index])],
        parent_block_hash=None if parent is None else maybe_convert_block_hash(parent),
        token_ids=request.all_token_ids[start:end],
        block_size=end - start,
        lora_id=lora.adapter_id if lora else None,
        medium=MEDIUM_GPU,
        lora_name=lora.name if lora else None,
        extra_keys=[to_event_extra_keys(keys)],
        group_idx=kv_cache_group_id,
    )
