"""The second queue: requests that wait for something else than their turn, or were passed over.

A request enters ``skipped_waiting`` because its grammar is not compiled, its session has no next
chunk, its remote KV is not there, its connector does not know yet, or its adapter had no place in
a step. The waiting phase goes through it as through ``waiting``, and first of all.
"""

from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sched import later
from nullblock.reference.sched.lora_cap import LoRACap
from nullblock.reference.sched.reclaim import Reclaim
from nullblock.reference.sched.request_queue import (
    RequestQueue,
    SchedulingPolicy,
    create_request_queue,
)
from nullblock.reference.sched.state import Step

BLOCKED = frozenset(
    (
        RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR,
        RequestStatus.WAITING_FOR_REMOTE_KVS,
        RequestStatus.WAITING_FOR_STREAMING_REQ,
    )
)
"""Statuses of requests that wait for something else than room."""


class SkippedQueue(LoRACap, Reclaim):
    """Decides from which queue the next request is tried, and whether it has to wait."""

    @property
    def _aside(self) -> RequestQueue:
        """Where those stand who wait for something else than their turn."""
        return self.skipped_waiting if self.semantics.skipped_wait_apart else self.waiting

    @staticmethod
    def _is_blocked_waiting_status(status: RequestStatus) -> bool:
        """Whether a request with that status cannot run, whatever is free."""
        return status in BLOCKED

    def _enqueue_waiting_request(self, request: Request) -> None:
        """Queue a request where its status belongs."""
        queue = self.waiting
        if self._is_blocked_waiting_status(request.status):
            queue = self._aside
        if self.semantics.holders_wait_apart and request.num_computed_tokens > 0:
            queue = self.skipped_waiting
        queue.add_request(request)

    def _select_waiting_queue_for_scheduling(self) -> RequestQueue:
        """The queue whose head is tried next; one of them has requests.

        FCFS empties ``skipped_waiting`` first, so that whoever was skipped overtakes whoever was
        preempted. PRIORITY takes the more urgent of the two heads.
        """
        waiting, skipped = self.waiting, self.skipped_waiting
        if not skipped:
            return waiting
        if self.policy == SchedulingPolicy.FCFS or not waiting:
            return skipped
        if self.semantics.holders_wait_apart:
            return skipped
        return waiting if waiting.peek_request() < skipped.peek_request() else skipped

    def _has_to_wait(self, request: Request, step: Step) -> bool:
        """Whether a request cannot enter this step, although it may be its turn."""
        if self._is_blocked_waiting_status(request.status):
            if not self._try_promote_blocked_waiting_request(request):
                return True
        if self._awaits_output and later.is_owed_output(request):
            return True
        return self.lora_config is not None and self._exceeds_max_loras(request, step)

    def _try_promote_blocked_waiting_request(self, request: Request) -> bool:
        """Let a blocked request go on if what it waits for is there; whether it is."""
        match request.status:
            case RequestStatus.WAITING_FOR_REMOTE_KVS:
                return self._promote_loaded(request)
            case RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR:
                structured = request.structured_output_request
                if structured is None or structured.grammar is None:
                    return False
                request.status = RequestStatus.WAITING
                return True
            case RequestStatus.WAITING_FOR_STREAMING_REQ:
                assert not request.streaming_queue, "a chunk is queued and nobody took it"
                return False
        raise AssertionError(f"request {request.request_id!r} waits with {request.status}")

    def _skip(self, queue: RequestQueue, step: Step) -> None:
        """Pass over the head of a queue, for this step."""
        request = queue.pop_request()
        if self.semantics.holders_wait_apart and _holds_blocks(request):
            step.skipped_holders.append(request)
            return
        if step.skipped is None:
            step.skipped = create_request_queue(self.policy)
        step.skipped.prepend_request(request)

    def _requeue_skipped(self, step: Step) -> None:
        """Put those that were passed over before the ones that nobody came to, in their order.

        A request was prepended to the step's queue when it was passed over, and is prepended once
        more now: two reversals. Under PRIORITY each is a push on a heap.
        """
        if step.skipped is not None:
            self._aside.prepend_requests(step.skipped)
            step.skipped = None
        for request in reversed(step.skipped_holders):
            self.skipped_waiting.prepend_request(request)
        step.skipped_holders.clear()


def _holds_blocks(request: Request) -> bool:
    """Whether a request that waits has blocks; one whose load failed keeps them until its turn."""
    is_loading = request.status == RequestStatus.WAITING_FOR_REMOTE_KVS
    return is_loading or request.num_computed_tokens > 0
