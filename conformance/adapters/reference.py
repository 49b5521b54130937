"""The reference engine as the driver sees it: vLLM-shaped objects in, plain fields out."""

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import SimpleNamespace

from nullblock.conformance.engine import ALL_FEATURES, Dump, Engine, Feature, Fields, NewRequest
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.scenario_format import Config
from nullblock.reference import kv_cache_utils
from nullblock.reference.errors import UnsupportedFeature
from nullblock.reference.hashing import get_hash_fn_by_name
from nullblock.reference.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    KVCacheGroupSpec,
)
from nullblock.reference.kv_events import EventBatch, KVCacheEvent, NullEventPublisher
from nullblock.reference.outputs import ModelRunnerOutput
from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sampling_params import SamplingParams
from nullblock.reference.sched.async_scheduler import AsyncScheduler
from nullblock.reference.sched.interface import PauseState
from nullblock.reference.sched.output import SchedulerOutput
from nullblock.reference.sched.scheduler import Scheduler
from nullblock.spec.profiles import Semantics

FEATURES = ALL_FEATURES


def create(config: Config, semantics: Semantics) -> Engine:
    """A reference scheduler under a scenario's configuration.

    Raises :class:`OutOfScope` for what the reference refuses to be built with.
    """
    try:
        return _Reference(config, semantics)
    except UnsupportedFeature as error:
        raise OutOfScope(f"{error.feature} is out of scope", place="config") from error


@dataclass(frozen=True, slots=True)
class _Adapter:
    """An adapter, as far as the scheduler looks at it."""

    lora_name: str
    adapter_id: int | None

    @property
    def name(self) -> str:
        """As events call it."""
        return self.lora_name


