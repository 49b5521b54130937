"""The scheduler: one step after another, and what may happen between steps.

A step's usual work (every running request gets its tokens, and the free blocks suffice) is done
for all requests at once. Where the rules say "one after another" (a preemption, an admission, an
end) they are taken one after another.
"""

import numpy as np
from numpy.typing import ArrayLike

from nullblock.impl.known import refuse_unknown
from nullblock.impl.output_phase import decide
from nullblock.impl.picture import Picture
from nullblock.impl.portrait import portray
from nullblock.impl.requests import Request
from nullblock.impl.running_phase import Open, schedule_running
from nullblock.impl.state import State
from nullblock.impl.step import Outputs, Step
from nullblock.impl.update import update_from_output
from nullblock.impl.waiting_phase import schedule_waiting
from nullblock.spec.facts import Config
from nullblock.spec.fields import PAUSED_ALL, PAUSED_NEW, UNPAUSED
from nullblock.spec.rejection import why_unservable

MOST = 1 << 53
"""Of tokens, blocks and requests: their sums have to fit 64 bits."""
LIMITS = (
    "block_size",
    "max_num_scheduled_tokens",
    "max_model_len",
    "long_prefill_token_threshold",
)


class Scheduler(State):
    """Scheduling of one full-attention group, with any number of steps in flight.

    Raises ValueError for numbers that are too large.
    """

    def __init__(self, config: Config) -> None:
        refuse_unknown(config.semantics)
        for limit in LIMITS:
            if getattr(config, limit) > MOST:
                raise ValueError(f"{limit} is more than {MOST}")
        super().__init__(config)

    def schedule(self) -> Step:
        """Decide one step: running requests first, then admissions. Others may be in flight."""
        running, paused = self.running, self.pause_state == PAUSED_ALL
        step = Open(0 if paused else self.config.max_num_scheduled_tokens)
        running.granted[: running.count] = 0
        running.told[: running.count] = running.num_blocks[: running.count]
        schedule_running(self, step)
        ran, admitted = running.count, list[Request]()
        if not step.preempted and self.pause_state == UNPAUSED and len(self.waiting):
            admitted = schedule_waiting(self, step)
        decided = decide(self, ran, admitted, step.preempted)
        self.in_flight.append(decided)
        return decided.step

    def update_from_output(self, sampled: ArrayLike) -> Outputs:
        """Take in what the step in flight sampled: the function of that name."""
        return update_from_output(self, sampled)

    def add_request(self, request: Request) -> None:
        """Queue a request, or note its rejection (LIFE-2).

        Raises ValueError if its id belongs to one that is alive.
        """
        if request.id in self.requests:
            raise ValueError(f"a request {request.id!r} is alive: use another id")
        if self.semantics.reject_unservable:
            why = why_unservable(self.config, request.num_prompt_tokens, request.max_tokens)
            if why is not None:
                self.rejected.append((request.id, why))
                return
        self.name_waiting(request)
        self.requests[request.id] = request
        self.waiting.add(request)

    def finish_requests(self, ids: list[str]) -> list[str]:
        """End requests from outside, in this order; those that were alive (LIFE-4, LIFE-5)."""
        ended = [id for id in dict.fromkeys(ids) if id in self.requests]
        for id in ended:
            request = self.requests[id]
            if request.is_running:
                place = self.running.index(request)
                self.leave(place)
                self.running.remove([place])
            else:
                self.waiting.remove(request)
            self.forget(request)
        return ended

    def reset_prefix_cache(self, reset_running: bool = False) -> bool:
        """Empty the cache; it cannot be while blocks are held. Whether it was done (LIFE-10).

        With `reset_running` all running requests are preempted first, the last one first, so that
        they wait in the order in which they ran (LIFE-3).
        """
        if reset_running:
            while self.running.count:
                self.preempt_for_reset(self.running.count - 1)
        return self.pool.reset()

    def evict_blocks(self, blocks: list[int]) -> None:
        """Take blocks out of the cache; whoever holds them keeps holding them (HASH-13).

        Raises ValueError for a block that there is not.
        """
        for block in blocks:
            if not 0 <= block < self.config.num_blocks:
                raise ValueError(f"no block {block}: there are {self.config.num_blocks}")
        self.pool.cache.evict(np.array(sorted(set(blocks)), np.int32))

    def num_tokens(self, request: Request) -> int:
        """Prompt and output of a request, wherever it is."""
        if not request.is_running:
            return request.num_tokens
        return int(self.running.num_tokens[self.running.index(request)])

    def num_unfinished(self) -> int:
        """Requests that there is work for, under the pause state (LIFE-16)."""
        counts = {UNPAUSED: len(self.requests), PAUSED_NEW: self.running.count, PAUSED_ALL: 0}
        return counts[self.pause_state]

    def picture(self, pool: bool = True) -> Picture:
        """The whole state, copied; without the block pool if that is not asked for."""
        return portray(self, pool)
