"""The scheduler's state, and the decisions of one step while it is being made."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nullblock.reference.engine import EngineCoreEventType
from nullblock.reference.errors import refuse
from nullblock.reference.kv_cache_interface import (
    FullAttentionSpec,
    KVCacheConfig,
    MambaSpec,
    SinkFullAttentionSpec,
)
from nullblock.reference.kv_cache_manager import KVCacheBlocks, KVCacheManager
from nullblock.reference.kv_connector import KVConnectorFactory, KVConnectorRole
from nullblock.reference.kv_events import EventPublisherFactory
from nullblock.reference.multimodal.encoder_budget import make_encoder_cache
from nullblock.reference.request import Request, RequestStatus
from nullblock.reference.sched import later
from nullblock.reference.sched.deferred_frees import DeferredFrees
from nullblock.reference.sched.encoder_plan import EncoderPlan
from nullblock.reference.sched.interface import PauseState
from nullblock.reference.sched.request_queue import (
    RequestQueue,
    SchedulingPolicy,
    create_request_queue,
)
from nullblock.reference.spec_decode import draft_sizes
from nullblock.reference.stats import PrefixCacheStats
from nullblock.spec.facts import token_budget
from nullblock.spec.profiles import VLLM_0_22_1, Semantics


@dataclass(slots=True)
class Step:
    """What ``schedule()`` has decided so far."""

    token_budget: int
    """Tokens that may still be scheduled."""
    timestamp: float
    """For statistics only: seconds, monotonic."""
    req_index: int = 0
    """The running request whose turn it is."""
    num_scheduled_tokens: dict[str, int] = field(default_factory=dict)
    """Tokens by request, in the order in which they were scheduled."""
    new_blocks: dict[str, KVCacheBlocks] = field(default_factory=dict)
    """Blocks to report: for a running request the new ones, else all it has."""
    running: dict[str, Request] = field(default_factory=dict)
    """Scheduled requests that were running."""
    new: list[Request] = field(default_factory=list)
    """Scheduled requests that workers do not know."""
    resumed: list[Request] = field(default_factory=list)
    """Scheduled requests that had been preempted."""
    preempted: list[Request] = field(default_factory=list)
    """Requests that lost their blocks in this step."""
    loras: set[int] = field(default_factory=set)
    """Numbers of the adapters that this step computes; only where they are capped."""
    skipped_holders: list[Request] = field(default_factory=list)
    """Those passed over that wait with blocks, where these stand apart."""
    skipped: RequestQueue | None = None
    """Requests that were passed over in this step; None for none."""
    encoder_budget: int = 0
    """Embeddings that may still be computed."""
    encoder_inputs: dict[str, list[int]] = field(default_factory=dict)
    """Encoder inputs to compute, by request."""
    encoder_plan: EncoderPlan = field(default_factory=EncoderPlan)
    """For the request with encoder inputs whose turn it was last."""
    spec_tokens: dict[str, list[int]] = field(default_factory=dict)
    """The drafts among the tokens, by request; no entry where there are none."""
    input_budget: int = 0
    """Places of the workers' buffers that are left; only where a draft model takes some."""
    draft_slots: int = 0
    """Of these, how many it takes for each request."""
    has_prefill: bool = False
    """Whether a running request that was scheduled had tokens left uncomputed before."""

    @property
    def left(self) -> int:
        """Tokens that a request may get."""
        if not self.draft_slots:
            return self.token_budget
        return max(0, min(self.token_budget, self.input_budget - self.draft_slots))

    def take(self, num_tokens: int) -> None:
        """A request is scheduled for so many tokens."""
        self.token_budget -= num_tokens
        self.input_budget -= num_tokens + self.draft_slots

    def withdraw(self, request: Request) -> bool:
        """Take a request that was running out of the step; whether it was in."""
        request_id = request.request_id
        if self.running.pop(request_id, None) is None:
            return False
        num_tokens = self.num_scheduled_tokens.pop(request_id)
        self.token_budget += num_tokens
        self.input_budget += num_tokens + self.draft_slots
        del self.new_blocks[request_id]
        self.spec_tokens.pop(request_id, None)
        return True


