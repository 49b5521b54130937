"""First half of a step: requests that run already, and whom they push out."""

from nullblock.reference.kv_cache_manager import KVCacheBlocks
from nullblock.reference.request import Request
from nullblock.reference.sched.drafts import Drafts
from nullblock.reference.sched.encoder import EncoderInputs
from nullblock.reference.sched.mamba_split import MambaSplit
from nullblock.reference.sched.reclaim import Reclaim
from nullblock.reference.sched.request_queue import SchedulingPolicy
from nullblock.reference.sched.state import Step


class RunningPhase(Reclaim, Drafts, EncoderInputs, MambaSplit):
    """Schedules ``running`` in its order, preempting when blocks run out."""

    def _schedule_running(self, step: Step) -> None:
        """Give each running request its tokens, until the budget or the blocks run out.

        A request that has nothing to compute is passed over, not a reason to stop. One that had
        to preempt itself ends the phase: those behind it get nothing in this step.
        """
        has_drafts, lookahead = self._has_drafts, self.num_lookahead_tokens
        while step.req_index < len(self.running) and step.left > 0:
            request = self.running[step.req_index]
            num_new_tokens = self._num_running_tokens(request, step.left)
            if num_new_tokens == 0 and self._is_passed_over(request):
                step.req_index += 1
                continue
            if self._cuts_first:
                num_new_tokens = self._mamba_block_aligned_split(request, num_new_tokens)
            if request.mm_features:
                num_new_tokens = self._plan_encoder_inputs(
                    request, request.num_computed_tokens, num_new_tokens, step
                )
            if self._cuts_last:
                num_new_tokens = self._mamba_block_aligned_split(request, num_new_tokens)
            if num_new_tokens == 0:
                step.req_index += 1
                continue
            new_blocks = self.kv_cache_manager.allocate_slots(
                request, num_new_tokens, 0, None, lookahead
            )
            if new_blocks is None:
                new_blocks = self._preempt_for(request, num_new_tokens, step)
                if new_blocks is None:
                    break
            request_id = request.request_id
            step.running[request_id] = request
            step.new_blocks[request_id] = new_blocks
            step.num_scheduled_tokens[request_id] = num_new_tokens
            step.take(num_new_tokens)
            step.has_prefill |= request.is_prefill_chunk
            step.req_index += 1
            if request.mm_features:
                self._take_encoder_inputs(request, step)
            if has_drafts and request.spec_token_ids:
                self._schedule_drafts(request, num_new_tokens, step)

    def _num_running_tokens(self, request: Request, token_budget: int) -> int:
        """How many tokens a running request gets: what it lacks, clamped three times.

        Scheduling asynchronously, it lacks the outputs in flight too: workers know them when their
        turn comes. One that they will end anyway is passed over, to save a step for nothing.

        The last clamp keeps positions below ``max_model_len - 1``. For a prompt that is longer
        than the model allows it is negative, and vLLM schedules that; only 0 means "nothing".
        """
        if self._num_steps < request.next_sampling_step:
            return 0  # its last token is on its way through a pipeline
        num_new_tokens = len(request._all_token_ids) - request.num_computed_tokens
        if request.spec_token_ids:
            num_new_tokens += len(request.spec_token_ids)
        num_in_flight = request.num_output_placeholders
        if self.async_scheduling and num_in_flight:
            # Below 0 they are after a reset with drafts in flight: see _reject_drafts.
            if num_in_flight > 0 and self._is_served_by_steps_in_flight(request):
                return 0
            if not request.num_earlier_outputs:
                num_new_tokens += num_in_flight
        if num_new_tokens < 0 and self.semantics.never_scheduled_back:
            num_new_tokens = 0
        threshold = self._long_prefill_token_threshold
        if 0 < threshold < num_new_tokens:
            num_new_tokens = threshold
        longest = self.max_model_len - self.num_sampled_tokens_per_step
        num_new_tokens = min(num_new_tokens, token_budget, longest - request.num_computed_tokens)
        if num_new_tokens < 0 and self.semantics.grants_not_negative:
            return 0
        return num_new_tokens

    def _is_passed_over(self, request: Request) -> bool:
        """Whether a request gets nothing for what is in flight, so that nobody looks further."""
        if self._num_steps < request.next_sampling_step:
            return True
        is_owed = self.async_scheduling and request.num_output_placeholders > 0
        return is_owed and self._is_served_by_steps_in_flight(request)

    def _is_served_by_steps_in_flight(self, request: Request) -> bool:
        """Whether the outputs in flight take a request to its ``max_tokens``."""
        limit = request.num_prompt_tokens + request.max_tokens
        if self.semantics.stop_check_counts_frames:
            # Of the tokens in flight, drafts may be rejected.
            num_outputs = request.num_output_placeholders - request.num_draft_placeholders
            return num_outputs > 0 and len(request._all_token_ids) + num_outputs >= limit
        # vLLM counts one of them for certain, as if the others were drafts that may be rejected:
        # with more than two steps in flight it schedules steps whose output nobody takes.
        return request.num_computed_tokens + 2 - request.num_output_placeholders >= limit

    def _preempt_for(
        self, request: Request, num_new_tokens: int, step: Step
    ) -> KVCacheBlocks | None:
        """Preempt until the request's slots fit; None once the request itself was preempted, or
        where the victim's blocks would not be free at once.
        """
        while True:
            while len(self.running) == 1 and self._reclaim():
                new_blocks = self.kv_cache_manager.allocate_slots(
                    request, num_new_tokens, num_lookahead_tokens=self.num_lookahead_tokens
                )
                if new_blocks is not None:
                    return new_blocks
            if self.defer_block_free and self.deferred_frees.must_wait(self._victim()[1]):
                return None
            victim = self._pop_victim(step)
            if self.requires_kv_delivery:
                self._preempt_and_drop(victim, step.timestamp)
            else:
                self._preempt_request(victim, step.timestamp)
            if step.encoder_inputs:
                self._withdraw_encoder_inputs(victim, step)
            step.preempted.append(victim)
            if victim is request:
                return None
            new_blocks = self.kv_cache_manager.allocate_slots(
                request, num_new_tokens, num_lookahead_tokens=self.num_lookahead_tokens
            )
            if new_blocks is not None:
                return new_blocks

    def _comes_late(self, item: tuple[int, Request]) -> tuple[int, float, str]:
        """How PRIORITY compares a running request, and its index, with others: the largest goes.

        The id does not count in vLLM, where the first of equals goes, which waits before the
        others: two of them preempt each other for ever.
        """
        request = item[1]
        by_id = request.request_id if self.semantics.victim_by_id else ""
        return request.priority, request.arrival_time, by_id

    def _victim(self) -> tuple[int, Request]:
        """Who is preempted next, and where it stands in ``running``."""
        if self.policy == SchedulingPolicy.FCFS:
            return len(self.running) - 1, self.running[-1]
        return max(enumerate(self.running), key=self._comes_late)

    def _pop_victim(self, step: Step) -> Request:
        """Take the next victim off ``running``, and out of the step if it was in.

        FCFS: the last. PRIORITY: the one with the largest (priority, arrival time), and of equals
        the largest id. Only PRIORITY can choose one whose turn has passed.
        """
        if self.policy == SchedulingPolicy.FCFS:
            return self.running.pop()
        index, victim = self._victim()
        del self.running[index]
        was_scheduled = step.withdraw(victim)
        if was_scheduled:
            self.kv_cache_manager.withdraw(victim)
        # The list got shorter before the index. vLLM notices only if the victim was scheduled,
        # and otherwise skips a request (upstream issue 49097).
        if was_scheduled or (self.semantics.victim_shifts_index and index < step.req_index):
            step.req_index -= 1
        return victim
