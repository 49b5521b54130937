"""Second half of a step: who is admitted."""

from nullblock.reference.engine import EngineCoreEventType
from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sched import later
from nullblock.reference.sched.encoder import EncoderInputs
from nullblock.reference.sched.interface import PauseState
from nullblock.reference.sched.kv_connector import Prefix
from nullblock.reference.sched.mamba_split import MambaSplit
from nullblock.reference.sched.skipped_queue import SkippedQueue
from nullblock.reference.sched.state import Step


class WaitingPhase(SkippedQueue, EncoderInputs, MambaSplit):
    """Admits from the head of a queue; the first that does not fit blocks all behind it.

    Who waits for something else than room is passed over, and tried first in the next step.
    """

    def _schedule_waiting(self, step: Step) -> None:
        """Admit requests, unless something was preempted in this step or admission is paused."""
        if self.lora_config is not None:
            self._note_running_loras(step)
        if step.preempted or self._pause_state == PauseState.PAUSED_ALL:
            return
        apart = self.semantics.holders_wait_apart
        if self._pause_state == PauseState.PAUSED_NEW and not apart:
            return
        head = self._admit_waiting(step)
        while head is not None and not self.running and self._reclaim(head):
            head = self._admit_waiting(step)

    def _admit_waiting(self, step: Step) -> Request | None:
        """Admit from the head; who was tried and may not enter."""
        blocking: Request | None = None
        admits_new = self._pause_state == PauseState.UNPAUSED
        while (self.skipped_waiting or (admits_new and self.waiting)) and step.left > 0:
            if self._num_seats_taken() >= self.max_num_running_reqs:
                break
            queue = self._select_waiting_queue_for_scheduling()
            blocking = request = queue.peek_request()
            prefix = None if self._has_to_wait(request, step) else self._computed_prefix(request)
            if prefix is None:
                self._skip(queue, step)
                blocking = None
                continue
            num_computed_tokens = prefix.num_computed_tokens
            num_new_tokens = self._num_tokens_to_admit(request, prefix, step)
            if num_new_tokens is None:
                break
            num_encoder_tokens = 0
            if self._cuts_first and not prefix.load_async:
                num_new_tokens = self._cut_admission(request, prefix, num_new_tokens)
                if num_new_tokens == 0:
                    break
            if request.mm_features and not prefix.load_async:
                num_new_tokens = self._plan_encoder_inputs(
                    request, num_computed_tokens, num_new_tokens, step
                )
                if num_new_tokens == 0:
                    break
                num_encoder_tokens = self._num_encoder_tokens(request, step)
            if self._cuts_last:
                num_new_tokens = self._mamba_block_aligned_split(
                    request, num_new_tokens, prefix.num_local, prefix.num_external
                )
                if num_new_tokens == 0:
                    break
            new_blocks = self.kv_cache_manager.allocate_slots(
                request,
                num_new_tokens,
                num_new_computed_tokens=prefix.num_local,
                new_computed_blocks=prefix.hits,
                num_external_computed_tokens=prefix.num_external,
                delay_cache_blocks=prefix.load_async,
                num_encoder_tokens=num_encoder_tokens,
                num_lookahead_tokens=self._num_slots_ahead(request, prefix),
                full_sequence_must_fit=self.scheduler_reserve_full_isl,
                has_scheduled_reqs=bool(self.running),
                reserved_blocks=later.num_set_aside(self) if prefix.load_async else 0,
            )
            if new_blocks is None:
                if request.mm_features:
                    self.encoder_cache_manager.free(request)
                break
            if self.connector is not None:
                self._tell_allocated(request, prefix)
            if prefix.load_async:
                self._await_load(request, prefix)
                self._skip(queue, step)
                blocking = None
                continue
            queue.pop_request()
            self._admit(request, num_new_tokens, prefix, step)
            blocking = None
        self._requeue_skipped(step)
        return blocking

    def _num_seats_taken(self) -> int:
        """How many run, or keep their places all the same."""
        if self.semantics.pausing_sessions_keep_seats:
            return len(self.running) + self.num_waiting_for_streaming_input
        return len(self.running)

    def _computed_prefix(self, request: Request) -> Prefix | None:
        """What a waiting request need not compute; None if its connector does not know yet.

        Looked up anew at every attempt; but whoever was loaded, or continues a session, keeps what
        it has computed, and is not looked up.
        """
        manager = self.kv_cache_manager
        if request.num_computed_tokens:
            return Prefix(manager.empty_kv_cache_blocks, 0, request.num_computed_tokens)
        hits, num_hits = manager.get_computed_blocks(request)
        prefix = Prefix(hits, num_hits, num_hits)
        if self.connector is not None and not self._match_remote(request, prefix):
            return None
        if request.prefill_stats is not None:
            request.prefill_stats.set(request.num_prompt_tokens, num_hits, prefix.num_external)
        return prefix

    def _num_slots_ahead(self, request: Request, prefix: Prefix) -> int:
        """Slots for drafts, of a request that is admitted.

        In 0.22.1 none if it has nothing computed: not even the first time, or after a preemption,
        since its hits are not counted in here. In lines that have them at an admission none for a
        load that takes more than this step.
        """
        looks_ahead = request.num_computed_tokens or self.semantics.admissions_look_ahead
        if prefix.load_async:
            return 0
        return self.num_lookahead_tokens if looks_ahead else 0

    def _num_tokens_to_admit(self, request: Request, prefix: Prefix, step: Step) -> int | None:
        """How many tokens a waiting request would get, none while it loads; None if it must wait
        for more budget.
        """
        if prefix.load_async:
            return 0
        num_computed_tokens = prefix.num_computed_tokens
        if self.semantics.admissions_padded:
            prefix.num_padding = later.num_padding(self, request, num_computed_tokens, step)
        return self._num_waiting_tokens(
            request, num_computed_tokens, step.left, prefix.num_padding
        )

    def _cut_admission(self, request: Request, prefix: Prefix, num_new_tokens: int) -> int:
        """The tokens of an admission, cut to whole blocks; none of them are placeholders for
        drafts then.
        """
        num_cut = self._mamba_block_aligned_split(
            request, num_new_tokens, prefix.num_local, prefix.num_external
        )
        if prefix.num_padding and num_cut not in (0, 1 + prefix.num_padding):
            prefix.num_padding = 0
            return 1
        return num_cut

    def _num_waiting_tokens(
        self, request: Request, num_computed_tokens: int, token_budget: int, num_padding: int = 0
    ) -> int | None:
        """How many tokens a waiting request would get; None if it must wait for more budget.

        With placeholders for drafts there have to be all of them.

        Outputs count as well as the prompt: a resumed request computes them again. The threshold
        comes before the question whether chunks are allowed, so it chunks even where they are not.
        """
        num_new_tokens = request.num_tokens - num_computed_tokens + num_padding
        if num_padding and num_new_tokens > token_budget:
            return None
        threshold = self._long_prefill_token_threshold
        if 0 < threshold < num_new_tokens:
            num_new_tokens = threshold
        if num_new_tokens > token_budget:
            if not self.scheduler_config.enable_chunked_prefill:
                return None
            num_new_tokens = token_budget
        assert num_new_tokens > 0, f"request {request.request_id!r} has no tokens to compute"
        return num_new_tokens

    def _admit(self, request: Request, num_new_tokens: int, prefix: Prefix, step: Step) -> None:
        """Let a request run whose slots are allocated."""
        match request.status:
            case RequestStatus.WAITING:
                step.new.append(request)
            case RequestStatus.PREEMPTED:
                step.resumed.append(request)
            case status:
                raise RuntimeError(f"request {request.request_id!r} waits with status {status}")
        if self.log_stats:
            request.record_event(EngineCoreEventType.SCHEDULED, step.timestamp)
        self.running.append(request)
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = prefix.num_computed_tokens
        if self._filling is not None:
            if prefix.num_computed_tokens + num_new_tokens < request.num_tokens:
                self._filling.add(request)
        request_id = request.request_id
        step.new_blocks[request_id] = self.kv_cache_manager.get_blocks(request_id)
        step.num_scheduled_tokens[request_id] = num_new_tokens
        step.take(num_new_tokens)
        if prefix.num_padding:
            assert num_new_tokens == 1 + prefix.num_padding, "placeholders for drafts were cut"
            step.spec_tokens[request_id] = [later.PADDING] * prefix.num_padding
        if self.lora_config is not None:
            self._take_lora_place(request, step)
        if request.mm_features:
            self._take_encoder_inputs(request, step)
