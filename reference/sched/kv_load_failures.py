"""Blocks that a connector did not load: whose they are, and what becomes of those requests.

Workers name blocks, not requests. A request that has one of them among its computed blocks has
computed no more than what lies before it. Under the policy ``recompute`` it computes the rest
itself; under ``fail`` it ends.
"""

import time
from collections.abc import Iterable

from nullblock.reference.engine import EngineCoreOutput
from nullblock.reference.outputs import KVConnectorOutput, ModelRunnerOutput
from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sched.finishing import Finishing
from nullblock.reference.sched.output import SchedulerOutput
from nullblock.reference.sched.request_queue import SchedulingPolicy
from nullblock.reference.utils import cdiv


class KVLoadFailures(Finishing):
    """Takes back what was counted as computed and is not there."""

    def _take_back_unloaded(
        self, output: ModelRunnerOutput, scheduler_output: SchedulerOutput
    ) -> set[str]:
        """The requests whose output in a step is worth nothing, by what workers report with it."""
        report = output.kv_connector_output
        if report is None or not report.invalid_block_ids:
            return set()
        if self.semantics.failed_loads_start_over:
            unloaded = self._forget_unloaded(report.invalid_block_ids)
        elif self.semantics.resumes_await_output and self.kv_cache_manager.num_kv_cache_groups > 1:
            raise RuntimeError(
                "which of several groups has blocks that were not loaded is not told"
            )
        else:
            unloaded = self._handle_invalid_blocks(
                report.invalid_block_ids, scheduler_output.num_scheduled_tokens
            )
        # vLLM leaves it counted (upstream issue 45138).
        if self.semantics.outputs_owed_once:
            for request_id in unloaded & scheduler_output.num_scheduled_tokens.keys():
                self._forget_output(request_id, output, scheduler_output)
        return unloaded

    def _forget_unloaded(self, invalid_block_ids: set[int]) -> set[str]:
        """Nobody counts on blocks that were not loaded, and nobody hits them, or what was computed
        from them; those whose output in this step is worth nothing.

        Not so in vLLM, see `_handle_invalid_blocks`. Who runs starts over.
        """
        pool = range(self.kv_cache_manager.block_pool.num_gpu_blocks)
        self.kv_cache_manager.evict_blocks(b for b in invalid_block_ids if b in pool)
        waits, runs = set[str](), set[str]()
        for request in self._not_running():
            num_left = self._num_before(request, invalid_block_ids)
            if num_left is None:
                continue
            if not request.is_finished():
                self._lose_load(request, num_left)
                waits.add(request.request_id)
            self._withdraw_unloaded(request, num_left)
        for request in reversed(self.running.copy()):
            num_left = self._num_before(request, invalid_block_ids)
            if num_left is None:
                continue
            if self.recompute_kv_load_failures:
                self._start_over(request, num_left)
            else:
                self._withdraw_unloaded(request, num_left)
                runs.add(request.request_id)
        return set() if self.recompute_kv_load_failures else waits | runs

    def _not_running(self) -> list[Request]:
        """Those who may hold blocks and do not run: ended ones first, then by their turn."""
        ended = [request for request in self.requests.values() if request.is_finished()]
        if self.policy == SchedulingPolicy.PRIORITY:
            return sorted([*ended, *self.skipped_waiting])
        return [*ended, *self.skipped_waiting]

    def _num_before(self, request: Request, invalid_block_ids: set[int]) -> int | None:
        """Computed tokens of a request before the first block that it lacks, in any of its tables;
        None: it has all.
        """
        num_before: list[int] = []
        for block_size, block_ids in self.kv_cache_manager.get_tables(request.request_id):
            num_blocks = cdiv(request.num_computed_tokens, block_size)
            lacking = (
                index * block_size
                for index, block_id in enumerate(block_ids[:num_blocks])
                if block_id in invalid_block_ids
            )
            num_before += list(lacking)[:1]
        return min(num_before, default=None)

    def _lose_load(self, request: Request, num_left: int) -> None:
        """A request that waits keeps what was loaded before that; but nothing if it lacks a block
        that is not its own, or what its window then shows, or had gone on already, or has several
        tables.
        """
        request_id = request.request_id
        self.failed_recving_kv_req_ids.add(request_id)
        is_loading = request.status == RequestStatus.WAITING_FOR_REMOTE_KVS
        if not (is_loading and self.kv_cache_manager.may_keep(request, num_left)):
            self.lost_recving_kv_req_ids.add(request_id)
        if not is_loading:
            request.status = RequestStatus.WAITING_FOR_REMOTE_KVS
            self.finished_recving_kv_req_ids.add(request_id)

    def _withdraw_unloaded(self, request: Request, num_left: int) -> None:
        """What a request computed from blocks that it lacks leaves the prefix cache."""
        request.num_computed_tokens = num_left
        self.kv_cache_manager.uncache(request)

    def _start_over(self, request: Request, num_left: int) -> None:
        """A running request gives all back, and its outputs in flight are dropped."""
        self.running.remove(request)
        self._withdraw_unloaded(request, num_left)
        if request.pooling_params is not None and request.num_output_placeholders:
            # One that was in flight at a reset is as good as ever, and is taken when it comes.
            request.void_runs.add(request.owed_run)
            request.num_output_placeholders = 0
        request.discard_outputs_in_flight()
        self.prev_step_scheduled_req_ids.discard(request.request_id)
        self._preempt_and_drop(request, time.monotonic())

    def _forget_output(
        self, request_id: str, output: ModelRunnerOutput, scheduler_output: SchedulerOutput
    ) -> None:
        """What is dropped is owed no longer, nor are its drafts (UPD-17)."""
        request = self.requests[request_id]
        if scheduler_output.scheduled_requests.get(request_id, request) is not request:
            return  # it has the id of one that has gone
        if request.async_tokens_to_discard:
            return  # what comes is owed no more since a reset
        owed = scheduler_output.owed_req_ids
        if owed is None:  # whoever is owed a token has one
            was_owed = bool(output.sampled_token_ids[output.req_id_to_index[request_id]])
        else:
            was_owed = request_id in owed
        if was_owed:
            drafts = scheduler_output.scheduled_spec_decode_tokens.get(request_id, ())
            request.num_output_placeholders -= 1 + len(drafts)
            request.num_draft_placeholders -= len(drafts)

    def _handle_invalid_blocks(
        self, invalid_block_ids: set[int], num_scheduled_tokens: dict[str, int]
    ) -> set[str]:
        """Take the invalid blocks back; the requests whose output in this step is worth nothing.

        Requests that wait for a load are not cached yet, so nothing of theirs is evicted; they go
        on when the load is reported as ended. Those that run may have cached what was not loaded:
        ``recompute`` leaves it in the cache, since the blocks are about to be computed. vLLM does
        not mind that whoever was to do so may end or be preempted first, and that others then hit
        what nobody has computed.
        """
        # Not in vLLM's scan: a request that was preempted, or that ended and keeps its blocks.
        loading = [
            request
            for request in self.skipped_waiting
            if request.status == RequestStatus.WAITING_FOR_REMOTE_KVS
        ]
        waits, _, _ = self._update_requests_with_invalid_blocks(
            loading, invalid_block_ids, num_scheduled_tokens, evict_blocks=False
        )
        runs, _, blocks_to_evict = self._update_requests_with_invalid_blocks(
            self.running, invalid_block_ids, num_scheduled_tokens, evict_blocks=True
        )
        if self.recompute_kv_load_failures:
            self.failed_recving_kv_req_ids |= waits
            return runs
        if blocks_to_evict:
            self.kv_cache_manager.evict_blocks(blocks_to_evict)
        return waits | runs

    def _update_requests_with_invalid_blocks(
        self,
        requests: Iterable[Request],
        invalid_block_ids: set[int],
        num_scheduled_tokens: dict[str, int],
        evict_blocks: bool = True,
    ) -> tuple[set[str], int, set[int]]:
        """Cut each request's computed tokens at its first invalid block.

        Of requests that share an invalid block only the first computes it again. One that shares
        all of its invalid blocks keeps what it had before this step.

        Args:
            evict_blocks: ask for the invalid blocks, and those that follow them in a table.

        Returns:
            The ids of the requests that have invalid blocks, the tokens that they compute again,
            and the blocks asked for.
        """
        affected = set[str]()
        num_affected_tokens = 0
        blocks_to_evict, marked = set[int](), set[int]()
        for request in requests:
            request_id = request.request_id
            (block_ids,) = self.kv_cache_manager.get_block_ids(request_id)
            # This step's tokens were computed here. vLLM forgets the other steps in flight.
            num_before = request.num_computed_tokens - num_scheduled_tokens.get(request_id, 0)
            num_blocks_before = cdiv(num_before, self.block_size)
            # (With nothing computed before, or less than nothing, there is no block to look at.)
            invalid = [
                index
                for index, block_id in enumerate(block_ids[: max(num_blocks_before, 0)])
                if block_id in invalid_block_ids
            ]
            if not invalid:
                continue
            affected.add(request_id)
            first = next((i for i in invalid if block_ids[i] not in marked), None)
            if first is None:
                num_affected_tokens += request.num_computed_tokens - num_before
                request.num_computed_tokens = num_before
                continue
            marked.update(block_ids[index] for index in invalid)
            request.num_computed_tokens = first * self.block_size
            num_affected_tokens += num_before - request.num_computed_tokens
            if evict_blocks:
                blocks_to_evict.update(block_ids[first:])
        return affected, num_affected_tokens, blocks_to_evict

    def _finish_transfers(
        self,
        report: KVConnectorOutput,
        unloaded: set[str],
        outputs: dict[int, list[EngineCoreOutput]],
    ) -> None:
        """What a report changes once the step's outputs are taken."""
        if unloaded and not self.recompute_kv_load_failures:
            self._fail_unloaded(unloaded, outputs)
        self._update_from_kv_xfer_finished(report)

    def _fail_unloaded(
        self, request_ids: set[str], outputs: dict[int, list[EngineCoreOutput]]
    ) -> None:
        """End those requests, and tell their clients.

        Several end in the iteration order of a set of strings, as in vLLM.
        """
        failed = [self.requests[request_id] for request_id in request_ids]
        self.finish_requests(request_ids, RequestStatus.FINISHED_ERROR)
        for request in failed:
            output = EngineCoreOutput(
                request.request_id,
                [],
                finish_reason=request.get_finished_reason(),
                events=request.take_events(),
                trace_headers=request.trace_headers,
            )
            outputs[request.client_index].append(output)
