"""The queue of free blocks, next one to be given out first: a ring of positions with holes.

A pop, a push and a removal from the middle are each a few array operations however many blocks
they are for, and the order is vLLM's to the block. `ring[p % capacity]` is the block at position
p, or `HOLE`; `position[b]` is where block b stands. Positions grow at the back and fall at the
front.
"""

import numpy as np

from nullblock.impl.arrays import Blocks

HOLE = -1
ABSENT = -1
"""The position of a block that is not free. Positions are never negative."""
FIRST = 1 << 40
"""Where the head starts: far enough from 0 for any number of blocks put back in front."""


class FreeQueue:
    """Blocks 1 to `num_blocks` - 1, at first in order of id."""

    def __init__(self, num_blocks: int) -> None:
        self.num_free = num_blocks - 1
        """Blocks in the queue."""
        # Four times the pool: a compaction needs at least twice the pool of removals before it.
        capacity = 1 << max(4, (4 * num_blocks - 1).bit_length())
        self._mask = capacity - 1
        self._ring = np.full(capacity, HOLE, np.int32)
        self.position = np.full(num_blocks, ABSENT, np.int64)
        self._head = self._tail = FIRST
        self.append(np.arange(1, num_blocks, dtype=np.int32))
        self.num_free = num_blocks - 1

    def popleft_n(self, n: int) -> Blocks:
        """The first n blocks, which leave. There have to be so many."""
        assert 0 <= n <= self.num_free, f"{n} of {self.num_free} free blocks"
        if n == 0:
            return np.empty(0, np.int32)
        self._head, found = self._front(n)
        self.position[found] = ABSENT
        self.num_free -= n
        return found

    def _front(self, n: int) -> tuple[int, Blocks]:
        """The first n blocks, and the position after the last of them; they become holes."""
        ring, mask, head = self._ring, self._mask, self._head
        at = head & mask
        if at + n <= mask + 1:
            found = ring[at : at + n].copy()
            if n == 1 and found[0] != HOLE or n > 1 and found.min() != HOLE:
                ring[at : at + n] = HOLE
                return head + n, found
        # Holes are passed once: what is looked at is as long as they are many, not the queue.
        ahead, there = 2 * n, np.empty(0, np.int64)
        while len(there) < n:
            ahead *= 2
            places = np.arange(head, min(head + ahead, self._tail)) & mask
            blocks = ring[places]
            there = np.flatnonzero(blocks != HOLE)
        there = there[:n]
        found = blocks[there]
        ring[places[there]] = HOLE
        return head + int(there[-1]) + 1, found

    def append(self, blocks: Blocks) -> None:
        """Put blocks behind all others, in their order."""
        n = len(blocks)
        if n == 0:
            return
        self._make_room(n)
        self._put(blocks, self._tail)
        self._tail += n
        self.num_free += n

    def prepend(self, blocks: Blocks) -> None:
        """Put blocks before all others, in their order."""
        n = len(blocks)
        if n == 0:
            return
        self._make_room(n)
        self._head -= n
        self._put(blocks, self._head)
        self.num_free += n

    def remove(self, blocks: Blocks) -> None:
        """Take blocks out, wherever they stand."""
        self._ring[self.position[blocks] & self._mask] = HOLE
        self.position[blocks] = ABSENT
        self.num_free -= len(blocks)

    def __contains__(self, block: int) -> bool:
        return bool(self.position[block] != ABSENT)

    def in_order(self) -> list[int]:
        """All free blocks, next one first."""
        blocks = self._ring[np.arange(self._head, self._tail) & self._mask]
        found: list[int] = blocks[blocks != HOLE].tolist()
        return found

    def _put(self, blocks: Blocks, first: int) -> None:
        places = np.arange(first, first + len(blocks))
        self._ring[places & self._mask] = blocks
        self.position[blocks] = places

    def _make_room(self, n: int) -> None:
        """Close the holes if the ring would be full."""
        if self._tail - self._head + n <= self._mask + 1:
            return
        blocks = np.array(self.in_order(), np.int32)
        self._ring.fill(HOLE)
        self._tail = self._head + len(blocks)
        self._put(blocks, self._head)
