"""How a request ends: from outside, and what is let go of at any end."""

from collections.abc import Iterable
from typing import Any

from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sched.kv_connector import RemoteKV
from nullblock.reference.sched.utils import remove_all


class Finishing(RemoteKV):
    """Ends requests, and lets go of those that have ended."""

    def finish_requests(
        self, request_ids: str | Iterable[str] | None, finished_status: RequestStatus
    ) -> list[tuple[str, int]]:
        """End requests from outside: one id, several, or (None) all; unknown ids are ignored.

        Several ids are freed in the iteration order of a set of them, as in vLLM: that order is
        an input, fixed only by ``PYTHONHASHSEED``.

        Returns:
            The ids and clients of those that were alive.
        """
        assert RequestStatus.is_finished(finished_status)
        if request_ids is None:
            request_ids = list(self.requests)
        elif isinstance(request_ids, str):
            request_ids = (request_ids,)
        else:
            request_ids = set(request_ids)
        known = [self.requests[i] for i in request_ids if i in self.requests]
        # One that has ended is known while its blocks are kept for a connector.
        ending = [request for request in known if not request.is_finished()]
        running = {request for request in ending if request.status == RequestStatus.RUNNING}
        self.running = remove_all(self.running, running)
        waiting = set(ending) - running
        if waiting:
            self.waiting.remove_requests(waiting)
            self.skipped_waiting.remove_requests(waiting)
        for request in ending:
            is_written_to = False
            match request.status:
                case RequestStatus.WAITING_FOR_STREAMING_REQ:
                    self.num_waiting_for_streaming_input -= 1
                case RequestStatus.WAITING_FOR_REMOTE_KVS:
                    is_written_to = self._forget_load(request)
            request.status = finished_status
            self._free_request(request, delay_free_blocks=is_written_to)
        return [(request.request_id, request.client_index) for request in ending]

    def _free_request(
        self, request: Request, delay_free_blocks: bool = False
    ) -> dict[str, Any] | None:
        """Let go of a finished request; workers hear of it with the next step.

        Args:
            delay_free_blocks: whether its blocks are still written to.

        Returns:
            What the client is to be told of a transfer.
        """
        assert request.is_finished()
        if self._filling is not None:
            self._filling.discard(request)
        is_kept, kv_transfer_params = self._connector_finished(request)
        if is_kept and delay_free_blocks and self.semantics.transfers_end_apart:
            self.half_kept_req_ids.add(request.request_id)
        delay_free_blocks |= is_kept
        if request.mm_features:
            self.encoder_cache_manager.free(request)
        request_id = request.request_id
        self.finished_req_ids.add(request_id)
        if self.finished_req_ids_dict is not None:
            self.finished_req_ids_dict[request.client_index].add(request_id)
        if not delay_free_blocks:
            self._free_blocks(request)
        return kv_transfer_params
