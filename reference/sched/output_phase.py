"""The end of a step: what workers are told, and what is counted as computed from now on."""

from nullblock.reference.kv_cache_manager import KVCacheBlocks
from nullblock.reference.request import Request
from nullblock.reference.sched import later
from nullblock.reference.sched.drafts import Drafts
from nullblock.reference.sched.output import CachedRequestData, NewRequestData, SchedulerOutput
from nullblock.reference.sched.state import Step
from nullblock.reference.sched.structured_output import StructuredOutput


class OutputPhase(StructuredOutput, Drafts):
    """Turns the decisions of a step into a :class:`SchedulerOutput`."""

    def _make_scheduler_output(self, step: Step) -> SchedulerOutput:
        """The output of a step whose decisions are made."""
        total = sum(step.num_scheduled_tokens.values())
        assert total <= self.max_num_scheduled_tokens
        assert step.token_budget >= 0
        assert len(self.running) <= self.max_num_running_reqs
        assert len(step.num_scheduled_tokens) <= len(self.running)

        new, resumed = step.new, step.resumed
        if self.use_v2_model_runner:
            # That runner forgets preempted requests, so resumed ones are news to it.
            new, resumed = new + resumed, []
        new_data = [self._new_request_data(request, step) for request in new]
        cached_data = self._make_cached_request_data(
            list(step.running.values()),
            resumed,
            step.num_scheduled_tokens,
            step.spec_tokens,
            step.new_blocks,
        )
        self.prev_step_scheduled_req_ids.clear()
        self.prev_step_scheduled_req_ids.update(step.num_scheduled_tokens)
        return SchedulerOutput(
            scheduled_new_reqs=new_data,
            scheduled_cached_reqs=cached_data,
            num_scheduled_tokens=step.num_scheduled_tokens,
            total_num_scheduled_tokens=total,
            scheduled_spec_decode_tokens=step.spec_tokens,
            scheduled_encoder_inputs=step.encoder_inputs,
            num_common_prefix_blocks=self._num_common_prefix_blocks(),
            finished_req_ids=self.finished_req_ids,
            free_encoder_mm_hashes=self.encoder_cache_manager.get_freed_mm_hashes(),
            preempted_req_ids=self._preempted_req_ids(step),
            new_block_ids_to_zero=(
                self.kv_cache_manager.take_new_block_ids() or None
                if self.needs_kv_cache_zeroing
                else None
            ),
        )

    def _preempted_req_ids(self, step: Step) -> set[str]:
        """Whom this step preempted; in lines that tell, also whom a reset preempted before it."""
        preempted = {request.request_id for request in step.preempted}
        if self._preempted_by_reset:
            if self.semantics.resets_report_preempted:
                preempted |= self._preempted_by_reset
            self._preempted_by_reset.clear()
        return preempted

    def _num_common_prefix_blocks(self) -> list[int]:
        """Leading blocks that all owners of blocks share: what cascade attention may exploit."""
        if not self.semantics.tells_common_prefix:
            return []
        if not self.running:
            return [0] * self.kv_cache_manager.num_kv_cache_groups
        return self.kv_cache_manager.get_num_common_prefix_blocks(self.running[0].request_id)

    def _new_request_data(self, request: Request, step: Step) -> NewRequestData:
        block_ids = step.new_blocks[request.request_id].get_block_ids()
        assert block_ids is not None
        return NewRequestData.from_request(
            request, block_ids, request._all_token_ids if self.use_v2_model_runner else None
        )

    def _make_cached_request_data(
        self,
        running_reqs: list[Request],
        resumed_reqs: list[Request],
        num_scheduled_tokens: dict[str, int],
        spec_decode_tokens: dict[str, list[int]],
        req_to_new_blocks: dict[str, KVCacheBlocks],
    ) -> CachedRequestData:
        """What changed for requests that workers know: those that ran, then those resumed."""
        requests = [*running_reqs, *resumed_reqs]
        req_ids = [request.request_id for request in requests]
        previous = self.prev_step_scheduled_req_ids
        keeps = self.use_v2_model_runner and self.semantics.second_runner_keeps_tokens
        none = self.kv_cache_manager.empty_kv_cache_blocks
        new_blocks = [req_to_new_blocks[req_id] for req_id in req_ids]
        return CachedRequestData(
            req_ids=req_ids,
            resumed_req_ids={request.request_id for request in resumed_reqs},
            new_token_ids=self._scheduled_token_ids(num_scheduled_tokens, requests),
            all_token_ids={
                request.request_id: request._all_token_ids.copy()
                for request in requests
                if request.request_id not in previous and not keeps
            },
            new_block_ids=[
                None if blocks is none else blocks.get_block_ids() for blocks in new_blocks
            ],
            num_computed_tokens=[request.num_computed_tokens for request in requests],
            num_output_tokens=self._num_output_tokens(requests),
        )

    def _num_output_tokens(self, requests: list[Request]) -> list[int]:
        """How many outputs workers count for each; asynchronously, those in flight too."""
        if not self.async_scheduling:
            return [len(request._output_token_ids) for request in requests]
        return [
            len(request._output_token_ids) + request.num_output_placeholders
            for request in requests
        ]

    def _scheduled_token_ids(
        self, num_scheduled_tokens: dict[str, int], requests: list[Request]
    ) -> list[list[int]]:
        """The tokens to compute, for pipeline stages that did not sample them; else nothing.

        Drafts, which are beyond a request's tokens, are not among them. Scheduling asynchronously,
        the stages hand sampled tokens to each other on the device.
        """
        if not self.use_pp or self.async_scheduling:
            return []
        starts = [request.num_computed_tokens for request in requests]
        counts = [num_scheduled_tokens[request.request_id] for request in requests]
        return [
            request._all_token_ids[start : start + count]
            for request, start, count in zip(requests, starts, counts, strict=True)
        ]

    def _update_after_schedule(self, scheduler_output: SchedulerOutput) -> None:
        """Count the scheduled tokens as computed already, so that the next step can be decided.

        A request that reaches its last token samples one more: a placeholder until it is known.
        """
        requests = self.requests
        counts_placeholders = self._counts_placeholders
        owed: set[str] | None = set() if self.semantics.silence_starts_over else None
        scheduler_output.owed_req_ids = owed
        for request_id, num_tokens in scheduler_output.num_scheduled_tokens.items():
            request = requests[request_id]
            request.num_computed_tokens += num_tokens
            num_to_come = len(request._all_token_ids) + request.num_output_placeholders
            request.is_prefill_chunk = is_chunk = request.num_computed_tokens < num_to_come
            if is_chunk:
                continue
            if owed is not None:
                owed.add(request_id)
            if self._filling is not None:
                self._filling.discard(request)
            if request.structured_output_request is not None:
                self._note_structured_output(request, scheduler_output)
            if counts_placeholders:
                request.num_output_placeholders += 1
            if self._stages > 1:
                request.next_sampling_step = self._num_steps + self._stages
            if request.pooling_params is not None:
                scheduler_output.runs[request_id] = request.owed_run = request.num_preemptions
        if self.defer_block_free:
            self.deferred_frees.scheduled(requests, scheduler_output.num_scheduled_tokens)
        if self._counts_flight:
            later.take_off(requests, scheduler_output.num_scheduled_tokens)
        if self._has_drafts:
            self._count_drafts(scheduler_output)
        if self.semantics.frames_match_request:
            scheduler_output.scheduled_requests = {
                request_id: requests[request_id]
                for request_id in scheduler_output.num_scheduled_tokens
            }
        # A new set: the old one belongs to the output.
        self.finished_req_ids = set()
