"""Streaming sessions: requests whose prompt arrives in chunks.

A resumable request does not end at its stop: it takes the next chunk of its prompt, which is
queued or for which it waits, in ``skipped_waiting`` and with its blocks. A chunk carries the id of
its session. An arrival of that id that is not resumable ends the session.
"""

from collections import deque
from dataclasses import replace

from nullblock.reference.engine import EngineCoreEventType
from nullblock.reference.request import Request, RequestStatus, StreamingUpdate
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
        elif update is not None:
            self._update_request_as_session(session, update)
        else:
            self.finish_requests(session.request_id, RequestStatus.FINISHED_ABORTED)

    def _handle_stopped_request(self, request: Request) -> bool:
        """A session has come to a stop: give it its next chunk, or let it wait for one.

        Returns:
            Whether it has ended: no session, or no chunk will follow.
        """
        if not request.resumable:
            return True
        if request.streaming_queue:
            update = request.streaming_queue.popleft()
            if update is None:
                return True
            self._update_request_as_session(request, update)
        else:
            request.status = RequestStatus.WAITING_FOR_STREAMING_REQ
            self.num_waiting_for_streaming_input += 1
        # A session whose next output is in flight may stop again, and is then queued twice: once
        # it runs, its other entry raises (upstream issue 52693). One that stops while it is
        # preempted waits already; with a chunk taken it is queued there once more, and the update
        # then takes preempted requests that stopped out of that queue: it is in none for ever.
        self._enqueue_waiting_request(request)
        return False

    def _update_request_as_session(self, session: Request, update: StreamingUpdate) -> None:
        """Append a chunk to what was computed; the outputs among that become prompt.

        What was sampled and not computed (the last output, at least) is dropped. It may have
        completed a block: vLLM keeps that block's hash, which then names other content (upstream
        issue 49377). A session that was preempted has computed nothing, and loses all its tokens.
        Its ``max_tokens`` stays that of the first chunk (upstream pull request 37843). Under
        PRIORITY it may be queued already, and a later arrival does not move it there.
        """
        num_computed_tokens = session.num_computed_tokens
        tokens = session._all_token_ids
        kept_outputs = tokens[session.num_prompt_tokens : num_computed_tokens]
        del tokens[num_computed_tokens:]
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
