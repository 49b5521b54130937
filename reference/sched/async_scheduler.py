"""Asynchronous scheduling: a step is decided before the outputs of those before it are known.

What a request will sample is counted as a placeholder and scheduled like a known token; workers
fill it in. The other places where the two modes differ ask ``async_scheduling``.
"""

from typing import Any, ClassVar

from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sched.later import PADDING
from nullblock.reference.sched.scheduler import Scheduler


class AsyncScheduler(Scheduler):
    """A scheduler that is a step or more ahead of the model."""

    async_scheduling: ClassVar[bool] = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._spec_token_placeholders = [PADDING] * self.num_spec_tokens

    def _update_request_with_output(
        self, request: Request, new_token_ids: list[int], is_stale: bool = False
    ) -> tuple[list[int], bool]:
        """Append the tokens in place of placeholders, or drop them if a reset said so.

        A synchronous scheduler caches a block when it schedules the step that computes the block's
        last token. Here that token may not be known by then: unless a later step comes to it, the
        block is cached when that step has returned. A preempted request has no blocks.
        """
        if request.async_tokens_to_discard > 0:
            request.async_tokens_to_discard -= 1
            return [], False
        was_running = request.status == RequestStatus.RUNNING
        new_token_ids, stopped = (
            super()._update_request_with_output(request, new_token_ids, is_stale)
            if is_stale
            else super()._update_request_with_output(request, new_token_ids)
        )
        if was_running:
            num_known = request.num_computed_tokens - request.num_output_placeholders
            self.kv_cache_manager.cache_blocks(request, num_known)
        return new_token_ids, stopped

    def _discard_outputs_in_flight(self, request: Request) -> None:
        """Outputs in flight were computed from what was reset: they will be sampled anew."""
        if self._awaits_output:
            return  # they are stale, which is counted elsewhere
        # vLLM forgets what an earlier reset left to drop, and then takes it for outputs owed; and
        # it takes drafts for outputs, and then drops good ones (upstream issue 46066).
        request.discard_outputs_in_flight(
            adds_up=self.semantics.discards_add_up,
            counts_outputs=self.semantics.discards_count_outputs,
        )
