"""Remote KV: what a connector offers, loads that take more than a step, blocks kept for it.

A connector knows KV that other engines have computed. Asked at an admission, it says how many
tokens beyond the local hit it could load, and whether the load ends within the step (the request
runs at once, as if it had hit) or takes longer: then the request gets its blocks and waits in
``skipped_waiting`` until a worker reports that the load has ended. After the end of a request the
connector may keep its blocks until they are sent.

Everything here is reached only where there is a connector.
"""

from dataclasses import dataclass
from typing import Any

from nullblock.reference.kv_cache_manager import KVCacheBlocks
from nullblock.reference.outputs import KVConnectorOutput
from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sched.output import SchedulerOutput
from nullblock.reference.sched.state import SchedulerState
from nullblock.reference.stats import PrefixCacheStats


@dataclass(slots=True)
class Prefix:
    """What a waiting request need not compute."""

    hits: KVCacheBlocks
    num_local: int
    """Tokens that were hit in the local prefix cache."""
    num_computed_tokens: int
    """All tokens that need no computing, those loaded and those computed earlier included."""
    num_external: int = 0
    """Tokens that the connector loads."""
    load_async: bool = False
    """Whether the load takes more than this step."""
    num_padding: int = 0
    """Placeholders for drafts with which the request is admitted, in lines that have them."""


