"""A request and its status."""

import enum
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from nullblock.reference.engine import (
    EngineCoreEvent,
    EngineCoreEventType,
    EngineCoreRequest,
    FinishReason,
)
from nullblock.reference.multimodal.inputs import MultiModalFeatureSpec
from nullblock.reference.pooling_params import PoolingParams
from nullblock.reference.sampling_params import SamplingParams
from nullblock.reference.stats import PrefillStats
from nullblock.reference.structured_output.request import StructuredOutputRequest
from nullblock.reference.utils import ConstantList

if TYPE_CHECKING:
    from nullblock.reference.free_block_queue import BlockHash


class LoRARequest(Protocol):
    """An adapter: its name is part of every block hash, and its events tell name and number."""

    @property
    def lora_name(self) -> str:
        """The adapter's name, for hashes."""
        ...

    @property
    def name(self) -> str:
        """The same, for events."""
        ...

    @property
    def adapter_id(self) -> int | None:
        """The adapter's number, for events."""
        ...

    @property
    def lora_int_id(self) -> int:
        """The same, for the cap on adapters."""
        ...


class RequestStatus(enum.IntEnum):
    """Where a request stands. The order matters: whatever follows PREEMPTED is finished.

    ``FINISHED_REJECTED`` is not vLLM's; see :class:`nullblock.reference.engine.FinishReason`.
    """

    WAITING = enum.auto()
    WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR = enum.auto()
    WAITING_FOR_REMOTE_KVS = enum.auto()
    WAITING_FOR_STREAMING_REQ = enum.auto()
    RUNNING = enum.auto()
    PREEMPTED = enum.auto()
    FINISHED_STOPPED = enum.auto()
    FINISHED_LENGTH_CAPPED = enum.auto()
    FINISHED_ABORTED = enum.auto()
    FINISHED_IGNORED = enum.auto()
    FINISHED_ERROR = enum.auto()
    FINISHED_REPETITION = enum.auto()
    FINISHED_REJECTED = enum.auto()

    def __str__(self) -> str:
        return self.name

    @staticmethod
    def is_finished(status: "RequestStatus") -> bool:
        """Whether no more will come of a request with this status."""
        return status > RequestStatus.PREEMPTED

    @staticmethod
    def get_finished_reason(status: "RequestStatus") -> FinishReason | None:
        """The reason that the front end is told, or None while the request lives."""
        return _FINISHED_REASON.get(status)


_FINISHED_REASON = {
    RequestStatus.FINISHED_STOPPED: FinishReason.STOP,
    RequestStatus.FINISHED_LENGTH_CAPPED: FinishReason.LENGTH,
    RequestStatus.FINISHED_ABORTED: FinishReason.ABORT,
    RequestStatus.FINISHED_IGNORED: FinishReason.LENGTH,
    RequestStatus.FINISHED_ERROR: FinishReason.ERROR,
    RequestStatus.WAITING_FOR_STREAMING_REQ: FinishReason.STOP,
    RequestStatus.FINISHED_REPETITION: FinishReason.REPETITION,
    RequestStatus.FINISHED_REJECTED: FinishReason.REJECTED,
}


@dataclass(slots=True)
class StreamingUpdate:
    """A chunk of a session: what it changes in the request that it continues."""

    mm_features: list[MultiModalFeatureSpec]
    prompt_token_ids: list[int] | None
    max_tokens: int
    arrival_time: float
    sampling_params: SamplingParams | None

    @classmethod
    def from_request(cls, request: "Request") -> "StreamingUpdate | None":
        """The chunk that a request is; None for the end of a session."""
        if not request.resumable:
            return None
        return cls(
            request.mm_features,
            request.prompt_token_ids,
            request.max_tokens,
            request.arrival_time,
            request.sampling_params,
        )


def _first_status(structured: StructuredOutputRequest | None) -> RequestStatus:
    """A request with a grammar waits until that is compiled."""
    if structured is None:
        return RequestStatus.WAITING
    return RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR


def _max_tokens(
    request_id: str, sampling: SamplingParams | None, pooling: PoolingParams | None
) -> int:
    """The outputs that a request may have; a pooling request counts as if it had one."""
    if pooling is not None:
        return 1
    if sampling is None:
        raise ValueError(f"request {request_id!r} has neither sampling_params nor pooling_params")
    assert sampling.max_tokens is not None, f"request {request_id!r}: max_tokens unset"
    return sampling.max_tokens


def _num_prompt_tokens(token_ids: list[int] | None, embeds: Any | None) -> int:
    """The length of a prompt of tokens, of embeddings, or of both in step."""
    lengths = {len(given) for given in (token_ids, embeds) if given is not None}
    if len(lengths) != 1:
        what = f"lengths {sorted(lengths)}" if lengths else "neither"
        raise ValueError(f"a prompt needs tokens, embeddings, or both of one length: {what}")
    return lengths.pop()


