"""Counters that the scheduler keeps for logging; no decision reads them."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from nullblock.reference.spec_decode import SpecDecodingStats


@dataclass
class PrefixCacheStats:
    """Prefix-cache look-ups since the last report. Queries and hits count tokens.

    Every *attempt* to admit a request counts, so a request that waits at the head of the queue
    is counted once a step.
    """

    reset: bool = False
    requests: int = 0
    queries: int = 0
    hits: int = 0
    preempted_requests: int = 0
    preempted_queries: int = 0
    preempted_hits: int = 0

    def record(self, num_tokens: int, num_hits: int, preempted: bool) -> None:
        """Count one look-up of ``num_tokens``, of which ``num_hits`` were found."""
        if preempted:
            self.preempted_requests += 1
            self.preempted_queries += num_tokens
            self.preempted_hits += num_hits
        else:
            self.requests += 1
            self.queries += num_tokens
            self.hits += num_hits


@dataclass
class PrefillStats:
    """Where the prompt tokens of a request's first admission came from."""

    num_prompt_tokens: int = 0
    num_computed_tokens: int = 0
    num_cached_tokens: int = 0
    num_local_cached_tokens: int = 0
    num_external_cached_tokens: int = 0

    def set(
        self,
        num_prompt_tokens: int,
        num_local_cached_tokens: int,
        num_external_cached_tokens: int,
    ) -> None:
        """Overwrite with the figures of the latest attempt."""
        num_cached_tokens = num_local_cached_tokens + num_external_cached_tokens
        assert num_cached_tokens <= num_prompt_tokens
        self.num_prompt_tokens = num_prompt_tokens
        self.num_computed_tokens = num_prompt_tokens - num_cached_tokens
        self.num_cached_tokens = num_cached_tokens
        self.num_local_cached_tokens = num_local_cached_tokens
        self.num_external_cached_tokens = num_external_cached_tokens


@dataclass
class SchedulerStats:
    """One step's figures for the front end's logger."""

    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    num_skipped_waiting_reqs: int = 0
    step_counter: int = 0
    current_wave: int = 0
    kv_cache_usage: float = 0.0
    prefix_cache_stats: PrefixCacheStats = field(default_factory=PrefixCacheStats)
    connector_prefix_cache_stats: PrefixCacheStats | None = None
    kv_cache_eviction_events: list[Any] = field(default_factory=list)
    """Always empty: metrics of blocks are refused."""
    spec_decoding_stats: SpecDecodingStats | None = None
    kv_connector_stats: dict[str, Any] | None = None
    waiting_lora_adapters: dict[str, int] = field(default_factory=dict)
    running_lora_adapters: dict[str, int] = field(default_factory=dict)
    cudagraph_stats: object | None = None
    perf_stats: object | None = None


class CachingMetrics:
    """The share of tokens that were hit, over the last so many requests."""

    def __init__(self, max_recent_requests: int = 1000) -> None:
        self.max_recent_requests = max_recent_requests
        self.query_queue: deque[tuple[int, int, int]] = deque()
        """Requests, queries and hits of each report that still counts."""
        self.aggregated_requests = self.aggregated_query_total = self.aggregated_query_hit = 0

    def observe(self, stats: PrefixCacheStats) -> None:
        """Count a report; the oldest ones go, but never this, where the requests are too many."""
        if stats.reset:
            self.reset()
        if not stats.requests:
            return
        self.query_queue.append((stats.requests, stats.queries, stats.hits))
        self._add(stats.requests, stats.queries, stats.hits)
        while len(self.query_queue) > 1 and self.aggregated_requests > self.max_recent_requests:
            self._add(*(-number for number in self.query_queue.popleft()))

    def _add(self, num_requests: int, num_queries: int, num_hits: int) -> None:
        """Add to the sums."""
        self.aggregated_requests += num_requests
        self.aggregated_query_total += num_queries
        self.aggregated_query_hit += num_hits

    def reset(self) -> None:
        """Nothing counts any more."""
        self.aggregated_requests = self.aggregated_query_total = self.aggregated_query_hit = 0
        self.query_queue.clear()

    @property
    def empty(self) -> bool:
        """Whether no request counts."""
        return self.aggregated_requests == 0

    @property
    def hit_rate(self) -> float:
        """Hits by queries, 0 to 1; 0 where nothing was asked."""
        if not self.aggregated_query_total:
            return 0.0
        return self.aggregated_query_hit / self.aggregated_query_total