class SchedulerState:
    """Every request is in exactly one place: ``waiting``, ``skipped_waiting``, ``running``, gone.

    Args:
        vllm_config: any object with vLLM's configuration fields that this scope reads.
        kv_cache_config: the groups of layers, and the blocks that they share.
        structured_output_manager: says whether a request's grammar is to see its new tokens, and
            makes the masks of allowed tokens.
        block_size: what prefix hits are a multiple of: of one group, its tokens a block.
        mm_registry: the processors of a multimodal model; None: a model without an encoder.
        include_finished_set: report the ids that ended to each client.
        log_stats: collect statistics.
        semantics: the profile; vLLM 0.22.1 unless told otherwise.
    """

    async_scheduling: ClassVar[bool] = False
    """Whether a step is decided before the outputs of the steps in flight are known."""

    def __init__(
        self,
        vllm_config: Any,
        kv_cache_config: KVCacheConfig,
        structured_output_manager: Any,
        block_size: int,
        hash_block_size: int | None = None,
        mm_registry: Any = None,
        include_finished_set: bool = False,
        log_stats: bool = False,
        *,
        semantics: Semantics | None = None,
    ) -> None:
        _refuse_out_of_scope(vllm_config, log_stats)
        _refuse_other_mode(vllm_config, self.async_scheduling)
        self.semantics = semantics or VLLM_0_22_1
        _refuse_parallel(vllm_config.parallel_config, kv_cache_config, self.semantics)
        self.vllm_config = vllm_config
        self.scheduler_config = vllm_config.scheduler_config
        self.cache_config = vllm_config.cache_config
        self.kv_events_config = vllm_config.kv_events_config
        self.parallel_config = parallel = vllm_config.parallel_config
        self.dcp_world_size: int = parallel.decode_context_parallel_size
        self.pcp_world_size: int = parallel.prefill_context_parallel_size
        self.kv_cache_config = kv_cache_config
        self.structured_output_manager = structured_output_manager
        self.lora_config = vllm_config.lora_config
        self.log_stats = log_stats
        self.observability_config = vllm_config.observability_config
        self.kv_metrics_collector = self.perf_metrics = None
        self.enable_return_routed_experts = False
        self.block_size = block_size

        self._follow_line()
        self.max_num_running_reqs: int = self.scheduler_config.max_num_seqs
        self.max_model_len: int = vllm_config.model_config.max_model_len
        self.scheduler_reserve_full_isl: bool = self.scheduler_config.scheduler_reserve_full_isl
        self.use_pp: bool = self.parallel_config.pipeline_parallel_size > 1
        self.use_v2_model_runner: bool = vllm_config.use_v2_model_runner
        self.num_spec_tokens, self.num_lookahead_tokens, self.use_eagle = draft_sizes(
            vllm_config.speculative_config
        )
        self._has_drafts = self.num_spec_tokens > 0

        self._make_queues()
        self.finished_req_ids: set[str] = set()
        self.finished_req_ids_dict: dict[int, set[str]] | None = (
            defaultdict(set) if include_finished_set else None
        )
        self.prev_step_scheduled_req_ids: set[str] = set()
        self._pause_state = PauseState.UNPAUSED
        self._rejected: list[Request] = []
        """Refused on arrival, and not reported yet."""
        # vLLM's synchronous scheduler does not count them, so that a request which is preempted
        # and resumed while its output is in flight samples the same position twice.
        self._counts_placeholders = self.async_scheduling or self.semantics.outputs_owed_once
        self.num_sampled_tokens_per_step = later.num_sampled_tokens(
            self.vllm_config, self.semantics
        )
        if self.num_sampled_tokens_per_step == 0:
            self._counts_placeholders = False

        self._make_connector()
        self._make_kv_cache(block_size if hash_block_size is None else hash_block_size)
        self.is_encoder_decoder: bool = vllm_config.model_config.is_encoder_decoder
        self.ec_connector: Any = None
        self.encoder_cache_manager, self.max_num_encoder_input_tokens = make_encoder_cache(
            vllm_config, mm_registry, self.semantics
        )

    def _follow_line(self) -> None:
        """What the lines differ in, as it is at the start."""
        config = self.scheduler_config
        self.max_num_scheduled_tokens = token_budget(
            config.max_num_batched_tokens, config.max_num_scheduled_tokens, self.semantics
        )
        self._awaits_output = self.semantics.resumes_await_output
        self._counts_flight = self._awaits_output or self.semantics.windows_await_outputs
        """Whether requests count their tokens of the steps in flight."""
        self._long_prefill_token_threshold: int = config.long_prefill_token_threshold
        self._filling: set[Request] | None = set() if self.semantics.loads_leave_room else None
        """Requests that load, or compute their prompts, where loads leave room for them."""
        self._preempted_by_reset: set[str] = set()
        """Since the last step."""
        self._stages = later.stages(self.vllm_config, self.async_scheduling, self.semantics)
        """Steps from one token of a request to its next, at the least."""
        self._num_steps = 0
        """Decided so far, the one that is being decided among them."""
        self._draft_slots = later.draft_slots(self.vllm_config.speculative_config, self.semantics)

    def _make_queues(self) -> None:
        """Where requests are."""
        self.policy = SchedulingPolicy(self.scheduler_config.policy)
        self.requests: dict[str, Request] = {}
        self.waiting = create_request_queue(self.policy)
        self.skipped_waiting = create_request_queue(self.policy)
        """Requests that wait for something else than their turn, or were passed over."""
        self.num_waiting_for_streaming_input = 0
        """Sessions that wait for their next chunk."""
        self.running: list[Request] = []
        """In the order of admission."""

    def _make_connector(self) -> None:
        """What knows remote KV, if the configuration says so; a builder may also set one later."""
        self.connector: Any = None
        self.connector_prefix_cache_stats: PrefixCacheStats | None = None
        self.recompute_kv_load_failures = True
        """Whether requests compute what was not loaded; else they end."""
        self.finished_recving_kv_req_ids: set[str] = set()
        """Requests whose load has ended and that have not gone on yet."""
        self.failed_recving_kv_req_ids: set[str] = set()
        """Requests that lack some of what they load."""
        self.lost_recving_kv_req_ids: set[str] = set()
        """Of those, the ones that are to give all back; in a profile that tells them apart."""
        self.half_kept_req_ids: set[str] = set()
        """Ended requests whose blocks stay for two reports; in a profile that tells them apart."""
        self._defers_block_free = False
        self.requires_kv_delivery = False
        """Whether what is in flight for a preempted request is dropped: it might end the request,
        whose blocks, which the connector would hand off, are gone.
        """
        transfer = self.vllm_config.kv_transfer_config
        if transfer is None:
            return
        if self.semantics.freed_blocks_await_steps:
            overlap = self.vllm_config.max_concurrent_batches > 1
            self.defer_block_free = overlap and transfer.is_kv_consumer
        self.connector = KVConnectorFactory.create_connector(
            self.vllm_config, KVConnectorRole.SCHEDULER, self.kv_cache_config
        )
        if self._awaits_output:
            by_role = transfer.is_kv_producer
            self.requires_kv_delivery = getattr(self.connector, "requires_kv_delivery", by_role)
        if self.log_stats:
            self.connector_prefix_cache_stats = PrefixCacheStats()
        self.recompute_kv_load_failures = transfer.kv_load_failure_policy == "recompute"

    @property
    def defer_block_free(self) -> bool:
        """Whether freed blocks wait for steps in flight that compute their request.

        vLLM 0.22.1 knows nothing of it, and goes on as ever where somebody sets it.
        """
        return self._defers_block_free

    @defer_block_free.setter
    def defer_block_free(self, defers: bool) -> None:
        self._defers_block_free = defers and self.semantics.freed_blocks_await_steps

    def _make_kv_cache(self, hash_block_size: int) -> None:
        """The KV cache, what its layers ask of a step, and who is told of its events."""
        self.has_mamba_layers = self.kv_cache_config.has_mamba_layers
        self.needs_kv_cache_zeroing = self.kv_cache_config.needs_kv_cache_zeroing
        self.need_mamba_block_aligned_split = (
            self.has_mamba_layers and self.cache_config.mamba_cache_mode == "align"
        )
        self._cuts_first = (
            self.need_mamba_block_aligned_split and self.semantics.blocks_before_items
        )
        """Whether a step is cut to whole blocks before its encoder inputs are planned, or after"""
        layers = [group.kv_cache_spec for group in self.kv_cache_config.kv_cache_groups]
        states = [layer for layer in layers if isinstance(layer, MambaSpec)]
        keeps = self.semantics.inner_states_kept and all(
            layer.num_prefill_checkpoint_blocks for layer in states
        )
        first = states[0].prefill_checkpoint_alignment if states else None
        self._inner_alignment = (first or 0) if keeps else 0
        """How far from its begin a step may keep a state within it; 0: some layers keep none."""
        self._cuts_last = self.need_mamba_block_aligned_split and not self._cuts_first
        events = self.kv_events_config
        self.enable_kv_cache_events = bool(events and events.enable_kv_cache_events)
        self.kv_event_publisher = EventPublisherFactory.create(
            events, self.parallel_config.data_parallel_index
        )
        self.kv_cache_manager = KVCacheManager(
            kv_cache_config=self.kv_cache_config,
            max_model_len=self.max_model_len,
            max_num_batched_tokens=later.num_reckoned_with(self.vllm_config, self.semantics),
            enable_caching=self.cache_config.enable_prefix_caching,
            use_eagle=self.use_eagle,
            log_stats=self.log_stats,
            enable_kv_cache_events=self.enable_kv_cache_events,
            hash_block_size=hash_block_size,
            dcp_world_size=self.dcp_world_size,
            pcp_world_size=self.pcp_world_size,
            # A field of later releases' configurations.
            watermark=getattr(self.scheduler_config, "watermark", None) or 0.0,
            semantics=self.semantics,
        )
        self.deferred_frees = DeferredFrees(self.kv_cache_manager)
        if hasattr(self.connector, "bind_gpu_block_pool"):
            self.connector.bind_gpu_block_pool(self.kv_cache_manager.block_pool)

    def _preempt_request(
        self, request: Request, timestamp: float, drop_stale_output: bool = False
    ) -> None:
        """Take a request's blocks and let it start over; it must be off ``running`` already.

        It waits at the front, so of several victims the last comes first, and since victims are
        taken from the back of ``running`` they keep their order. Its outputs in flight will still
        be appended.
        """
        assert request.status == RequestStatus.RUNNING, f"{request.request_id} is not running"
        self._free_request_blocks(request)
        if request.mm_features:
            self.encoder_cache_manager.free(request)
        request.status = RequestStatus.PREEMPTED
        request.num_computed_tokens = 0
        request.spec_token_ids = []
        if self.num_spec_tokens and self.semantics.rejections_keep_to_their_run:
            num_drafts = request.num_draft_placeholders
            request.num_earlier_outputs = request.num_output_placeholders - num_drafts
        request.num_preemptions += 1
        if self._filling is not None:
            self._filling.discard(request)
        if self._awaits_output:
            later.outdate(request, drop_stale_output)
        if self.log_stats:
            request.record_event(EngineCoreEventType.PREEMPTED, timestamp)
        self.waiting.prepend_request(request)

    def _preempt_and_drop(self, request: Request, timestamp: float) -> None:
        """Preempt a request whose output in flight is worth nothing. vLLM 0.22.1 does not tell the
        method that, and an override of it takes no such argument.
        """
        if self._awaits_output:
            self._preempt_request(request, timestamp, drop_stale_output=True)
        else:
            self._preempt_request(request, timestamp)

    def _free_blocks(self, request: Request) -> None:
        """Give a finished request's blocks back, and forget it."""
        assert request.is_finished()
        self._free_request_blocks(request)
        del self.requests[request.request_id]

    def _free_request_blocks(self, request: Request) -> None:
        """Give a request's blocks back, or once the steps in flight have come that compute it."""
        if self.defer_block_free:
            self.deferred_frees.free(request)
        else:
            self.kv_cache_manager.free(request)


