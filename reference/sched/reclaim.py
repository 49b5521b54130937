"""Loaded blocks that come back for somebody who lacks them, where nobody runs to be preempted.

vLLM leaves them with those who wait, who may all lack what the others hold (upstream issue 45387).
Everything here is reached only where there is a connector.
"""

from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sched.kv_connector import RemoteKV
from nullblock.reference.sched.request_queue import SchedulingPolicy


class Reclaim(RemoteKV):
    """Takes loaded blocks from requests that wait."""

    def _reclaim(self, head: Request | None = None) -> bool:
        """Let the last request that waits with loaded blocks give them back; whether one did.

        None does while anything is loaded or sent: when that ends some may be free.

        Args:
            head: who lacks blocks, if it waits.
        """
        if self.connector is None or not self.semantics.loaded_blocks_come_back:
            return False
        if any(map(self._is_transferred, self.requests.values())):
            return False
        holders = [
            request
            for request in self.requests.values()
            if request is not head and self._waits_loaded(request)
        ]
        if not holders:
            return False
        # FCFS: they stand in the order of their arrival.
        last = holders[-1] if self.policy == SchedulingPolicy.FCFS else max(holders)
        self.kv_cache_manager.free(last)
        last.num_computed_tokens = 0
        if last.status == RequestStatus.WAITING_FOR_REMOTE_KVS:
            self._forget_load(last)
            was_preempted = last.num_preemptions > 0
            last.status = RequestStatus.PREEMPTED if was_preempted else RequestStatus.WAITING
        if self._filling is not None:
            self._filling.discard(last)
        return True

    def _is_transferred(self, request: Request) -> bool:
        """Whether a request's blocks are loaded, or kept after its end."""
        if request.status == RequestStatus.WAITING_FOR_REMOTE_KVS:
            return request.request_id not in self.finished_recving_kv_req_ids
        return request.is_finished()

    def _waits_loaded(self, request: Request) -> bool:
        """Whether a request waits with loaded blocks; sessions keep what they have."""
        if request.status == RequestStatus.RUNNING or request.resumable:
            return False
        return any(self.kv_cache_manager.get_block_ids(request.request_id))
