"""The whole state of the engine, and what several phases of a step do with it."""

from collections import deque

import numpy as np

from nullblock.impl.arrays import Ints
from nullblock.impl.block_pool import BlockPool
from nullblock.impl.prefix_cache import ROOT
from nullblock.impl.requests import Request
from nullblock.impl.running import Running
from nullblock.impl.step import InFlight, Step
from nullblock.impl.waiting import FCFS, Priority, WaitingQueue
from nullblock.spec.facts import Config
from nullblock.spec.fields import UNPAUSED


class State:
    """Every request is in exactly one place: the waiting queue, the running list, or gone."""

    def __init__(self, config: Config) -> None:
        self.config, self.semantics = config, config.semantics
        self.pool = BlockPool(config.num_blocks, self.semantics.freed_unhashed_first)
        self.running = Running(config.max_num_seqs, config.max_model_len, config.block_size)
        self.waiting: WaitingQueue = Priority() if config.policy == "priority" else FCFS()
        self.requests: dict[str, Request] = {}
        """Everybody alive, by id, in order of arrival."""
        self.rejected: list[tuple[str, str]] = []
        """Refused at arrival, and not reported yet: ids and reasons."""
        self.finished: list[str] = []
        """Ended, and not yet told to the worker."""
        self.pause_state = UNPAUSED
        self.in_flight: deque[InFlight] = deque()
        """Steps whose output has not come, oldest first."""
        self.counts_outputs = config.async_scheduling or self.semantics.outputs_owed_once
        """Whether each request's tokens in flight are counted (UPD-17)."""

    @property
    def step(self) -> Step | None:
        """The oldest step in flight."""
        return self.in_flight[0].step if self.in_flight else None

    def blocks(self, tokens: int) -> int:
        """Blocks that so many tokens take."""
        return -(-tokens // self.config.block_size)

    # Names and the prefix cache ------------------------------------------------------------------

    def name_waiting(self, request: Request) -> None:
        """Name the full blocks of a waiting request that have no name yet."""
        size, have = self.config.block_size, len(request.names)
        if not self.config.enable_prefix_caching or request.num_tokens < (have + 1) * size:
            return
        tokens, cache = request.tokens[have * size :], self.pool.cache
        names = cache.name_prompt(request.last_name, tokens, size, request.extras)
        request.names = np.concatenate([request.names, np.array(names, np.int64)])

    def _name_running(self, places: Ints, full: Ints) -> None:
        """Name the leading `full` blocks of these running requests, as far as they are not.

        Of all of them one block at a time: in one step of a decode no request fills more.
        """
        running, size = self.running, self.config.block_size
        while True:
            lacking = running.num_named[places] < full
            if not lacking.any():
                return
            places, full = places[lacking], full[lacking]
            rows, block = running.row[places], running.num_named[places]
            # A request without a block before holds no name: what stands in its row is of old.
            before = np.where(block > 0, running.names[rows, block - 1], ROOT)
            tokens = running.tokens[rows[:, None], (block * size)[:, None] + np.arange(size)]
            requests = running.requests
            extras = {
                i: requests[place].extras
                for i, place in enumerate(places.tolist())
                if requests[place].extras != ((), ())
            }
            running.names[rows, block] = self.pool.cache.name_blocks(before, tokens, extras)
            running.num_named[places] += 1

    def publish(self, places: Ints, full: Ints) -> None:
        """Cache the leading `full` blocks of these; each has some that is not cached (HASH-12)."""
        self._name_running(places, full)
        running, cache = self.running, self.pool.cache
        rows, first = running.row[places], running.num_cached[places]
        # Of a prompt longer than max_model_len vLLM 0.22.1 counts blocks that it does not have.
        last = np.minimum(full, running.num_blocks[places])
        if (last - first == 1).all():
            cache.insert(running.table[rows, first], running.names[rows, first])
        else:
            for row, start, stop in zip(rows.tolist(), first.tolist(), last.tolist(), strict=True):
                cache.insert(running.table[row, start:stop], running.names[row, start:stop])
        running.num_cached[places] = full

    # Leaving -------------------------------------------------------------------------------------

    def leave(self, i: int) -> Request:
        """Free the blocks of the i-th running request, last one first (POOL-12), and its row.

        The caller takes it off the list.
        """
        running = self.running
        self.pool.release(running.blocks(i)[::-1].copy())
        return running.leave(i)

    def preempt(self, i: int) -> Request:
        """Let the i-th running request wait and start over, without blocks (PREEMPT-4)."""
        request = self.leave(i)
        self.running.remove([i])
        request.num_preemptions += 1
        self.waiting.put_back(request)
        return request

    def preempt_for_reset(self, i: int) -> None:
        """Preempt the i-th; scheduling ahead, nobody takes its tokens in flight (LIFE-3)."""
        running = self.running
        if self.config.async_scheduling:
            # vLLM 0.22.1 forgets here what a reset before this one was to discard.
            before = int(running.discarded[i]) if self.semantics.discards_add_up else 0
            running.discarded[i] = before + running.placeholders[i]
            running.placeholders[i] = 0
        self.preempt(i)

    def forget(self, request: Request) -> None:
        """A request that holds no blocks any more is over (LIFE-6)."""
        self.pool.cache.let_go(request.last_name)
        self.finished.append(request.id)
        del self.requests[request.id]
