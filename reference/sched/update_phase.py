"""After the model ran: new tokens, and which requests end with them."""

import time
from collections import defaultdict
from typing import Any

from nullblock.reference.engine import EngineCoreOutput, EngineCoreOutputs, FinishReason
from nullblock.reference.errors import refuse
from nullblock.reference.kv_events import KVEventBatch
from nullblock.reference.outputs import ModelRunnerOutput
from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sched import later
from nullblock.reference.sched.drafts import Drafts
from nullblock.reference.sched.encoder import EncoderInputs
from nullblock.reference.sched.kv_load_failures import KVLoadFailures
from nullblock.reference.sched.output import SchedulerOutput
from nullblock.reference.sched.streaming import Streaming
from nullblock.reference.sched.structured_output import StructuredOutput
from nullblock.reference.sched.utils import check_stop, remove_all
from nullblock.reference.spec_decode import SpecDecodingStats
from nullblock.reference.stats import SchedulerStats


class UpdatePhase(KVLoadFailures, Streaming, StructuredOutput, Drafts, EncoderInputs):
    """Takes in one step's sampled tokens, in the order in which the step was scheduled.

    Steps return in the order in which they were scheduled, however many are in flight.
    """

    def update_from_output(
        self, scheduler_output: SchedulerOutput, model_runner_output: ModelRunnerOutput
    ) -> dict[int, EngineCoreOutputs]:
        """Append the sampled tokens, end what stops, and report, by client; refusals first.

        A request that was preempted since it was scheduled still gets its token, and may end by
        it; one that was aborted does not. Lists of several tokens are cut at the stop in place.
        A pooling request gets no token, and ends with what the pooler made of it.
        """
        _refuse_out_of_scope(model_runner_output)
        if self.defer_block_free and scheduler_output.num_scheduled_tokens:
            self.deferred_frees.came_back()
        report = model_runner_output.kv_connector_output
        connector_stats = self._aggregate_connector_stats(report)
        unloaded = self._take_back_unloaded(model_runner_output, scheduler_output)
        if model_runner_output.num_nans_in_logits:
            self._note_nans(model_runner_output.num_nans_in_logits, scheduler_output, unloaded)
        outputs: defaultdict[int, list[EngineCoreOutput]] = defaultdict(list)
        self._report_rejected(outputs)
        stops = self._take_sampled(scheduler_output, model_runner_output, unloaded, outputs)
        if stops:
            self._let_go(stops)
        if report is not None:
            self._finish_transfers(report, unloaded, outputs)
        self._publish_kv_cache_events()
        return self._by_client(outputs, connector_stats, model_runner_output.cudagraph_stats)

    def _take_sampled(
        self,
        scheduler_output: SchedulerOutput,
        model_runner_output: ModelRunnerOutput,
        unloaded: set[str],
        outputs: dict[int, list[EngineCoreOutput]],
    ) -> list[tuple[Request, RequestStatus]]:
        """Take in what each request got, into ``outputs``; who stopped, in which status.

        Args:
            unloaded: whose output is worth nothing.
        """
        stops: list[tuple[Request, RequestStatus]] = []
        should_advance = getattr(self.structured_output_manager, "should_advance", None)
        counts_flight = self._counts_flight
        keeps_ended = self.connector is not None
        requests = self.requests
        by_request, runs = self.semantics.frames_match_request, scheduler_output.runs
        drafts = scheduler_output.scheduled_spec_decode_tokens
        sampled_token_ids = model_runner_output.sampled_token_ids
        pooler_output = model_runner_output.pooler_output
        req_id_to_index = model_runner_output.req_id_to_index
        for request_id, num_tokens in scheduler_output.num_scheduled_tokens.items():
            assert num_tokens > 0, f"{num_tokens} tokens were scheduled for {request_id!r}"
            request = requests.get(request_id)
            if request is None:
                continue
            if by_request and scheduler_output.scheduled_requests[request_id] is not request:
                continue
            is_stale = counts_flight and later.land(request, num_tokens)
            if (unloaded and request_id in unloaded) or (keeps_ended and request.is_finished()):
                continue
            if (is_stale and request.drop_stale_output) or (runs and request.is_void(runs)):
                continue
            index = req_id_to_index[request_id]
            token_ids = sampled_token_ids[index] if sampled_token_ids else []
            if token_ids and drafts and request_id in drafts:
                self._reject_drafts(
                    request, len(drafts[request_id]), len(token_ids), scheduler_output, is_stale
                )
            pooled = pooler_output[index] if pooler_output else None
            if not token_ids and pooled is None:
                self._go_without(request, scheduler_output)
                continue
            if request.mm_features:
                self._free_encoder_inputs(request)
            stood, stopped = request.status, False
            if token_ids:
                token_ids, stopped = (
                    self._update_request_with_output(request, token_ids, is_stale=is_stale)
                    if counts_flight
                    else self._update_request_with_output(request, token_ids)
                )
                if token_ids and should_advance is not None and should_advance(request):
                    stopped |= not self._advance_grammar(request, token_ids)
            elif request.pooling_params is not None:
                request.status = RequestStatus.FINISHED_STOPPED
                stopped = True
            reason = params = None
            if stopped:
                reason, params = self._stop(request, stood)
                stops.append((request, stood))
            if token_ids or pooled is not None:
                output = _engine_core_output(request, token_ids, pooled)
                output.finish_reason, output.kv_transfer_params = reason, params
                outputs[request.client_index].append(output)
        return stops

    def _update_request_with_output(
        self, request: Request, new_token_ids: list[int], is_stale: bool = False
    ) -> tuple[list[int], bool]:
        """Append tokens until one stops the request, or drop them if they are worth nothing by
        now; the tokens kept, and whether one did.

        ``is_stale``: the placeholders were given up when the request was preempted.
        """
        if request.async_tokens_to_discard > 0:
            request.async_tokens_to_discard -= 1
            return [], False
        stopped = False
        for num_kept, token_id in enumerate(new_token_ids, start=1):
            request.append_output_token_ids(token_id)
            if check_stop(request, self.max_model_len, semantics=self.semantics):
                if self.semantics.rejections_keep_to_their_run:
                    # vLLM counts drafts behind the stop as computed, which a session goes by.
                    self._take_back(request, len(new_token_ids) - num_kept)
                del new_token_ids[num_kept:]
                stopped = True
                break
        if self._counts_placeholders and not is_stale:
            request.num_output_placeholders -= len(new_token_ids)
            # Where an output may find a later request with the same id, it finds no placeholder.
            assert request.num_output_placeholders >= 0, f"{request.request_id} was owed nothing"
            if request.num_earlier_outputs:
                request.num_earlier_outputs -= 1
        return new_token_ids, stopped

    def _go_without(self, request: Request, scheduler_output: SchedulerOutput) -> None:
        """A step returned without a token for a request. If one was owed it starts over, and what
        else is in flight for it, computed behind a token that nobody knows, is dropped.

        Not so in vLLM, where all of it stays counted (upstream issue 42722).
        """
        if request.request_id in (scheduler_output.owed_req_ids or ()):
            drafts = scheduler_output.scheduled_spec_decode_tokens
            self._start_anew(request, len(drafts.get(request.request_id, ())))
        if request.mm_features:
            self._free_encoder_inputs(request)

    def _start_anew(self, request: Request, num_drafts: int) -> None:
        """A request gives its blocks back, if it runs, and takes nothing that is in flight."""
        if request.async_tokens_to_discard > 0:
            request.async_tokens_to_discard -= 1
            return
        if self._counts_placeholders:
            request.num_output_placeholders -= 1 + num_drafts
            request.num_draft_placeholders -= num_drafts
            request.discard_outputs_in_flight()
        if request.status == RequestStatus.RUNNING:
            self.running.remove(request)
            self.prev_step_scheduled_req_ids.discard(request.request_id)
            self._preempt_and_drop(request, time.monotonic())

    def _note_nans(
        self, num_nans: dict[str, int], scheduler_output: SchedulerOutput, unloaded: set[str]
    ) -> None:
        """Note how many logits were no numbers, to be told with a request's next output."""
        for request_id in num_nans.keys() & scheduler_output.num_scheduled_tokens:
            request = self.requests.get(request_id)
            if request_id not in unloaded and request is not None and not request.is_finished():
                request.num_nans_in_logits = num_nans[request_id]

    def _report_rejected(self, outputs: dict[int, list[EngineCoreOutput]]) -> None:
        """Tell the clients of requests that were refused on arrival."""
        for request in self._rejected:
            output = _engine_core_output(request, [])
            output.finish_reason = request.get_finished_reason()
            outputs[request.client_index].append(output)
        self._rejected.clear()

    def _let_go(self, stops: list[tuple[Request, RequestStatus]]) -> None:
        """Take requests that stopped out of where they were, by the status in which they did.

        One that was preempted may have been passed over since then. vLLM does not look among the
        skipped, so that it stays there, and raises when its turn comes.
        """
        stopped_running = {one for one, stood in stops if stood == RequestStatus.RUNNING}
        stopped_preempted = {one for one, stood in stops if stood != RequestStatus.RUNNING}
        self.running = remove_all(self.running, stopped_running)
        if self.semantics.sessions_stay_queued:
            # A session that goes on stands where it is to wait already.
            stopped_preempted = {one for one in stopped_preempted if one.is_finished()}
        if stopped_preempted:
            self.waiting.remove_requests(stopped_preempted)
            if self.semantics.stops_leave_every_queue:
                self.skipped_waiting.remove_requests(stopped_preempted)

    def _stop(
        self, request: Request, stood: RequestStatus
    ) -> tuple[FinishReason | None, dict[str, Any] | None]:
        """A request has come to its stop: it ends, or it is a session and goes on.

        Args:
            stood: the status in which it stopped. vLLM does not look at it: what a load writes to
                is free.

        Returns:
            Why it stopped, and what its client is to be told of a transfer.
        """
        # Asked first: once a session goes on, nothing tells that it had come to a stop.
        finish_reason = request.get_finished_reason()
        has_ended = self._handle_stopped_request(request)
        if not has_ended:
            return finish_reason, None
        loads = stood == RequestStatus.WAITING_FOR_REMOTE_KVS
        minded = loads and self.semantics.transfers_end_apart
        is_written_to = minded and self._forget_load(request)
        if is_written_to:
            return finish_reason, self._free_request(request, delay_free_blocks=True)
        return finish_reason, self._free_request(request)

    def _publish_kv_cache_events(self) -> None:
        """Publish, in one batch, what happened to the prefix cache since the last update."""
        events = self.kv_cache_manager.take_events()
        if self.connector is not None:
            events.extend(self.connector.take_events() or ())
        if events:
            self.kv_event_publisher.publish(KVEventBatch(time.time(), events))

    def _by_client(
        self,
        outputs: dict[int, list[EngineCoreOutput]],
        kv_connector_stats: Any,
        cudagraph_stats: object | None,
    ) -> dict[int, EngineCoreOutputs]:
        """Wrap each client's outputs, and add ended ids and statistics where they are wanted."""
        by_client = {
            client_index: EngineCoreOutputs(outputs=client_outputs)
            for client_index, client_outputs in outputs.items()
        }
        if self.finished_req_ids_dict:
            for client_index, finished in self.finished_req_ids_dict.items():
                client = by_client.setdefault(client_index, EngineCoreOutputs())
                client.finished_requests = finished
            self.finished_req_ids_dict.clear()
        drafts = self._take_spec_decoding_stats()
        stats = self.make_stats(drafts, kv_connector_stats, cudagraph_stats, None)
        if stats is not None:
            if not by_client:
                by_client[0] = EngineCoreOutputs()
            # One client gets them, the first.
            next(iter(by_client.values())).scheduler_stats = stats
        return by_client

    def make_stats(
        self,
        spec_decoding_stats: SpecDecodingStats | None = None,
        kv_connector_stats: Any = None,
        cudagraph_stats: object | None = None,
        perf_stats: object | None = None,
    ) -> SchedulerStats | None:
        """This step's figures, the given ones among them; None when statistics are off."""
        if not self.log_stats:
            return None
        prefix_cache_stats = self.kv_cache_manager.make_prefix_cache_stats()
        assert prefix_cache_stats is not None
        return SchedulerStats(
            num_running_reqs=len(self.running),
            num_waiting_reqs=len(self.waiting),
            num_skipped_waiting_reqs=len(self.skipped_waiting),
            kv_cache_usage=self.kv_cache_manager.usage,
            prefix_cache_stats=prefix_cache_stats,
            connector_prefix_cache_stats=self._take_connector_stats(),
            spec_decoding_stats=spec_decoding_stats,
            kv_connector_stats=kv_connector_stats.data if kv_connector_stats else None,
            cudagraph_stats=cudagraph_stats,
            perf_stats=perf_stats,
        )


def _engine_core_output(
    request: Request, new_token_ids: list[int], pooled: object | None = None
) -> EngineCoreOutput:
    """What the front end hears of the request in this step: mostly nothing but its tokens.

    A session goes on telling the stop reason of an earlier chunk.
    """
    output = EngineCoreOutput(request.request_id, new_token_ids, pooling_output=pooled)
    output.stop_reason = request.stop_reason
    if request.prefill_stats is not None:
        output.prefill_stats = request.take_prefill_stats()
    if request.events:
        output.events = request.take_events()
    if request.num_nans_in_logits:
        output.num_nans_in_logits = request.num_nans_in_logits
    output.trace_headers = request.trace_headers
    return output


def _refuse_out_of_scope(output: ModelRunnerOutput) -> None:
    """Refuse what a model runner can report only with features that are not here."""
    refuse("log probabilities", output.logprobs is not None or output.prompt_logprobs_dict)
    refuse("routed experts", output.routed_experts is not None)
