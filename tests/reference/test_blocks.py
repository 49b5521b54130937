"""The free queue, the prefix-cache map and the pool."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nullblock.reference.block_pool import BlockHashToBlockMap, BlockPool
from nullblock.reference.errors import UnsupportedFeature
from nullblock.reference.kv_cache_utils import (
    BlockHash,
    BlockHashWithGroupId,
    FreeKVCacheBlockQueue,
    KVCacheBlock,
    make_block_hash_with_group_id,
)

KEY = BlockHashWithGroupId(b"key")


def ids(blocks: list[KVCacheBlock]) -> list[int]:
    """The blocks by number."""
    return [block.block_id for block in blocks]


def assert_well_formed(queue: FreeKVCacheBlockQueue) -> None:
    """Both directions agree, the sentinels close them, and the counter is the length."""
    forward = queue.get_all_free_blocks()
    backward: list[KVCacheBlock] = []
    block = queue.fake_free_list_tail.prev_free_block
    while block is not queue.fake_free_list_head:
        assert block is not None
        backward.append(block)
        block = block.prev_free_block
    assert ids(backward) == ids(forward)[::-1]
    assert queue.num_free_blocks == len(forward)


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["popleft", "popleft_n", "remove", "append", "append_n", "prepend_n"]),
        st.integers(0, 7),
    ),
    max_size=40,
)


@given(size=st.integers(0, 8), operations=OPERATIONS)
def test_the_free_queue_behaves_as_a_list(size: int, operations: list[tuple[str, int]]) -> None:
    """Any mixture of takes, removals and appends gives what a plain list gives."""
    blocks = [KVCacheBlock(i) for i in range(size)]
    queue = FreeKVCacheBlockQueue(blocks)
    model = list(range(size))
    out: list[int] = []
    for name, n in operations:
        if name == "popleft" and model:
            got = [queue.popleft().block_id]
            assert got == [model.pop(0)]
            out += got
        elif name == "popleft_n" and n <= len(model):
            got = ids(queue.popleft_n(n))
            assert got == model[:n]
            del model[:n]
            out += got
        elif name == "remove" and model:
            chosen = model.pop(n % len(model))
            queue.remove(blocks[chosen])
            out.append(chosen)
        elif name == "append" and out:
            model.append(out.pop(0))
            queue.append(blocks[model[-1]])
        elif name == "append_n":
            queue.append_n([blocks[i] for i in out[:n]])
            model += out[:n]
            del out[:n]
        elif name == "prepend_n":
            queue.prepend_n([blocks[i] for i in out[:n]])
            model[:0] = out[:n]
            del out[:n]
        assert ids(queue.get_all_free_blocks()) == model
        assert_well_formed(queue)
        assert all(blocks[i].prev_free_block is blocks[i].next_free_block is None for i in out)


def test_an_empty_free_queue_says_so() -> None:
    """There is nothing to take, in either form."""
    queue = FreeKVCacheBlockQueue([])
    with pytest.raises(ValueError, match="No free blocks"):
        queue.popleft()
    assert queue.popleft_n(0) == []
    with pytest.raises(AssertionError):
        queue.popleft_n(1)


def test_fewer_blocks_than_none_are_counted_as_put_back() -> None:
    """GROUP-65, as in vLLM 0.22.1: nothing is there, but the end mark is handed out for it."""
    queue = FreeKVCacheBlockQueue([])
    assert queue.popleft_n(-1) == []
    assert queue.num_free_blocks == 1 and queue.get_all_free_blocks() == []
    assert queue.popleft().block_id == -1


def test_nothing_can_be_put_behind_an_end_mark_that_is_gone_but_nothing() -> None:
    """Once the end mark was handed out no block can be put back; of none nobody asks."""
    queue = FreeKVCacheBlockQueue([])
    queue.popleft_n(-1)
    mark = queue.popleft()
    queue.append_n([])
    assert queue.num_free_blocks == 0 and mark.next_free_block is None
    with pytest.raises(AssertionError):
        queue.append_n([KVCacheBlock(0)])


def test_a_block_that_is_not_free_cannot_be_removed() -> None:
    """Removing twice is an error, not a corrupted list."""
    blocks = [KVCacheBlock(i) for i in range(3)]
    queue = FreeKVCacheBlockQueue(blocks)
    queue.remove(blocks[1])
    with pytest.raises(RuntimeError, match="not free"):
        queue.remove(blocks[1])
    assert ids(queue.get_all_free_blocks()) == [0, 2]


def test_a_block_takes_one_hash_until_it_is_reset() -> None:
    """A second hash is refused; after a reset another is taken."""
    block = KVCacheBlock(7)
    block.block_hash = KEY
    with pytest.raises(AssertionError, match="already has a hash"):
        block.block_hash = KEY
    block.reset_hash()
    assert block.block_hash is None
    block.block_hash = BlockHashWithGroupId(b"other")
    assert "block_id=7" in repr(block) and "prev_free_block=None" in repr(block)


def test_the_map_returns_the_oldest_of_equal_blocks() -> None:
    """Duplicates are kept; look-up returns the first, and the next once that one is gone."""
    cache = BlockHashToBlockMap()
    first, second, third = (KVCacheBlock(i) for i in (9, 3, 5))
    assert cache.get_one_block(KEY) is None
    for block in (first, second, third):
        cache.insert(KEY, block)
    assert cache.get_one_block(KEY) is first
    assert len(cache) == 1
    assert cache.pop(KEY, 3) is second
    assert cache.pop(KEY, 3) is None
    assert cache.get_one_block(KEY) is first
    assert cache.pop(KEY, 9) is first
    assert cache.get_one_block(KEY) is third
    assert cache.pop(KEY, 5) is third
    assert len(cache) == 0


def test_the_map_keeps_a_block_that_was_not_asked_for() -> None:
    """Popping another block of the same content leaves the one that is there."""
    cache = BlockHashToBlockMap()
    block = KVCacheBlock(1)
    cache.insert(KEY, block)
    assert cache.pop(KEY, 2) is None
    assert cache.get_one_block(KEY) is block
    assert cache.pop(BlockHashWithGroupId(b"unknown"), 1) is None


def pool_of(num_blocks: int, enable_caching: bool = True) -> BlockPool:
    """A pool whose hashes cover two tokens."""
    return BlockPool(num_blocks, enable_caching, hash_block_size=2)


def cache_blocks(pool: BlockPool, blocks: list[KVCacheBlock], hashes: list[bytes]) -> None:
    """Enter blocks into the prefix cache under those hashes."""
    request = SimpleNamespace(block_hashes=[BlockHash(h) for h in hashes])
    pool.cache_full_blocks(request, blocks, 0, len(blocks), 2, 0)  # type: ignore[arg-type]


def test_the_null_block_is_taken_first_and_never_handed_out() -> None:
    """Block 0 is the null block; the others come in the order of their ids."""
    pool = pool_of(4)
    assert pool.null_block.block_id == 0 and pool.null_block.is_null
    assert pool.get_num_free_blocks() == 3
    assert ids(pool.get_new_blocks(3)) == [1, 2, 3]
    with pytest.raises(ValueError, match="Cannot get 1 free blocks"):
        pool.get_new_blocks(1)
    assert pool.get_usage() == 1.0


def test_a_pool_of_nothing_but_the_null_block_is_not_in_use() -> None:
    """Its usage is 0, not a division by zero."""
    assert pool_of(1).get_usage() == 0


def test_new_blocks_have_one_holder_and_no_content() -> None:
    """A reused block leaves the prefix cache, and only then."""
    pool = pool_of(3)
    blocks = pool.get_new_blocks(2)
    cache_blocks(pool, blocks, [b"a", b"b"])
    pool.free_blocks(reversed(blocks))
    assert pool.get_cached_block(BlockHash(b"a"), [0]) == [blocks[0]]
    (reused,) = pool.get_new_blocks(1)
    assert (reused.block_id, reused.ref_cnt, reused.block_hash) == (2, 1, None)
    assert pool.get_cached_block(BlockHash(b"b"), [0]) is None
    assert pool.get_cached_block(BlockHash(b"a"), [0]) == [blocks[0]]


def test_a_hit_must_be_in_every_group() -> None:
    """A block that one group lacks is a miss."""
    pool = pool_of(3)
    cache_blocks(pool, pool.get_new_blocks(1), [b"a"])
    assert pool.get_cached_block(BlockHash(b"a"), [0, 1]) is None


def test_touching_a_free_block_takes_it_out_of_the_queue() -> None:
    """The first holder unlinks it, the second only counts, and both must let go."""
    pool = pool_of(4)
    blocks = pool.get_new_blocks(3)
    pool.free_blocks(blocks)
    pool.touch([blocks[1]])
    assert ids(pool.free_block_queue.get_all_free_blocks()) == [1, 3]
    pool.touch([blocks[1]])
    assert blocks[1].ref_cnt == 2
    pool.free_blocks([blocks[1]])
    assert pool.get_num_free_blocks() == 2
    pool.free_blocks([blocks[1]])
    assert ids(pool.free_block_queue.get_all_free_blocks()) == [1, 3, 2]


def test_the_null_block_is_neither_queued_nor_unlinked() -> None:
    """Touching and freeing it changes its count only."""
    pool = pool_of(3)
    pool.touch([pool.null_block])
    pool.free_blocks([pool.null_block])
    assert ids(pool.free_block_queue.get_all_free_blocks()) == [1, 2]


def test_evicting_a_held_block_leaves_it_with_its_holder() -> None:
    """It only leaves the cache; a block without a hash is left alone; the id must exist."""
    pool = pool_of(4)
    blocks = pool.get_new_blocks(2)
    cache_blocks(pool, blocks[:1], [b"a"])
    pool.evict_blocks({1, 2, 3, 0})
    assert blocks[0].ref_cnt == 1 and blocks[0].block_hash is None
    assert pool.get_num_free_blocks() == 1
    with pytest.raises(AssertionError, match="block 4 is not in a pool of 4"):
        pool.evict_blocks({4})


def test_the_cache_is_reset_only_when_nobody_holds_a_block() -> None:
    """With a holder nothing changes; without one every hash is gone and the order stays."""
    pool = pool_of(4)
    blocks = pool.get_new_blocks(2)
    cache_blocks(pool, blocks, [b"a", b"b"])
    assert not pool.reset_prefix_cache()
    assert blocks[0].block_hash == make_block_hash_with_group_id(BlockHash(b"a"), 0)
    pool.free_blocks(reversed(blocks))
    assert pool.reset_prefix_cache()
    assert len(pool.cached_block_hash_to_block) == 0
    assert all(block.block_hash is None for block in pool.blocks)
    assert ids(pool.free_block_queue.get_all_free_blocks()) == [3, 2, 1]


def test_what_is_out_of_scope_is_refused_when_the_pool_is_made() -> None:
    """Metrics are named in the refusal."""
    with pytest.raises(UnsupportedFeature, match="KV cache metrics"):
        BlockPool(4, True, 2, metrics_collector=object())
    with pytest.raises(AssertionError):
        BlockPool(0, True, 2)
