"""Schedulers with one planted defect each, as a team might write them on top of somebody's own."""

import time
from collections.abc import Iterable
from typing import Any

from nullblock.reference.free_block_queue import KVCacheBlock
from nullblock.reference.request import Request
from nullblock.reference.sched.async_scheduler import AsyncScheduler
from nullblock.reference.sched.output import SchedulerOutput
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.reference.sched.state import Step


class PreemptsTheFirst(Scheduler):
    """Takes the blocks of whoever has run longest."""

    def _pop_victim(self, step: Step) -> Request:
        victim = self.running.pop(0)
        if step.withdraw(victim):
            step.req_index -= 1
        return victim


class KeepsComputed(Scheduler):
    """Forgets that a preempted request has nothing computed any more."""

    def _preempt_request(self, request: Request, timestamp: float) -> None:
        computed = request.num_computed_tokens
        super()._preempt_request(request, timestamp)
        request.num_computed_tokens = computed


class AdmitsAfterPreempting(Scheduler):
    """Gives a request that waits the blocks that a preemption has just made free."""

    def _schedule_waiting(self, step: Step) -> None:
        preempted, step.preempted = step.preempted, []
        super()._schedule_waiting(step)
        step.preempted = preempted


class FreesForwards(Scheduler):
    """Lets the first block of a table go first, which is then evicted first."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        pool = self.kv_cache_manager.block_pool
        free = pool.free_blocks

        def forwards(ordered_blocks: Iterable[KVCacheBlock]) -> None:
            free(reversed(list(ordered_blocks)))

        pool.free_blocks = forwards  # type: ignore[method-assign]


class OverBudget(Scheduler):
    """Has one token a step more than it was given."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.max_num_scheduled_tokens += 1


class CachesPartialBlocks(Scheduler):
    """Puts the block that holds the last tokens of a prompt into the prefix cache, full or not."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for manager in self.kv_cache_manager.coordinator.single_type_managers:
            cache, size = manager.cache_blocks, manager.block_size

            def rounded(
                request: Request, num_tokens: int, cache: Any = cache, size: int = size
            ) -> None:
                hashed = len(request.block_hashes) * size
                cache(request, min(hashed, -(-num_tokens // size) * size))

            manager.cache_blocks = rounded  # type: ignore[method-assign]


class StopsLate(Scheduler):
    """Lets a request have one token more than ``max_tokens``."""

    def add_request(self, request: Request) -> None:
        request.max_tokens += 1
        super().add_request(request)


class LosesFinishedIds(Scheduler):
    """Tells the workers of a finished request only if somebody else is scheduled."""

    def schedule(self) -> SchedulerOutput:
        output = super().schedule()
        if not output.num_scheduled_tokens:
            output.finished_req_ids = set()
        return output


class ForgetsASalt(Scheduler):
    """Two tenants with the same prompt share blocks, whatever their salts."""

    def add_request(self, request: Request) -> None:
        request.cache_salt = None
        request.block_hashes.clear()
        request.update_block_hashes()
        super().add_request(request)


class KeepsDroppedFrames(AsyncScheduler):
    """Takes outputs that a reset has made worthless."""

    def _discard_outputs_in_flight(self, request: Request) -> None:
        request.num_output_placeholders = 0


class KeepsRejectedDrafts(Scheduler):
    """Counts a draft that turned out wrong as computed all the same."""

    def _reject_drafts(
        self,
        request: Request,
        num_drafts: int,
        num_sampled: int,
        output: SchedulerOutput,
        is_stale: bool,
    ) -> None:
        super()._reject_drafts(request, num_drafts, num_drafts + 1, output, is_stale)


class SchedulesDraftsTwice(Scheduler):
    """Keeps the drafts of a step for the next one."""

    def _schedule_drafts(self, request: Request, num_new_tokens: int, step: Step) -> None:
        drafts = request.spec_token_ids
        super()._schedule_drafts(request, num_new_tokens, step)
        request.spec_token_ids = drafts


class LosesDraftsInFlight(AsyncScheduler):
    """Forgets, scheduling ahead, that drafts in flight may become tokens."""

    def _count_drafts(self, scheduler_output: SchedulerOutput) -> None:
        drafts = scheduler_output.scheduled_spec_decode_tokens
        super()._count_drafts(scheduler_output)
        for request_id, tokens in drafts.items():
            self.requests[request_id].num_output_placeholders -= len(tokens)


class RaisesInTheEnd(Scheduler):
    """Trips over the third request that ends."""

    ended = 0

    def _free_request(self, request: Request, delay_free_blocks: bool = False) -> Any:
        self.ended += 1
        if self.ended == 3:
            raise LookupError(f"no slot for {request.request_id}")
        return super()._free_request(request, delay_free_blocks)


class Sleeps(Scheduler):
    """Waits for somebody who never comes."""

    def schedule(self) -> SchedulerOutput:
        time.sleep(600)
        return super().schedule()


class Hangs(Scheduler):
    """Waits for blocks to come free while it holds the engine."""

    def _preempt_for(self, request: Request, num_new_tokens: int, step: Step) -> Any:
        while True:
            blocks = self.kv_cache_manager.allocate_slots(request, num_new_tokens)
            if blocks is not None:
                return blocks
