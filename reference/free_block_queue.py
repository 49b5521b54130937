"""A KV-cache block's bookkeeping, and the queue of the free ones. Public as `kv_cache_utils`."""

from dataclasses import dataclass
from typing import NewType

BlockHash = NewType("BlockHash", bytes)
"""The chain hash of a full block: of its tokens, its extra keys and its parent's hash."""

BlockHashWithGroupId = NewType("BlockHashWithGroupId", bytes)
"""A block hash followed by the four bytes of its KV-cache group: the key of the prefix cache."""


@dataclass(slots=True)
class KVCacheBlock:
    """One block of the pool.

    It is in the free queue exactly while ``ref_cnt`` is 0, with both links set; the null block
    alone is in neither state. It may keep its hash while it is free: that is the prefix cache.
    """

    block_id: int
    ref_cnt: int = 0
    """How many requests hold the block. Not kept for the null block."""
    _block_hash: BlockHashWithGroupId | None = None
    prev_free_block: "KVCacheBlock | None" = None
    next_free_block: "KVCacheBlock | None" = None
    is_null: bool = False

    @property
    def block_hash(self) -> BlockHashWithGroupId | None:
        """The key under which the block is cached, or None."""
        return self._block_hash

    @block_hash.setter
    def block_hash(self, block_hash: BlockHashWithGroupId) -> None:
        assert self._block_hash is None, f"block {self.block_id} already has a hash"
        self._block_hash = block_hash

    def reset_hash(self) -> None:
        """Forget the content: the block is about to hold something else."""
        self._block_hash = None

    def __repr__(self) -> str:
        # The links by number: following them would print the whole queue.
        before = self.prev_free_block.block_id if self.prev_free_block else None
        after = self.next_free_block.block_id if self.next_free_block else None
        return (
            f"KVCacheBlock(block_id={self.block_id}, ref_cnt={self.ref_cnt}, "
            f"_block_hash={self._block_hash!r}, prev_free_block={before}, "
            f"next_free_block={after})"
        )


class FreeKVCacheBlockQueue:
    """The free blocks in the order in which they will be reused: front first.

    A doubly linked list through the blocks themselves, so that a block which is hit again leaves
    the middle of the queue in constant time and nothing is allocated. Two sentinels (id -1) stand
    at the ends; every queued block therefore has two neighbours. At first the order is that of
    the ids; freed blocks join at the back.
    """

    def __init__(self, blocks: list[KVCacheBlock]) -> None:
        self.num_free_blocks = 0
        self.fake_free_list_head = KVCacheBlock(block_id=-1)
        self.fake_free_list_tail = KVCacheBlock(block_id=-1)
        self.fake_free_list_head.next_free_block = self.fake_free_list_tail
        self.fake_free_list_tail.prev_free_block = self.fake_free_list_head
        self.append_n(blocks)

    def popleft(self) -> KVCacheBlock:
        """Take the first free block; ``ValueError`` if there is none."""
        if self.num_free_blocks == 0:
            raise ValueError("No free blocks available")
        return self.popleft_n(1)[0]

    def popleft_n(self, n: int) -> list[KVCacheBlock]:
        """Take the first ``n`` free blocks, in queue order. There must be that many.

        Fewer than none counts as put back, though nothing is: vLLM 0.22.1 asks for that where one
        kind of full attention hits more than is agreed on and loaded (:mod:`.hybrid_coordinator`).
        """
        assert n <= self.num_free_blocks, f"{n} of {self.num_free_blocks} free blocks"
        taken: list[KVCacheBlock] = []
        head = self.fake_free_list_head
        block = head.next_free_block
        for _ in range(n):
            assert block is not None
            taken.append(block)
            following = block.next_free_block
            block.prev_free_block = block.next_free_block = None
            block = following
        if taken and block is not None:
            head.next_free_block = block
            block.prev_free_block = head
        self.num_free_blocks -= n
        return taken

    def remove(self, block: KVCacheBlock) -> None:
        """Take ``block`` out, wherever it stands; ``RuntimeError`` if it is not queued."""
        before, after = block.prev_free_block, block.next_free_block
        if before is None or after is None:
            raise RuntimeError(f"remove() of a block that is not free: {block}")
        before.next_free_block = after
        after.prev_free_block = before
        block.prev_free_block = block.next_free_block = None
        self.num_free_blocks -= 1

    def prepend_n(self, blocks: list[KVCacheBlock]) -> None:
        """Put blocks at the front; the first of them will be reused first, and at once."""
        head = self.fake_free_list_head
        following = head.next_free_block
        assert following is not None
        for block in reversed(blocks):
            block.next_free_block = following
            following.prev_free_block = block
            following = block
        head.next_free_block = following
        following.prev_free_block = head
        self.num_free_blocks += len(blocks)

    def append(self, block: KVCacheBlock) -> None:
        """Put a block at the back: it will be the last to be reused."""
        self.append_n([block])

    def append_n(self, blocks: list[KVCacheBlock]) -> None:
        """Put blocks at the back; the first of them will be reused first.

        Of no blocks nothing is asked, as in vLLM: even where its count went astray, and the mark
        at the end was given out (:mod:`.hybrid_coordinator`).
        """
        if not blocks:
            return
        tail = self.fake_free_list_tail
        last = tail.prev_free_block
        assert last is not None
        for block in blocks:
            last.next_free_block = block
            block.prev_free_block = last
            last = block
        last.next_free_block = tail
        tail.prev_free_block = last
        self.num_free_blocks += len(blocks)

    def get_all_free_blocks(self) -> list[KVCacheBlock]:
        """Every free block in queue order. For tests and dumps: it walks the queue."""
        blocks: list[KVCacheBlock] = []
        block = self.fake_free_list_head.next_free_block
        while block is not None and block.next_free_block is not None:  # as of the end mark
            blocks.append(block)
            block = block.next_free_block
        return blocks