class Request:
    """One prompt on its way to its output.

    There is no prefill and no decode: a request has tokens (prompt, then outputs) and a number of
    them that are computed, and every step lets the second number catch up with the first.
    """

    streaming_queue: "deque[StreamingUpdate | None] | None" = None
    """Chunks that have arrived for a session; None in it stands for the end."""

    num_draft_placeholders = 0
    """Of the placeholders, those for drafts."""
    num_earlier_outputs = 0
    """Outputs to come of the time before a preemption, where a profile tells runs apart."""
    next_sampling_step = 0
    """Before this step it is passed over, where a pipeline paces the tokens of a request."""
    last_sched_seq = 0
    """The last step that computes it, where frees wait for steps: see sched/deferred_frees.py."""

    def __init__(
        self,
        request_id: str,
        prompt_token_ids: list[int] | None,
        sampling_params: SamplingParams | None,
        pooling_params: PoolingParams | None,
        client_index: int = 0,
        arrival_time: float | None = None,
        prompt_embeds: Any | None = None,
        prompt_is_token_ids: list[bool] | None = None,
        mm_features: list[MultiModalFeatureSpec] | None = None,
        lora_request: LoRARequest | None = None,
        cache_salt: str | None = None,
        priority: int = 0,
        trace_headers: Mapping[str, str] | None = None,
        block_hasher: "Callable[[Request], list[BlockHash]] | None" = None,
        resumable: bool = False,
        reasoning_ended: bool | None = None,
        reasoning_parser_kwargs: dict[str, Any] | None = None,
        abort_immediately: bool = False,
    ) -> None:
        self.request_id = request_id
        self.client_index = client_index
        self.priority = priority
        self.arrival_time = time.time() if arrival_time is None else arrival_time
        self.sampling_params = sampling_params
        self.pooling_params = pooling_params
        self.max_tokens = _max_tokens(request_id, sampling_params, pooling_params)
        self.lora_request = lora_request
        self.cache_salt = cache_salt
        self.trace_headers = trace_headers
        self.mm_features = mm_features or []
        self.prompt_embeds = prompt_embeds
        self.prompt_is_token_ids = prompt_is_token_ids
        self._prompt_embeds_per_block_hashes: dict[tuple[int, int], bytes] = {}
        extra_args = None if sampling_params is None else sampling_params.extra_args
        self.kv_transfer_params = (extra_args or {}).get("kv_transfer_params")
        self.resumable = resumable
        self.abort_immediately = abort_immediately
        self.skip_reading_prefix_cache = self.get_skip_reading_prefix_cache()

        self.structured_output_request = StructuredOutputRequest.from_sampling_params(
            sampling_params, reasoning_ended, reasoning_parser_kwargs
        )
        self.status = _first_status(self.structured_output_request)
        self.stop_reason: int | str | None = None
        self.events: list[EngineCoreEvent] = []
        self.prefill_stats: PrefillStats | None = PrefillStats()
        self.num_preemptions = self.num_nans_in_logits = self.shared_prefix_boundary = 0
        self.owed_run, self.void_runs = 0, set[int]()  # runs by the preemptions before: vectors

        self.prompt_token_ids = prompt_token_ids
        self.num_prompt_tokens = _num_prompt_tokens(prompt_token_ids, prompt_embeds)
        self._output_token_ids: list[int] = []
        self._all_token_ids = (
            [0] * self.num_prompt_tokens if prompt_token_ids is None else prompt_token_ids.copy()
        )
        self.output_token_ids = ConstantList(self._output_token_ids)
        self.all_token_ids = ConstantList(self._all_token_ids)
        self.num_computed_tokens = 0
        self.is_prefill_chunk = False
        # Outputs in flight: those to append when they come, and those that a reset made worthless.
        self.num_output_placeholders = self.async_tokens_to_discard = 0
        self.num_in_flight_tokens = self.num_stale_output_tokens = 0  # see sched/later.py
        self.drop_stale_output = False
        self.spec_token_ids: list[int] = []

        self.block_hashes: list[BlockHash] = []
        self._block_hasher = block_hasher
        self.update_block_hashes()

    @classmethod
    def from_engine_core_request(
        cls,
        request: EngineCoreRequest,
        block_hasher: "Callable[[Request], list[BlockHash]] | None",
    ) -> "Request":
        """The request that a front end sent."""
        return cls(
            request_id=request.request_id,
            client_index=request.client_index,
            prompt_token_ids=request.prompt_token_ids,
            prompt_embeds=request.prompt_embeds,
            prompt_is_token_ids=request.prompt_is_token_ids,
            mm_features=request.mm_features,
            sampling_params=request.sampling_params,
            pooling_params=request.pooling_params,
            arrival_time=request.arrival_time,
            lora_request=request.lora_request,
            cache_salt=request.cache_salt,
            priority=request.priority,
            trace_headers=request.trace_headers,
            block_hasher=block_hasher,
            resumable=request.resumable,
            reasoning_ended=request.reasoning_ended,
            reasoning_parser_kwargs=request.reasoning_parser_kwargs,
            abort_immediately=request.abort_immediately,
        )

    def append_output_token_ids(self, token_ids: int | list[int]) -> None:
        """Add sampled tokens, and hash the block that they may have completed."""
        if isinstance(token_ids, int):
            self._output_token_ids.append(token_ids)
            self._all_token_ids.append(token_ids)
        else:
            self._output_token_ids.extend(token_ids)
            self._all_token_ids.extend(token_ids)
        self.update_block_hashes()

    def update_block_hashes(self) -> None:
        """Hash the full blocks that have no hash yet."""
        if self._block_hasher is not None:
            self.block_hashes.extend(self._block_hasher(self))

    @property
    def use_structured_output(self) -> bool:
        """Whether its outputs have to follow a grammar."""
        return self.structured_output_request is not None

    @property
    def num_tokens(self) -> int:
        """Prompt and output tokens."""
        return len(self._all_token_ids)

    @property
    def num_tokens_with_spec(self) -> int:
        """Prompt, output and draft tokens."""
        return len(self._all_token_ids) + len(self.spec_token_ids)

    @property
    def num_output_tokens(self) -> int:
        """Output tokens."""
        return len(self._output_token_ids)

    @property
    def num_encoder_inputs(self) -> int:
        """Items for the encoder."""
        return len(self.mm_features)

    @property
    def has_encoder_inputs(self) -> bool:
        """Whether there are any."""
        return bool(self.mm_features)

    def get_num_encoder_embeds(self, input_id: int) -> int:
        """Embeddings that the encoder makes of an item."""
        return self.mm_features[input_id].mm_position.get_num_embeds()

    def get_skip_reading_prefix_cache(self) -> bool:
        """Whether cached prefixes are ignored; the first that says anything decides."""
        for params in (self.sampling_params, self.pooling_params):
            if params is not None and params.skip_reading_prefix_cache is not None:
                return params.skip_reading_prefix_cache
        return False

    def discard_outputs_in_flight(
        self, *, adds_up: bool = True, counts_outputs: bool = True
    ) -> None:
        """Drop the outputs in flight when they come: they belong to what is over.

        Args:
            adds_up: what was to be dropped already still is.
            counts_outputs: an output is dropped as a whole, drafts in it are none of their own.
        """
        before = self.async_tokens_to_discard if adds_up else 0
        num_outputs = self.num_output_placeholders
        if counts_outputs:
            num_outputs -= self.num_draft_placeholders
        self.async_tokens_to_discard = before + num_outputs
        self.num_output_placeholders = self.num_draft_placeholders = 0
        self.num_earlier_outputs = 0

    def is_void(self, runs: dict[str, int]) -> bool:
        """Whether the vector of a step was made of what was not there.

        Args:
            runs: the step's, of which run of a request its vector is.
        """
        return runs.get(self.request_id) in self.void_runs

    def is_finished(self) -> bool:
        """Whether no more will come of this request."""
        return RequestStatus.is_finished(self.status)

    def get_finished_reason(self) -> FinishReason | None:
        """Why the request ended, or None while it lives."""
        return RequestStatus.get_finished_reason(self.status)

    def record_event(
        self, event_type: EngineCoreEventType, timestamp: float | None = None
    ) -> None:
        """Note a milestone for the front end's statistics."""
        self.events.append(EngineCoreEvent.new_event(event_type, timestamp))

    def take_events(self) -> list[EngineCoreEvent] | None:
        """The milestones since the last call, or None."""
        if not self.events:
            return None
        events, self.events = self.events, []
        return events

    def take_prefill_stats(self) -> PrefillStats | None:
        """The prefill's figures, once: they leave with the first output."""
        prefill_stats, self.prefill_stats = self.prefill_stats, None
        return prefill_stats

    def __lt__(self, other: "Request") -> bool:
        """Whether this request is served first under PRIORITY: smaller is sooner."""
        return (self.priority, self.arrival_time, self.request_id, id(self)) < (
            other.priority,
            other.arrival_time,
            other.request_id,
            id(other),
        )
