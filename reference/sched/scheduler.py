"""The scheduler: one step after another, and what may happen between steps."""

import time
from typing import Any

from nullblock.reference.engine import EngineCoreEventType
from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sched.admission import Admission
from nullblock.reference.sched.encoder import EncoderInputs
from nullblock.reference.sched.interface import PauseState, SchedulerInterface
from nullblock.reference.sched.output import SchedulerOutput
from nullblock.reference.sched.output_phase import OutputPhase
from nullblock.reference.sched.running_phase import RunningPhase
from nullblock.reference.sched.state import Step
from nullblock.reference.sched.update_phase import UpdatePhase
from nullblock.reference.sched.waiting_phase import WaitingPhase


class Scheduler(
    Admission,
    RunningPhase,
    WaitingPhase,
    OutputPhase,
    UpdatePhase,
    EncoderInputs,
    SchedulerInterface,
):
    """Continuous batching over a paged KV cache."""

    def schedule(self) -> SchedulerOutput:
        """Decide one step: running requests first, then admissions."""
        self._num_steps += 1
        paused = self._pause_state == PauseState.PAUSED_ALL
        if self.semantics.lone_prefill_uncut:
            # The threshold is there so that others get their share: alone there are none.
            is_alone = sum(self.get_request_counts()) <= 1
            threshold: int = self.scheduler_config.long_prefill_token_threshold
            self._long_prefill_token_threshold = 0 if is_alone else threshold
        step = Step(
            token_budget=0 if paused else self.max_num_scheduled_tokens,
            timestamp=time.monotonic(),
            encoder_budget=self.max_num_encoder_input_tokens,
            input_budget=self.scheduler_config.max_num_batched_tokens,
            draft_slots=self._draft_slots,
        )
        if self.has_mamba_layers:
            self.kv_cache_manager.new_step_starts()
        self._schedule_running(step)
        self._schedule_waiting(step)
        scheduler_output = self._make_scheduler_output(step)
        if self.connector is not None:
            metadata = self._build_kv_connector_meta(self.connector, scheduler_output)
            scheduler_output.kv_connector_metadata = metadata
        if self.ec_connector is not None:
            told = self.ec_connector.build_connector_meta(scheduler_output)
            scheduler_output.ec_connector_metadata = told
        self._update_after_schedule(scheduler_output)
        return scheduler_output

    def add_request(self, request: Request) -> None:
        """Queue a new request, or refuse it: the next update says so, and why.

        A chunk of a session that has not ended goes to the session.

        Raises:
            AssertionError: its id belongs to a request that has not ended and is no session.
        """
        known = self.requests.get(request.request_id)
        if known is not None:
            self._add_to_session(known, request)
            return
        if self.semantics.reject_unservable:
            reason = self._unservable_reason(request)
            if reason is not None:
                request.status = RequestStatus.FINISHED_REJECTED
                request.stop_reason = reason
                self._rejected.append(request)
                return
        if request.resumable:
            self._open_session(request)
        self._enqueue_waiting_request(request)
        self.requests[request.request_id] = request
        if self.connector is not None:
            self.connector.on_new_request(request)
        if self.log_stats:
            request.record_event(EngineCoreEventType.QUEUED)

    def reset_prefix_cache(
        self, reset_running_requests: bool = False, reset_connector: bool = False
    ) -> bool:
        """Empty the prefix cache; whether it was done.

        It cannot be while a request holds blocks, unless the running ones are preempted first.
        They resume as if they had never run: nothing counts as scheduled in the previous step.
        A resumed request brings all its tokens, so not every line tells workers of these
        preemptions.
        """
        if reset_running_requests:
            timestamp = time.monotonic()
            while self.running:
                # From the back, so that the queue keeps the order of admission.
                request = self.running.pop()
                self._preempt_and_drop(request, timestamp)
                self._discard_outputs_in_flight(request)
                self._preempted_by_reset.add(request.request_id)
            self.prev_step_scheduled_req_ids.clear()
        done = self.kv_cache_manager.reset_prefix_cache()
        if reset_running_requests and not done:
            # By requests that load, by sessions that wait, or for a connector.
            raise RuntimeError("blocks are still held after preempting every running request")
        if reset_connector:
            done = self.reset_connector_cache() and done
        return done

    def _discard_outputs_in_flight(self, request: Request) -> None:
        """Nothing to do: synchronously, an output in flight is taken, whatever was reset."""

    def shutdown(self) -> None:
        """No more KV cache events will come."""
        self.kv_event_publisher.shutdown()
        if self.connector is not None:
            self.connector.shutdown()

    @property
    def pause_state(self) -> PauseState:
        """How much is scheduled."""
        return self._pause_state

    def set_pause_state(self, pause_state: PauseState) -> None:
        """Change how much is scheduled, from the next step on."""
        self._pause_state = pause_state

    def get_request_counts(self) -> tuple[int, int]:
        """How many requests run, and how many wait."""
        return len(self.running), len(self.waiting) + len(self.skipped_waiting)

    def get_num_unfinished_requests(self) -> int:
        """How many requests there is work for.

        While admission is paused the preempted ones do not count, so an engine with nothing but
        them looks idle. Sessions that wait for a chunk give no work.
        """
        match self._pause_state:
            case PauseState.PAUSED_ALL:
                return 0
            case PauseState.PAUSED_NEW:
                if self.semantics.holders_wait_apart:
                    num_held = len(self.skipped_waiting) - self.num_waiting_for_streaming_input
                    return len(self.running) + num_held
                return len(self.running)
            case PauseState.UNPAUSED:
                num_waiting = len(self.waiting) + len(self.skipped_waiting)
                return len(self.running) + num_waiting - self.num_waiting_for_streaming_input

    def has_finished_requests(self) -> bool:
        """Whether workers, or a client, still have to be told of a request that ended.

        Or whether blocks of one are kept for a connector: without steps nobody hears that they may
        be freed.
        """
        if self.finished_req_ids or self._rejected:
            return True
        return self.connector is not None and self._has_blocks_to_free_later()

    def get_kv_connector(self) -> Any:
        """What knows remote KV; None if nothing does."""
        return self.connector