def _refuse_out_of_scope(vllm_config: Any, log_stats: bool) -> None:
    """Refuse every configuration that would need a rule which is not here."""
    observability = vllm_config.observability_config
    refuse("encoder connectors", vllm_config.ec_transfer_config is not None)
    refuse("routed experts", vllm_config.model_config.enable_return_routed_experts)
    refuse("KV cache metrics", observability.kv_cache_metrics)
    refuse("metrics of a model's work", log_stats and observability.enable_mfu_metrics)


def _refuse_parallel(parallel: Any, kv_cache_config: KVCacheConfig, semantics: Semantics) -> None:
    """Refuse context parallelism but of one group of full attention: vLLM 0.22.1 raises when it is
    built or looks the first prefix up. Later releases divide some kinds of layers and not others,
    and none among the ranks of prefill.
    """
    num_of_prefill = parallel.prefill_context_parallel_size
    specs = [group.kv_cache_spec for group in kv_cache_config.kv_cache_groups]
    is_plain = len(specs) == 1 and isinstance(specs[0], FullAttentionSpec)
    is_plain = is_plain and not isinstance(specs[0], SinkFullAttentionSpec)
    what = "context parallelism beside anything but one group of full attention"
    refuse(what, parallel.decode_context_parallel_size * num_of_prefill != 1 and not is_plain)
    what = "prefill context parallelism in a later line"
    refuse(what, num_of_prefill != 1 and semantics.resumes_await_output)


def _refuse_other_mode(vllm_config: Any, async_scheduling: bool) -> None:
    """Refuse a configuration for the other class: half of the rules would be missing."""
    wanted = bool(vllm_config.scheduler_config.async_scheduling)
    refuse("asynchronous scheduling in Scheduler (use AsyncScheduler)", wanted > async_scheduling)
    refuse("synchronous scheduling in AsyncScheduler (use Scheduler)", wanted < async_scheduling)
