"""The pool of blocks: reference counts, the free queue, and what is cached in which block."""

import numpy as np
from numpy.typing import NDArray

from nullblock.impl.arrays import Blocks
from nullblock.impl.free_queue import FreeQueue
from nullblock.impl.prefix_cache import ROOT, PrefixCache


class BlockPool:
    """Blocks 0 to `num_blocks` - 1, of which block 0 is the null block and never given out."""

    def __init__(self, num_blocks: int, freed_unhashed_first: bool) -> None:
        self.num_blocks = num_blocks
        self.free = FreeQueue(num_blocks)
        self.ref_cnt: NDArray[np.int32] = np.zeros(num_blocks, np.int32)
        self.cache = PrefixCache(num_blocks)
        self._unhashed_first = freed_unhashed_first

    @property
    def num_free(self) -> int:
        """Free blocks, those that cache something included."""
        return self.free.num_free

    def take(self, n: int) -> Blocks:
        """The first n free blocks, each with one holder; they cache nothing any more (POOL-10)."""
        blocks = self.free.popleft_n(n)
        self.ref_cnt[blocks] = 1
        self.cache.evict(blocks)
        return blocks

    def touch(self, blocks: Blocks) -> None:
        """One more holder for each; those that were free leave the queue (POOL-11)."""
        free = blocks[self.ref_cnt[blocks] == 0]
        if len(free):
            self.free.remove(free)
        self.ref_cnt[blocks] += 1

    def release(self, blocks: Blocks) -> None:
        """One holder less for each; those without one are free, in this order (POOL-12)."""
        self.ref_cnt[blocks] -= 1
        freed = blocks[self.ref_cnt[blocks] == 0]
        if self._unhashed_first:
            hashed = self.cache.carried[freed] != ROOT
            self.free.prepend(freed[~hashed])
            freed = freed[hashed]
        self.free.append(freed)

    def reset(self) -> bool:
        """Forget what is cached, unless a block is held; whether it was done (LIFE-10)."""
        if self.num_free != self.num_blocks - 1:
            return False
        self.cache.clear()
        return True
