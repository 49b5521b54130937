"""Streaming sessions: requests whose prompt arrives in chunks.

A resumable request does not end at its stop: it takes the next chunk of its prompt, which is
queued or for which it waits, in ``skipped_waiting`` and with its blocks. A chunk carries the id of
its session. An arrival of that id that is not resumable ends the session.
"""

from abc import abstractmethod
from collections import deque
from copy import copy
from dataclasses import replace

from nullblock.reference.engine import EngineCoreEventType
from nullblock.reference.request import Request, RequestStatus, StreamingUpdate
from nullblock.reference.sched import later
from nullblock.reference.sched.finishing import Finishing
from nullblock.reference.sched.skipped_queue import SkippedQueue


class Streaming(SkippedQueue, Finishing):
    """Chunks: their arrival, and what they make of their session."""

    def _open_session(self, request: Request) -> None:
        """A new session may get chunks before it has taken the first."""
        request.streaming_queue = deque()

    def _add_to_session(self, session: Request, chunk: Request) -> None:
        """A request arrives whose id is known: it has to be a chunk, or the end.

        Raises:
            AssertionError: the known request is no session.
        """
        update = StreamingUpdate.from_request(chunk)
        if session.status != RequestStatus.WAITING_FOR_STREAMING_REQ:
            queue = session.streaming_queue
            assert queue is not None, f"duplicate request id: {session.request_id!r}"
            queue.append(update)
        elif update is not None and not self._is_refused(session, update):
            self._update_request_as_session(session, update)
            if self.semantics.chunks_reorder:
                self._aside.reorder()
        else:
            self.finish_requests(session.request_id, RequestStatus.FINISHED_ABORTED)

    def _num_kept_tokens(self, session: Request) -> int:
        """How many of its tokens a session goes on with.

        All but the last output, which was sampled and never computed. vLLM takes those that are
        computed: none, after a preemption.
        """
        if self.semantics.sessions_keep_tokens:
            return session.num_tokens - 1
        return min(session.num_computed_tokens, session.num_tokens)

    @abstractmethod
    def _unservable_length(
        self, request: Request, num_prompt_tokens: int, max_tokens: int
    ) -> str | None:
        """Why it could not be served with that (:mod:`nullblock.reference.sched.admission`)."""

    def _is_refused(self, session: Request, update: StreamingUpdate) -> bool:
        """Whether a chunk can never be served; the next update says so, and the session ends."""
        if not self.semantics.reject_unservable:
            return False
        kept, length = self._num_kept_tokens(session), len(update.prompt_token_ids or ())
        limit = update.max_tokens if self.semantics.chunks_bring_limits else session.max_tokens
        reason = "the chunk is empty"
        if length:
            possible = self._unservable_length(session, kept + length, limit)
            if possible is None:
                return False
            reason = possible
        refused = copy(session)
        refused.status = RequestStatus.FINISHED_REJECTED
        refused.stop_reason = reason
        refused.prefill_stats, refused.events = None, []
        self._rejected.append(refused)
        return True

    def _handle_stopped_request(self, request: Request) -> bool:
        """A session has come to a stop: give it its next chunk, or let it wait for one.

        Returns:
            Whether it has ended: no session, or no chunk will follow.
        """
        if not request.resumable:
            return True
        update = None
        ends_turn = self.semantics.late_outputs_dropped
        if ends_turn and self._awaits_output:
            # Where the session ends, that shows as long as its blocks are kept.
            self._end_turn(request)
        if request.streaming_queue:
            update = request.streaming_queue.popleft()
            if update is None or self._is_refused(request, update):
                return True
        if ends_turn and not self._awaits_output:
            self._end_turn(request)
        if self.semantics.sessions_stay_queued:
            self.waiting.remove_requests({request})
            self.skipped_waiting.remove_requests({request})
        if update is not None:
            self._update_request_as_session(request, update)
        else:
            request.status = RequestStatus.WAITING_FOR_STREAMING_REQ
            self.num_waiting_for_streaming_input += 1
        # In vLLM a session whose next output is in flight may stop again, and is then queued
        # twice: once it runs, its other entry raises (upstream issue 52693). One that stops while
        # it is preempted waits already; with a chunk taken it is queued there once more, and the
        # update then takes preempted requests that stopped out of that queue: it is in none for
        # ever.
        self._enqueue_waiting_request(request)
        return False

    def _end_turn(self, session: Request) -> None:
        """What steps in flight compute for a session is of a turn that is over.

        vLLM takes their outputs for the next turn's (upstream pull request 52765).
        """
        if self._awaits_output:
            session.num_computed_tokens -= session.num_output_placeholders
            assert session.num_computed_tokens >= 0, session.request_id
            later.outdate(session, drop_stale_output=True)
            session.spec_token_ids = []
            return
        session.discard_outputs_in_flight()
        session.spec_token_ids = []
        most = session.num_tokens - 1
        session.num_computed_tokens = min(session.num_computed_tokens, most)

    def _update_request_as_session(self, session: Request, update: StreamingUpdate) -> None:
        """Append a chunk to what is kept; the outputs among that become prompt.

        What was sampled and not computed (the last output, at least) is dropped. It may have
        completed a block: vLLM keeps that block's hash, which then names other content (upstream
        issue 49377). There a session that was preempted has computed nothing, and loses all its
        tokens, and its ``max_tokens`` stays that of the first chunk (upstream pull request 37843).
        Under PRIORITY it may be queued already, and in vLLM a later arrival does not move it there
        (upstream issue 55162).
        """
        num_kept = self._num_kept_tokens(session)
        tokens = session._all_token_ids
        kept_outputs = tokens[session.num_prompt_tokens : num_kept]
        del tokens[num_kept:]
        if self.semantics.chunks_rehash:
            hashed = self.kv_cache_manager.block_pool.hash_block_size
            del session.block_hashes[num_kept // hashed :]
        if self.semantics.chunks_bring_limits:
            session.max_tokens = update.max_tokens
        session._output_token_ids.clear()
        assert session.prompt_token_ids is not None
        session.prompt_token_ids.extend(kept_outputs)
        for feature in update.mm_features:
            offset = feature.mm_position.offset + len(tokens)
            feature.mm_position = replace(feature.mm_position, offset=offset)
        session.mm_features.extend(update.mm_features)
        chunk = update.prompt_token_ids or []
        tokens.extend(chunk)
        session.prompt_token_ids.extend(chunk)
        session.num_prompt_tokens = len(session.prompt_token_ids)
        session.update_block_hashes()
        session.arrival_time = update.arrival_time
        session.sampling_params = update.sampling_params
        if session.status == RequestStatus.WAITING_FOR_STREAMING_REQ:
            self.num_waiting_for_streaming_input -= 1
        session.status = RequestStatus.WAITING
        if self.log_stats:
            session.record_event(EngineCoreEventType.QUEUED)