class RemoteKV(SchedulerState):
    """Loads, and blocks that outlive their request."""

    def _match_remote(self, request: Request, prefix: Prefix) -> bool:
        """Ask how much the remote side has; False if it does not know yet."""
        num_external, load_async = self.connector.get_num_new_matched_tokens(
            request, prefix.num_local
        )
        if request.skip_reading_prefix_cache and self.semantics.unread_unloaded:
            num_external, load_async = 0, False
        if num_external is None:
            return False
        prefix.num_external, prefix.load_async = num_external, load_async
        prefix.num_computed_tokens += num_external
        assert prefix.num_computed_tokens <= request.num_tokens
        assert not load_async or num_external > 0
        return True

    def _tell_allocated(self, request: Request, prefix: Prefix) -> None:
        """The connector hears which blocks a request has, and how much of them it is to load."""
        self.connector.update_state_after_alloc(
            request, self.kv_cache_manager.get_blocks(request.request_id), prefix.num_external
        )
        stats = self.connector_prefix_cache_stats
        num_queried = request.num_tokens - prefix.num_local
        if stats is not None and request.num_computed_tokens == 0 and num_queried:
            stats.record(num_queried, prefix.num_external, request.num_preemptions > 0)

    def _take_connector_stats(self) -> PrefixCacheStats | None:
        """What was asked of the connector since the last call; None where nobody counts."""
        stats = self.connector_prefix_cache_stats
        if stats is not None:
            self.connector_prefix_cache_stats = PrefixCacheStats()
        return stats

    def _build_kv_connector_meta(self, connector: Any, scheduler_output: SchedulerOutput) -> Any:
        """What workers are told of loads and sends with a step."""
        return connector.build_connector_meta(scheduler_output)

    def _aggregate_connector_stats(self, report: KVConnectorOutput | None) -> Any:
        """What workers count of loads and sends in a step, with what the scheduler's side does."""
        told: Any = None if report is None else report.kv_connector_stats
        if told and self.connector is not None:
            own = self.connector.get_kv_connector_stats()
            if own:
                told = told.aggregate(own)
        return told

    def _await_load(self, request: Request, prefix: Prefix) -> None:
        """The load has begun. Its tokens count as computed already; a failure takes them back."""
        request.status = RequestStatus.WAITING_FOR_REMOTE_KVS
        request.num_computed_tokens = prefix.num_computed_tokens
        if self._filling is not None:
            self._filling.add(request)

    def _promote_loaded(self, request: Request) -> bool:
        """Let a request go on whose load has ended; whether it has."""
        if request.request_id not in self.finished_recving_kv_req_ids:
            return False
        self._update_waiting_for_remote_kv(request)
        was_preempted = request.num_preemptions > 0
        request.status = RequestStatus.PREEMPTED if was_preempted else RequestStatus.WAITING
        return True

    def _update_waiting_for_remote_kv(self, request: Request) -> None:
        """Cache what was loaded. One that lacks everything gives its blocks back and starts over.

        Its last token a request computes again, to sample from it. In vLLM 0.22.1 one that lacks
        only what others compute again counts on all, and has none to compute.
        """
        num_loaded = request.num_computed_tokens
        if self.semantics.last_block_cached_last:
            # The last token is computed again; vLLM caches its block before.
            num_loaded = min(num_loaded, request.num_tokens - 1)
            request.num_computed_tokens = num_loaded
        is_lost = request.request_id in self.lost_recving_kv_req_ids
        if is_lost:
            self.lost_recving_kv_req_ids.remove(request.request_id)
            num_loaded = request.num_computed_tokens = 0
        has_failed = request.request_id in self.failed_recving_kv_req_ids
        self.failed_recving_kv_req_ids.discard(request.request_id)
        if has_failed and not num_loaded:
            self.kv_cache_manager.free(request)
        else:
            self.kv_cache_manager.cache_blocks(request, num_loaded)
        leaves_a_token = not has_failed or self.semantics.failed_loads_leave_a_token
        if leaves_a_token and num_loaded == request.num_tokens:
            request.num_computed_tokens = num_loaded - 1
        self.finished_recving_kv_req_ids.remove(request.request_id)

    def _forget_load(self, request: Request) -> bool:
        """A request ends while it waits for its load; whether the load still writes its blocks."""
        request_id = request.request_id
        still_loads = request_id not in self.finished_recving_kv_req_ids
        self.finished_recving_kv_req_ids.discard(request_id)
        self.failed_recving_kv_req_ids.discard(request_id)
        self.lost_recving_kv_req_ids.discard(request_id)
        return still_loads

    def _connector_finished(self, request: Request) -> tuple[bool, dict[str, Any] | None]:
        """Ask whether an ended request's blocks must stay; and what the client is to be told."""
        if self.connector is None:
            return False, None
        manager, request_id = self.kv_cache_manager, request.request_id
        # Blocks out of every window are nothing to send.
        num_settled = request.num_computed_tokens
        if self.semantics.windows_await_outputs:
            num_settled = max(0, num_settled - request.num_in_flight_tokens)
        manager.remove_skipped_blocks(request_id, num_settled)
        block_ids = manager.get_block_ids(request_id)
        answer: tuple[bool, dict[str, Any] | None]
        if hasattr(self.connector, "request_finished_all_groups"):
            answer = self.connector.request_finished_all_groups(request, block_ids)
        else:
            assert len(self.kv_cache_config.kv_cache_groups) == 1
            answer = self.connector.request_finished(request, block_ids[0])
        return answer

    def _update_from_kv_xfer_finished(self, report: KVConnectorOutput) -> None:
        """Take in which loads and which sends have ended.

        Raises:
            AssertionError: of a request that nobody knows, or that has no load to end.
        """
        if self.connector is not None:
            self.connector.update_connector_output(report)
        for request_id in report.finished_recving or ():
            assert request_id in self.requests, f"a load for {request_id!r} that is not here"
            request = self.requests[request_id]
            if request.status == RequestStatus.WAITING_FOR_REMOTE_KVS:
                self.finished_recving_kv_req_ids.add(request_id)
            else:
                # It ended while it was loading.
                self._end_transfer(request)
        for request_id in report.finished_sending or ():
            assert request_id in self.requests, f"blocks sent of {request_id!r}, not here"
            self._end_transfer(self.requests[request_id])

    def _end_transfer(self, request: Request) -> None:
        """Let the blocks of an ended request go, unless they are kept for another report.

        vLLM lets them go, and raises when the other one comes (upstream issue 46240).
        """
        assert request.is_finished()
        if request.request_id in self.half_kept_req_ids:
            self.half_kept_req_ids.remove(request.request_id)
        else:
            self._free_blocks(request)

    def _has_blocks_to_free_later(self) -> bool:
        """Whether a request is known and in no queue: it has ended, and its blocks are kept."""
        num_in_queues = len(self.waiting) + len(self.skipped_waiting) + len(self.running)
        return len(self.requests) > num_in_queues

    def reset_connector_cache(self) -> bool:
        """Empty the remote side's cache; whether it was done."""
        if self.connector is None or self.connector.reset_cache() is False:
            return False
        if self.connector_prefix_cache_stats is not None:
            self.connector_prefix_cache_stats.reset = True
        return True