class _Listener(NullEventPublisher):
    """Keeps what is published until it is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[KVCacheEvent] = []

    def publish(self, events: EventBatch) -> None:
        """Keep a batch."""
        self.events += events.events


class _Reference:
    """Implements :class:`nullblock.conformance.engine.Engine`."""

    def __init__(self, config: Config, semantics: Semantics) -> None:
        spec = FullAttentionSpec(
            block_size=config.block_size, num_kv_heads=1, head_size=1, dtype=None
        )
        kv_cache_config = KVCacheConfig(
            num_blocks=config.num_blocks,
            kv_cache_tensors=[],
            kv_cache_groups=[KVCacheGroupSpec(["layer"], spec)],
        )
        kind = AsyncScheduler if config.async_scheduling else Scheduler
        self.scheduler = kind(
            vllm_config=_vllm_config(config),
            kv_cache_config=kv_cache_config,
            structured_output_manager=SimpleNamespace(should_advance=lambda request: False),
            block_size=config.block_size,
            hash_block_size=config.block_size,
            log_stats=config.log_stats,
            semantics=semantics,
        )
        hash_fn = get_hash_fn_by_name(config.hash_algo)
        with _environment("PYTHONHASHSEED", str(config.hash_seed)):
            kv_cache_utils.init_none_hash(hash_fn)
        self.none_hash = kv_cache_utils.NONE_HASH
        self.hasher = kv_cache_utils.get_request_block_hasher(
            config.block_size, hash_fn, semantics=semantics
        )
        self.listener = self.scheduler.kv_event_publisher = _Listener()
        self.in_flight: deque[SchedulerOutput] = deque()

    @property
    def features(self) -> frozenset[Feature]:
        """Everything."""
        return FEATURES

    def add(self, request: NewRequest) -> None:
        """Queue a request."""
        self._use_own_none_hash()
        params = SamplingParams(
            max_tokens=request.max_tokens,
            min_tokens=request.min_tokens,
            stop_token_ids=request.stop,
            ignore_eos=request.eos is None,
            skip_reading_prefix_cache=request.skip_cache_read,
        )
        if request.eos is not None:
            params.update_from_generation_config({}, request.eos)
        self.scheduler.add_request(
            Request(
                request_id=request.id,
                prompt_token_ids=request.prompt,
                sampling_params=params,
                pooling_params=None,
                arrival_time=request.arrival,
                lora_request=_adapter(request),
                cache_salt=request.salt,
                priority=request.priority,
                block_hasher=self.hasher,
            )
        )

    def schedule(self) -> Fields:
        """Decide one step."""
        output = self.scheduler.schedule()
        self.in_flight.append(output)
        cached = output.scheduled_cached_reqs
        columns = zip(
            cached.req_ids,
            cached.new_block_ids,
            cached.num_computed_tokens,
            cached.num_output_tokens,
            strict=True,
        )
        all_token_ids = cached.all_token_ids
        return {
            "num_scheduled_tokens": output.num_scheduled_tokens,
            "order": list(output.num_scheduled_tokens),
            "total": output.total_num_scheduled_tokens,
            "new": [
                {
                    "id": new.req_id,
                    "blocks": _lists(new.block_ids),
                    "computed": new.num_computed_tokens,
                    "prompt_len": len(new.prompt_token_ids or ()),
                    "prefill_len": None
                    if new.prefill_token_ids is None
                    else len(new.prefill_token_ids),
                }
                for new in output.scheduled_new_reqs
            ],
            "cached": [
                {
                    "id": id,
                    "new_blocks": _lists(blocks),
                    "computed": computed,
                    "num_output": num_output,
                    "resumed": id in cached.resumed_req_ids,
                    "all_token_ids": len(all_token_ids[id]) if id in all_token_ids else None,
                }
                for id, blocks, computed, num_output in columns
            ],
            "new_token_ids": cached.new_token_ids,
            "spec": output.scheduled_spec_decode_tokens,
            "preempted": sorted(output.preempted_req_ids or ()),
            "finished": sorted(output.finished_req_ids),
            "num_common_prefix_blocks": output.num_common_prefix_blocks,
            "new_block_ids_to_zero": output.new_block_ids_to_zero,
        }

    def update(self, sampled: dict[str, list[int]]) -> list[Fields]:
        """Take in what the oldest step in flight sampled."""
        self._use_own_none_hash()
        model_output = ModelRunnerOutput(
            req_ids=list(sampled),
            req_id_to_index={id: index for index, id in enumerate(sampled)},
            sampled_token_ids=list(sampled.values()),
        )
        by_client = self.scheduler.update_from_output(self.in_flight.popleft(), model_output)
        return [
            {
                "id": output.request_id,
                "tokens": list(output.new_token_ids),
                "finish": None if output.finish_reason is None else str(output.finish_reason),
                "stop_reason": output.stop_reason,
            }
            for client in sorted(by_client)
            for output in by_client[client].outputs
        ]

    def abort(self, ids: list[str] | None, status: str) -> list[str]:
        """End requests one after another, or all at once."""
        finished = RequestStatus[status]
        if ids is None:
            return [id for id, _ in self.scheduler.finish_requests(None, finished)]
        assert RequestStatus.is_finished(finished), f"{status} does not end a request"
        # Several ids in one call would be freed in the order of a set of strings.
        return [one for id in ids for one, _ in self.scheduler.finish_requests(id, finished)]

    def reset_prefix_cache(self, reset_running: bool) -> bool:
        """Empty the prefix cache."""
        return self.scheduler.reset_prefix_cache(reset_running_requests=reset_running)

    def pause(self, state: str) -> None:
        """Change how much is scheduled."""
        self.scheduler.set_pause_state(PauseState[state])

    def evict_blocks(self, ids: list[int]) -> None:
        """Take blocks out of the prefix cache."""
        self.scheduler.kv_cache_manager.evict_blocks(ids)

    def kv_events(self) -> list[Fields]:
        """What was published since the last call."""
        events, self.listener.events = self.listener.events, []
        return [_event(event) for event in events]

    def has_unfinished(self) -> bool:
        """Whether there is work, or a rejection to report."""
        return self.scheduler.has_unfinished_requests() or bool(self.scheduler._rejected)

    def has_requests(self) -> bool:
        """Whether a step has anything to do or to tell."""
        return self.scheduler.has_requests()

    def num_tokens(self, id: str) -> int | None:
        """Prompt and output tokens of a request."""
        request = self.scheduler.requests.get(id)
        return None if request is None else request.num_tokens

    def is_prefill_chunk(self, id: str) -> bool:
        """Whether tokens of the request are left uncomputed."""
        return self.scheduler.requests[id].is_prefill_chunk

    def state(self, dump: Dump) -> Fields | None:
        """Queues, requests and, in a full dump, the pool."""
        if dump == "none":
            return None
        scheduler = self.scheduler
        pool = scheduler.kv_cache_manager.block_pool
        fields: Fields = {
            "waiting": [request.request_id for request in scheduler.waiting],
            "skipped_waiting": [request.request_id for request in scheduler.skipped_waiting],
            "running": [request.request_id for request in scheduler.running],
            "num_free": pool.get_num_free_blocks(),
            "finished_req_ids": sorted(scheduler.finished_req_ids),
            "requests": {
                id: self._request_state(request) for id, request in scheduler.requests.items()
            },
        }
        return fields if dump == "brief" else fields | self._pool_state()

    def _request_state(self, request: Request) -> Fields:
        managers = self.scheduler.kv_cache_manager.coordinator.single_type_managers
        id = request.request_id
        return {
            "status": request.status.name,
            "computed": request.num_computed_tokens,
            "tokens": request.num_tokens,
            "output": request.num_output_tokens,
            "placeholders": request.num_output_placeholders,
            "discard": request.async_tokens_to_discard,
            "spec": len(request.spec_token_ids),
            "preemptions": request.num_preemptions,
            # get(), since looking a request up in the table itself would enter it there.
            "blocks": [[b.block_id for b in m.req_to_blocks.get(id, ())] for m in managers],
            "num_cached_block": [m.num_cached_block.get(id) for m in managers],
        }

    def _pool_state(self) -> Fields:
        pool = self.scheduler.kv_cache_manager.block_pool
        return {
            "free_queue": [b.block_id for b in pool.free_block_queue.get_all_free_blocks()],
            "ref_cnt": {b.block_id: b.ref_cnt for b in pool.blocks if b.ref_cnt},
            "block_hash": {
                b.block_id: _hash_text(b.block_hash)
                for b in pool.blocks
                if b.block_hash is not None
            },
            "cached_map": {
                _hash_text(key): list(found) if isinstance(found, dict) else [found.block_id]
                for key, found in pool.cached_block_hash_to_block._cache.items()
            },
        }

    def _use_own_none_hash(self) -> None:
        """vLLM keeps the hash of no parent in its module; two engines may differ in theirs."""
        kv_cache_utils.NONE_HASH = self.none_hash


def _adapter(request: NewRequest) -> _Adapter | None:
    return None if request.lora is None else _Adapter(request.lora, request.lora_id)


def _event(event: KVCacheEvent) -> Fields:
    """An event by its fields' names; of hashes that are bytes only the front is shown."""
    fields: Fields = {"t": type(event).__name__}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        match name:
            case "block_hashes":
                value = [_short(block_hash) for block_hash in value]
            case "parent_block_hash":
                value = _short(value)
        fields[name] = value
    return fields


