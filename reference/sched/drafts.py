"""Speculative decoding: drafts are scheduled like known tokens, and taken back if they are wrong.

A draft model, or a search in the text so far, proposes tokens to follow those that a request has.
A step computes them together with the request's last token, which costs little more, and the
model then says what it would have sampled at each position: the drafts up to the first wrong one
are accepted, and one more token is sampled. What is rejected has been counted as computed when it
was scheduled, so it is taken off again when the step returns.

=====================  ==========================================================================
moment                 what happens to ``Request.spec_token_ids``
=====================  ==========================================================================
update, synchronously  the drafts for the next step come in (``update_draft_token_ids``)
running phase          they count like tokens; those that were scheduled go into the step's output
                       and the others are forgotten
schedule, ahead        a placeholder, -1, for each draft that workers will make on their own
preemption             forgotten
=====================  ==========================================================================
"""

from nullblock.reference.outputs import DraftTokenIds
from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sched.later import PADDING
from nullblock.reference.sched.output import SchedulerOutput
from nullblock.reference.sched.state import SchedulerState, Step
from nullblock.reference.spec_decode import PlacedSpecDecodingStats, SpecDecodingStats


class Drafts(SchedulerState):
    """What drafts add to a step. Each method is called only where there is one."""

    _spec_token_placeholders: list[int]
    """What stands for the drafts that workers will make; read-only, shared by requests. Ahead."""
    _spec_decoding_stats: SpecDecodingStats | None = None
    """What this update has counted so far."""

    def update_draft_token_ids(self, draft_token_ids: DraftTokenIds) -> None:
        """Keep drafts for the next step of each request, in place of any that it has.

        A request whose prompt is not computed to its end has no token to follow: its are dropped.
        Of the others a grammar keeps those up to the first that it rejects.
        """
        self._has_drafts = True
        proposals = zip(draft_token_ids.req_ids, draft_token_ids.draft_token_ids, strict=False)
        for request_id, token_ids in proposals:
            request = self.requests.get(request_id)
            if request is None or request.is_finished():
                continue
            if self.semantics.drafts_for_running_only:
                if not self._is_followed(request):
                    continue
                assert len(token_ids) <= self.num_spec_tokens, "more drafts than there may be"
                is_chunk = False
            else:
                # vLLM takes any number for everybody who is known.
                is_chunk = request.is_prefill_chunk
            request.spec_token_ids = [] if is_chunk else self._allowed(request, token_ids)

    def _is_followed(self, request: Request) -> bool:
        """Whether drafts that are told of now would follow a request's last token at once."""
        return (
            not self.async_scheduling
            and request.status == RequestStatus.RUNNING
            and request.num_output_placeholders == request.num_draft_placeholders
            and request.num_computed_tokens + 1 == request.num_tokens
        )

    def update_draft_token_ids_in_output(
        self, draft_token_ids: DraftTokenIds, scheduler_output: SchedulerOutput
    ) -> None:
        """Write drafts over those that a step was scheduled with, keeping their number.

        What is too long is cut, as is what a grammar rejects, and what is too short is padded:
        workers verify as many positions as were scheduled, and reject the padding.
        """
        num_invalid: dict[str, int] = {}
        scheduled = scheduler_output.scheduled_spec_decode_tokens
        proposals = zip(draft_token_ids.req_ids, draft_token_ids.draft_token_ids, strict=False)
        for request_id, token_ids in proposals:
            request = self.requests.get(request_id)
            if request is None or request.is_finished() or not scheduled.get(request_id):
                continue
            num_scheduled = len(scheduled[request_id])
            del token_ids[num_scheduled:]
            token_ids = self._allowed(request, token_ids)
            missing = num_scheduled - len(token_ids)
            if missing:
                token_ids.extend([PADDING] * missing)
                num_invalid[request_id] = missing
            scheduled[request_id] = token_ids
        scheduler_output.num_invalid_spec_tokens = num_invalid

    def _allowed(self, request: Request, token_ids: list[int]) -> list[int]:
        """The drafts up to the first that the request's grammar, if it has one, rejects."""
        manager, structured = self.structured_output_manager, request.structured_output_request
        if manager is None or not manager.should_advance(request):
            return token_ids
        assert structured is not None and structured.grammar is not None
        return structured.grammar.validate_tokens(token_ids)

    def _schedule_drafts(self, request: Request, num_new_tokens: int, step: Step) -> None:
        """Put the drafts among the tokens of a running request into the step, and forget all.

        The tokens that are known, or in flight, come first: what is left of the request's share
        of the step goes to its first drafts.
        """
        num_known = len(request._all_token_ids)
        if self.async_scheduling and not request.num_earlier_outputs:
            num_known += request.num_output_placeholders
        num_drafts = request.num_computed_tokens + num_new_tokens - num_known
        if num_drafts > 0:
            drafts = request.spec_token_ids
            if len(drafts) > num_drafts:
                drafts = drafts[:num_drafts]
            step.spec_tokens[request.request_id] = drafts
        request.spec_token_ids = []

    def _count_drafts(self, scheduler_output: SchedulerOutput) -> None:
        """Count scheduled drafts among the outputs to come; ahead, leave room for the next ones.

        Only a step that comes to a request's last token samples anything, and so has drafts.
        """
        if not self._counts_placeholders:
            return
        for request_id, drafts in scheduler_output.scheduled_spec_decode_tokens.items():
            request = self.requests[request_id]
            request.num_output_placeholders += len(drafts)
            request.num_draft_placeholders += len(drafts)
        if not self.async_scheduling:
            return
        placeholders = self._spec_token_placeholders
        for request_id in scheduler_output.num_scheduled_tokens:
            request = self.requests[request_id]
            if not request.is_prefill_chunk:
                request.spec_token_ids = placeholders

    def _reject_drafts(
        self,
        request: Request,
        num_drafts: int,
        num_sampled: int,
        output: SchedulerOutput,
        is_stale: bool,
    ) -> None:
        """Take off what a returned step computed in vain: all drafts but the accepted ones.

        The last of the sampled tokens is no draft. vLLM asks only whether each counter is above
        0, so a request that was preempted in between, and has started over, loses tokens that it
        has computed since (upstream issues 46066 and 49860). Where outputs go stale with a
        preemption, ``is_stale``, theirs have been taken off by then.
        """
        num_accepted = num_sampled - 1
        num_rejected = num_drafts - num_accepted
        if is_stale:
            pass
        elif self.semantics.rejections_keep_to_their_run:
            if request.async_tokens_to_discard > 0:
                return  # a reset has forgotten them
            self._take_back(request, num_rejected)
            if self._counts_placeholders:
                request.num_draft_placeholders -= num_drafts
        else:
            if request.num_computed_tokens > 0:
                request.num_computed_tokens -= num_rejected
            if request.num_output_placeholders > 0:
                request.num_output_placeholders -= num_rejected
        self._spec_decoding_stats = self.make_spec_decoding_stats(
            self._spec_decoding_stats,
            num_draft_tokens=num_drafts,
            num_accepted_tokens=num_accepted,
            num_invalid_spec_tokens=output.num_invalid_spec_tokens,
            request_id=request.request_id,
        )

    def _take_back(self, request: Request, num_tokens: int) -> None:
        """Count so many tokens less: as computed, unless that was before a preemption; as owed."""
        if not request.num_earlier_outputs:
            request.num_computed_tokens -= num_tokens
        if self._counts_placeholders:
            request.num_output_placeholders -= num_tokens

    def make_spec_decoding_stats(
        self,
        spec_decoding_stats: SpecDecodingStats | None,
        num_draft_tokens: int,
        num_accepted_tokens: int,
        num_invalid_spec_tokens: dict[str, int] | None,
        request_id: str,
    ) -> SpecDecodingStats | None:
        """What has been counted in an update and one request's drafts; None if nobody counts."""
        if not self.log_stats or not num_draft_tokens:
            return None
        if spec_decoding_stats is None:
            by_place = self.semantics.drafts_counted_by_place
            kind = PlacedSpecDecodingStats if by_place else SpecDecodingStats
            spec_decoding_stats = kind.new(self.num_spec_tokens)
        num_invalid = (num_invalid_spec_tokens or {}).get(request_id, 0)
        spec_decoding_stats.observe_draft(num_draft_tokens - num_invalid, num_accepted_tokens)
        return spec_decoding_stats

    def _take_spec_decoding_stats(self) -> SpecDecodingStats | None:
        """The drafts counted since the last call; None if there were none."""
        stats, self._spec_decoding_stats = self._spec_decoding_stats, None
        return stats
