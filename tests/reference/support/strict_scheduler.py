"""A scheduler that overrides what vLLM 0.22.1's schedulers may override, and how it is driven."""

from types import SimpleNamespace
from typing import Any

from vllm_shaped_driver import DEFAULTS, vllm_config

from nullblock.reference import kv_cache_utils
from nullblock.reference.hashing import sha256
from nullblock.reference.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
    MambaSpec,
)
from nullblock.reference.kv_cache_manager import KVCacheBlocks
from nullblock.reference.outputs import ModelRunnerOutput
from nullblock.reference.request import Request
from nullblock.reference.sampling_params import SamplingParams
from nullblock.reference.sched.async_scheduler import AsyncScheduler
from nullblock.reference.sched.output import CachedRequestData, SchedulerOutput
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.reference.spec_decode import SpecDecodingStats
from nullblock.reference.stats import SchedulerStats

kv_cache_utils.init_none_hash(sha256)
HASHER = kv_cache_utils.get_request_block_hasher(4, sha256)
LAYER: dict[str, Any] = {"block_size": 4, "num_kv_heads": 1, "head_size": 1, "dtype": None}


class Strict(Scheduler):
    """Every hook with the arguments that 0.22.1 gives it, and no others; notes the calls."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        super().__init__(*args, **kwargs)

    def told(self, name: str) -> list[tuple[Any, ...]]:
        """The arguments of each call of a hook."""
        return [call[1:] for call in self.calls if call[0] == name]

    def _update_request_with_output(  # type: ignore[override]
        self, request: Request, new_token_ids: list[int]
    ) -> tuple[list[int], bool]:
        self.calls.append(("update", request.request_id, list(new_token_ids)))
        return super()._update_request_with_output(request, new_token_ids)

    def _preempt_request(  # type: ignore[override]
        self, request: Request, timestamp: float
    ) -> None:
        self.calls.append(("preempt", request.request_id))
        super()._preempt_request(request, timestamp)

    def _make_cached_request_data(
        self,
        running_reqs: list[Request],
        resumed_reqs: list[Request],
        num_scheduled_tokens: dict[str, int],
        spec_decode_tokens: dict[str, list[int]],
        req_to_new_blocks: dict[str, KVCacheBlocks],
    ) -> CachedRequestData:
        names = [[r.request_id for r in reqs] for reqs in (running_reqs, resumed_reqs)]
        blocks = {name: got.get_block_ids() for name, got in req_to_new_blocks.items()}
        self.calls.append(("cached", *names, dict(num_scheduled_tokens), blocks))
        return super()._make_cached_request_data(
            running_reqs, resumed_reqs, num_scheduled_tokens, spec_decode_tokens, req_to_new_blocks
        )

    def _mamba_block_aligned_split(
        self,
        request: Request,
        num_new_tokens: int,
        num_new_local_computed_tokens: int = 0,
        num_external_computed_tokens: int = 0,
    ) -> int:
        computed = num_new_local_computed_tokens, num_external_computed_tokens
        self.calls.append(("split", request.request_id, num_new_tokens, *computed))
        return super()._mamba_block_aligned_split(request, num_new_tokens, *computed)

    def _try_schedule_encoder_inputs(
        self,
        request: Request,
        num_computed_tokens: int,
        num_new_tokens: int,
        encoder_compute_budget: int,
        shift_computed_tokens: int = 0,
    ) -> tuple[list[int], int, int, list[int]]:
        given = num_computed_tokens, num_new_tokens, encoder_compute_budget, shift_computed_tokens
        decided = super()._try_schedule_encoder_inputs(request, *given)
        self.calls.append(("encoder", request.request_id, given, decided))
        return decided

    def _update_requests_with_invalid_blocks(
        self,
        requests: Any,
        invalid_block_ids: set[int],
        num_scheduled_tokens: dict[str, int],
        evict_blocks: bool = True,
    ) -> tuple[set[str], int, set[int]]:
        found = super()._update_requests_with_invalid_blocks(
            requests, invalid_block_ids, num_scheduled_tokens, evict_blocks
        )
        self.calls.append(("invalid", evict_blocks, found))
        return found

    def _build_kv_connector_meta(self, connector: Any, scheduler_output: SchedulerOutput) -> Any:
        self.calls.append(
            ("meta", connector is self.connector, scheduler_output.kv_connector_metadata)
        )
        return super()._build_kv_connector_meta(connector, scheduler_output)

    def _connector_finished(self, request: Request) -> tuple[bool, dict[str, Any] | None]:
        self.calls.append(("connector finished", request.request_id))
        return super()._connector_finished(request)

    def _free_request(self, request: Request, *args: Any, **kwargs: Any) -> dict[str, Any] | None:
        self.calls.append(("free", request.request_id, args, kwargs))
        return super()._free_request(request, *args, **kwargs)

    def make_stats(
        self,
        spec_decoding_stats: SpecDecodingStats | None = None,
        kv_connector_stats: Any = None,
        cudagraph_stats: Any = None,
        perf_stats: Any = None,
    ) -> SchedulerStats | None:
        given = spec_decoding_stats, kv_connector_stats, cudagraph_stats, perf_stats
        self.calls.append(("stats", given))
        return super().make_stats(*given)


class StrictAhead(Strict, AsyncScheduler):
    """The same, scheduling ahead."""


def build(
    kind: type[Scheduler] = Strict,
    spec: Any = None,
    options: dict[str, Any] | None = None,
    **config: Any,
) -> Any:
    """A scheduler over blocks of four tokens."""
    c = {**DEFAULTS, "block_size": 4, "num_blocks": 32, "max_model_len": 64, **config}
    c["async_scheduling"] = kind.async_scheduling
    settings = vllm_config(c)
    settings.max_in_flight_tokens, settings.max_concurrent_batches = 64, 2
    if isinstance(spec, MambaSpec):
        settings.cache_config.mamba_cache_mode = "align"
    groups = [KVCacheGroupSpec(["l"], spec or FullAttentionSpec(**LAYER))]
    manager = SimpleNamespace(should_advance=lambda request: False)
    cache = KVCacheConfig(c["num_blocks"], [], groups)
    return kind(settings, cache, manager, 4, **(options or {}))


def add(scheduler: Scheduler, name: str, num_tokens: int = 6, **options: Any) -> None:
    """Queue a request of so many tokens; four outputs."""
    params = SamplingParams(max_tokens=options.pop("max_tokens", 4))
    tokens = list(range(num_tokens))
    scheduler.add_request(Request(name, tokens, params, None, block_hasher=HASHER, **options))


def update(
    scheduler: Scheduler, out: SchedulerOutput, sampled: Any = None, **report: Any
) -> dict[int, Any]:
    """Everybody whose prefill is over samples 7, or what is given."""
    ids = list(out.num_scheduled_tokens)
    requests = scheduler.requests
    if sampled is None:
        sampled = [[] if requests[name].is_prefill_chunk else [7] for name in ids]
    indices = {name: index for index, name in enumerate(ids)}
    return scheduler.update_from_output(out, ModelRunnerOutput(ids, indices, sampled, **report))
