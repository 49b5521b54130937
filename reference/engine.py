"""What front ends send to the engine core, and what it returns to them."""

import enum
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from nullblock.reference.pooling_params import PoolingParams
from nullblock.reference.sampling_params import SamplingParams
from nullblock.reference.stats import PrefillStats, SchedulerStats

FINISH_REASON_STRINGS = ("stop", "length", "abort", "error", "repetition", "rejected")


class FinishReason(enum.IntEnum):
    """Why a request ended.

    ``REJECTED`` is not vLLM's: it answers a request that can never be served, in the profiles
    that refuse such requests on arrival.
    """

    STOP = 0
    LENGTH = 1
    ABORT = 2
    ERROR = 3
    REPETITION = 4
    REJECTED = 5

    def __str__(self) -> str:
        return FINISH_REASON_STRINGS[self.value]


class EngineCoreEventType(enum.IntEnum):
    """A milestone in a request's life."""

    QUEUED = 1
    SCHEDULED = 2
    PREEMPTED = 3


class EngineCoreEvent(msgspec.Struct):
    """A milestone and when it was reached (seconds on this process's monotonic clock)."""

    type: EngineCoreEventType
    timestamp: float

    @classmethod
    def new_event(
        cls, event_type: EngineCoreEventType, timestamp: float | None = None
    ) -> "EngineCoreEvent":
        """An event of that type, now unless a time is given."""
        return cls(event_type, time.monotonic() if timestamp is None else timestamp)


class EngineCoreRequest(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """A request as a front end sends it, in vLLM's order."""

    request_id: str
    prompt_token_ids: list[int] | None
    mm_features: list[Any] | None
    sampling_params: SamplingParams | None
    pooling_params: PoolingParams | None
    arrival_time: float
    lora_request: Any | None
    cache_salt: str | None
    data_parallel_rank: int | None
    prompt_embeds: Any | None = None
    prompt_is_token_ids: list[bool] | None = None
    client_index: int = 0
    current_wave: int = 0
    priority: int = 0
    trace_headers: Mapping[str, str] | None = None
    resumable: bool = False
    external_req_id: str | None = None
    reasoning_ended: bool | None = None
    reasoning_parser_kwargs: dict[str, Any] | None = None
    abort_immediately: bool = False

    @property
    def params(self) -> SamplingParams | PoolingParams:
        """Those of the two that it has."""
        if self.sampling_params is not None:
            return self.sampling_params
        assert self.pooling_params is not None
        return self.pooling_params


class EngineCoreOutput(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """What one step brought one request: its new tokens, and its end if it ended."""

    request_id: str
    new_token_ids: list[int]
    new_logprobs: object | None = None
    new_prompt_logprobs_tensors: object | None = None
    pooling_output: object | None = None
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    events: list[EngineCoreEvent] | None = None
    kv_transfer_params: dict[str, object] | None = None
    trace_headers: Mapping[str, str] | None = None
    prefill_stats: PrefillStats | None = None
    routed_experts: object | None = None
    num_nans_in_logits: int = 0

    @property
    def finished(self) -> bool:
        """Whether this is the request's last output."""
        return self.finish_reason is not None


class EngineCoreOutputs(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """What one step brought one front end."""

    engine_index: int = 0
    outputs: list[EngineCoreOutput] = []
    scheduler_stats: SchedulerStats | None = None
    timestamp: float = 0.0
    utility_output: object | None = None
    finished_requests: set[str] | None = None
    wave_complete: int | None = None
    start_wave: int | None = None

    def __post_init__(self) -> None:
        if self.timestamp == 0.0:
            self.timestamp = time.monotonic()
