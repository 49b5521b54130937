"""Grammars: for whom workers are sent a mask of allowed tokens, and what a rejection does.

A request waits until its grammar is compiled (:mod:`nullblock.reference.sched.skipped_queue`).
Then every token that is kept advances the grammar. The mask keeps the model from sampling a token
that the grammar rejects, so a rejection is an error.
"""

from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sched.output import GrammarOutput, SchedulerOutput
from nullblock.reference.sched.state import SchedulerState


class StructuredOutput(SchedulerState):
    """Reached only by requests with a grammar."""

    def _note_structured_output(self, request: Request, scheduler_output: SchedulerOutput) -> None:
        """Tell, of a scheduled request that will sample, whether its mask can be made yet.

        To be called before the output of this step is counted as a placeholder.
        """
        scheduler_output.has_structured_output_requests = True
        if self.async_scheduling and request.num_output_placeholders > 0:
            # The grammar has to see tokens that are still in flight.
            scheduler_output.pending_structured_output_tokens = True

    def get_grammar_bitmask(self, scheduler_output: SchedulerOutput) -> GrammarOutput | None:
        """The mask of allowed tokens for a step; None if nobody in it needs one."""
        if not scheduler_output.has_structured_output_requests:
            return None
        requests = self.requests
        request_ids = [
            request_id
            for request_id in scheduler_output.num_scheduled_tokens
            if request_id in requests
            and requests[request_id].use_structured_output
            and not requests[request_id].is_prefill_chunk
        ]
        if not request_ids:
            return None
        bitmask = self.structured_output_manager.grammar_bitmask(
            requests, request_ids, scheduler_output.scheduled_spec_decode_tokens
        )
        return GrammarOutput(request_ids, bitmask)

    def _advance_grammar(self, request: Request, new_token_ids: list[int]) -> bool:
        """Let the grammar see the tokens that were kept; False if that ends the request.

        It ends even if it had stopped with these tokens, and even a session.
        """
        structured = request.structured_output_request
        assert structured is not None and structured.grammar is not None
        if structured.grammar.accept_tokens(request.request_id, new_token_ids):
            return True
        request.status = RequestStatus.FINISHED_ERROR
        request.resumable = False
        return False
