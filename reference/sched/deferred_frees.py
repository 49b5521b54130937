"""Blocks that were given up while a step in flight computes their request.

From 0.32.0 on, where steps overlap and a connector loads, they go back to the pool when the newest
step that was in flight then has come back: a load is not ordered behind steps in flight, and may
write to a free block at once.
"""

from collections import deque
from typing import TYPE_CHECKING

from nullblock.reference.kv_cache_utils import KVCacheBlock
from nullblock.reference.request import Request

if TYPE_CHECKING:
    from nullblock.reference.kv_cache_manager import KVCacheManager


class DeferredFrees:
    """Counts steps, and keeps blocks until they may be given back."""

    def __init__(self, kv_cache_manager: "KVCacheManager") -> None:
        self.kv_cache_manager = kv_cache_manager
        self.sched_step_seq = self.processed_step_seq = 0
        """Steps that computed something: scheduled, and come back."""
        self.frees: deque[tuple[int, list[KVCacheBlock]]] = deque()
        """The step that blocks wait for, and the blocks as they stand in their table."""

    def scheduled(self, requests: dict[str, Request], request_ids: dict[str, int]) -> None:
        """A step is in flight."""
        self.sched_step_seq += bool(request_ids)
        for request_id in request_ids:
            requests[request_id].last_sched_seq = self.sched_step_seq

    def came_back(self) -> None:
        """The oldest step has: what waited for it is free."""
        self.processed_step_seq += 1
        while self.frees and self.frees[0][0] <= self.processed_step_seq:
            _, blocks = self.frees.popleft()
            self.kv_cache_manager.block_pool.free_blocks(reversed(blocks))

    def must_wait(self, request: Request) -> bool:
        """Whether a step in flight computes a request."""
        return request.last_sched_seq > self.processed_step_seq

    def free(self, request: Request) -> None:
        """Give a request's blocks back, at once or when they may be."""
        if not self.must_wait(request):
            self.kv_cache_manager.free(request)
            return
        blocks = self.kv_cache_manager.pop_blocks_for_free(request)
        if blocks:
            self.frees.append((self.sched_step_seq, blocks))
