"""What happens to blocks: the free queue, sharing, and how long a hash lives."""

import pytest
from seeds.scenarios import RUN, Play, add, schedules, step

from nullblock.reference.block_pool import BlockPool
from nullblock.reference.kv_cache_utils import (
    BlockHash,
    FreeKVCacheBlockQueue,
    KVCacheBlock,
    make_block_hash_with_group_id,
)

SMALL = {"block_size": 4, "num_blocks": 9, "max_model_len": 64}


def ids(blocks: list[KVCacheBlock]) -> list[int]:
    """Block ids."""
    return [block.block_id for block in blocks]


def test_the_walk_of_popleft_n() -> None:
    """Blocks come from the front, linked to nothing; head and new front are linked both ways."""
    blocks = [KVCacheBlock(n) for n in range(5)]
    queue = FreeKVCacheBlockQueue(blocks)
    popped = queue.popleft_n(3)
    assert ids(popped) == [0, 1, 2]
    assert all(b.prev_free_block is None and b.next_free_block is None for b in popped)
    assert queue.fake_free_list_head.next_free_block is blocks[3]
    assert blocks[3].prev_free_block is queue.fake_free_list_head
    assert queue.num_free_blocks == 2
    assert ids(queue.get_all_free_blocks()) == [3, 4]


def test_popping_none_and_all() -> None:
    """Nothing for 0; the last pop links head and tail."""
    queue = FreeKVCacheBlockQueue([KVCacheBlock(n) for n in range(3)])
    assert queue.popleft_n(0) == [] and queue.num_free_blocks == 3
    assert ids(queue.popleft_n(3)) == [0, 1, 2]
    assert queue.fake_free_list_head.next_free_block is queue.fake_free_list_tail
    assert queue.fake_free_list_tail.prev_free_block is queue.fake_free_list_head
    with pytest.raises(AssertionError):
        queue.popleft_n(1)


def test_a_block_leaves_from_the_middle() -> None:
    """What no deque offers: neighbours are linked with each other at once."""
    blocks = [KVCacheBlock(n) for n in range(4)]
    queue = FreeKVCacheBlockQueue(blocks)
    queue.remove(blocks[1])
    assert ids(queue.get_all_free_blocks()) == [0, 2, 3]
    assert blocks[0].next_free_block is blocks[2] and blocks[2].prev_free_block is blocks[0]
    queue.append(blocks[1])
    assert ids(queue.get_all_free_blocks()) == [0, 2, 3, 1]


def test_the_first_blocks_are_handed_out_in_order(play: Play) -> None:
    """Block 0 is the null block and is nobody's; the others start in the order of their ids."""
    events = [add("a", 0, 10), add("b", 40, 3), step()]
    (line,) = schedules(play({"config": SMALL, "events": events}))
    assert [new["blocks"] for new in line["new"]] == [[[1, 2, 3]], [[4]]]
    assert line["state"]["free_queue"] == [5, 6, 7, 8]


def test_a_shared_block_stays_until_the_last_owner_leaves(play: Play) -> None:
    """References 2, then 1 and still not free, then none: in the queue, with its hash."""
    events = [add("a", 0, 10), add("b", 0, 11), step()]
    events += [{"op": "abort", "ids": ["a"]}, {"op": "abort", "ids": ["b"]}]
    lines = [
        line["state"] for line in play({"config": SMALL, "events": events}) if "state" in line
    ]
    shared, one_left, none_left = lines[0], lines[-2], lines[-1]
    assert shared["requests"]["a"]["blocks"] == [[1, 2, 3]]
    assert shared["requests"]["b"]["blocks"] == [[1, 2, 4]]
    assert (shared["ref_cnt"]["1"], shared["ref_cnt"]["2"]) == (2, 2)
    assert (one_left["ref_cnt"]["1"], one_left["ref_cnt"]["2"]) == (1, 1)
    assert one_left["free_queue"] == [5, 6, 7, 8, 3]
    assert none_left["ref_cnt"].keys() <= {"0"}
    assert none_left["free_queue"] == [5, 6, 7, 8, 3, 4, 2, 1]
    assert none_left["block_hash"].keys() == {"1", "2"}