def _short(block_hash: bytes | int | None) -> str | int | None:
    return block_hash.hex()[:12] if isinstance(block_hash, bytes) else block_hash


def _hash_text(key: bytes) -> str:
    """A cache key for people: half of the hash's front, and the group."""
    return f"{key.hex()[:12]}:{int.from_bytes(key[-4:], 'big')}"


def _lists(block_ids: tuple[list[int], ...] | None) -> list[list[int]] | None:
    return None if block_ids is None else [list(group) for group in block_ids]


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """A variable set for a while: vLLM's interface takes the hash seed from there."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _vllm_config(config: Config) -> SimpleNamespace:
    """The fields of vLLM's configuration that a scheduler reads."""
    return SimpleNamespace(
        scheduler_config=SimpleNamespace(
            max_num_seqs=config.max_num_seqs,
            max_num_batched_tokens=config.max_num_batched_tokens,
            max_num_scheduled_tokens=config.max_num_scheduled_tokens,
            long_prefill_token_threshold=config.long_prefill_token_threshold,
            enable_chunked_prefill=config.enable_chunked_prefill,
            policy=config.policy,
            async_scheduling=config.async_scheduling,
            scheduler_reserve_full_isl=config.scheduler_reserve_full_isl,
            disable_chunked_mm_input=False,
        ),
        cache_config=SimpleNamespace(
            block_size=config.block_size,
            num_gpu_blocks=config.num_blocks,
            enable_prefix_caching=config.enable_prefix_caching,
            mamba_cache_mode="none",
            hash_block_size=None,
        ),
        model_config=SimpleNamespace(
            is_encoder_decoder=False,
            max_model_len=config.max_model_len,
            is_multimodal_model=False,
            enable_return_routed_experts=False,
        ),
        parallel_config=SimpleNamespace(
            data_parallel_index=0,
            decode_context_parallel_size=1,
            prefill_context_parallel_size=1,
            pipeline_parallel_size=config.pipeline_parallel_size,
        ),
        observability_config=SimpleNamespace(kv_cache_metrics=False, enable_mfu_metrics=False),
        lora_config=None,
        kv_events_config=SimpleNamespace(
            enable_kv_cache_events=config.kv_events, publisher="null"
        ),
        speculative_config=None,
        kv_transfer_config=None,
        ec_transfer_config=None,
        use_v2_model_runner=False,
    )