def test_sharing_at_the_pool() -> None:
    """The same with the pool's own methods: touch takes a block out of the queue only once."""
    pool = BlockPool(num_gpu_blocks=4, enable_caching=True, hash_block_size=4)
    (block,) = pool.get_new_blocks(1)
    pool.free_blocks([block])
    assert ids(pool.free_block_queue.get_all_free_blocks()) == [2, 3, 1]
    pool.touch([block])
    pool.touch([block])
    assert block.ref_cnt == 2 and pool.get_num_free_blocks() == 2
    pool.free_blocks([block])
    assert block.ref_cnt == 1 and pool.get_num_free_blocks() == 2
    pool.free_blocks([block])
    assert block.ref_cnt == 0
    assert ids(pool.free_block_queue.get_all_free_blocks()) == [2, 3, 1]


PRESSED = {"block_size": 4, "num_blocks": 5, "policy": "priority", "max_model_len": 64}


def test_the_timeline_of_lazy_eviction(play: Play) -> None:
    """A is preempted, B takes over one of its blocks, and A finds the rest when it resumes.

    One description frees [B1, B2, B3] in that order, lets B1 be taken over and A find H2 and H3.
    A table is freed from its last block, so the tail of the chain goes first: B3 is taken over,
    and A hits H1 and H2.
    """
    events = [add("A", 0, 12, 3, priority=1), add("B", 40, 4, 2), step(3)]
    first, second, third = schedules(play({"config": PRESSED, "events": events}))
    assert first["state"]["requests"]["A"]["blocks"] == [[2, 3, 4]]
    assert first["state"]["block_hash"].keys() == {"1", "2", "3", "4"}
    assert second["preempted"] == ["A"]
    (b,) = second["cached"]
    assert (b["id"], b["new_blocks"]) == ("B", [[4]])
    assert second["state"]["free_queue"] == [3, 2]
    assert second["state"]["block_hash"].keys() == {"1", "2", "3"}, "the tail lost its hash"
    (a,) = third["cached"]
    assert (a["id"], a["resumed"], a["computed"]) == ("A", True, 8)
    assert a["new_blocks"][0][:2] == [2, 3]


def test_a_chain_without_its_head_gives_no_hit(play: Play) -> None:
    """Had the head been taken over, H2 and H3 would still be in the map, and useless.

    A lookup begins with the first block and stops at the first miss, so the description's "finds
    H2, H3 still cached" cannot be, whichever block goes first.
    """
    config = {**SMALL, "num_blocks": 12}
    events = [
        add("A", 0, 13, 1),
        RUN,
        {"op": "evict_blocks", "ids": [1]},
        add("A2", 0, 13, 1),
        RUN,
    ]
    first, second = schedules(play({"config": config, "events": events}))
    assert first["state"]["block_hash"].keys() == {"1", "2", "3"}
    assert second["new"][0]["computed"] == 0


def test_lazy_eviction_at_the_pool() -> None:
    """A hash outlives the block's last owner, and ends when somebody else gets the block."""
    pool = BlockPool(num_gpu_blocks=4, enable_caching=True, hash_block_size=4)
    table = pool.get_new_blocks(3)
    keys = [BlockHash(bytes([n]) * 32) for n in range(3)]
    for block, key in zip(table, keys, strict=True):
        in_group = make_block_hash_with_group_id(key, 0)
        block.block_hash = in_group
        pool.cached_block_hash_to_block.insert(in_group, block)
    pool.free_blocks(reversed(table))
    assert all(pool.get_cached_block(key, [0]) for key in keys)
    assert pool.get_new_blocks(1) == [table[2]]
    assert [bool(pool.get_cached_block(key, [0])) for key in keys] == [True, True, False]
    assert table[2].block_hash is None
