"""The scenario format: a configuration and a list of events, as types.

Keys, types and defaults are those of the driver of the real engine (``tests/oracle/drive.py``).
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from nullblock.conformance.encoder_format import Encoder, Item, PromptEmbeds
from nullblock.conformance.prompts import Prompt
from nullblock.conformance.repetition import Cycle, Repetition

MAX_STEPS = 1_000_000
"""Steps that a scenario may take."""
MAX_BLOCKS = 2**20
"""Blocks that a pool may have: each is an object with a line in every full dump."""

MAX_DRAFTS = 2**16
"""Drafts that a request may get at once."""

AtLeast0 = Annotated[int, Meta(ge=0)]
AtLeast1 = Annotated[int, Meta(ge=1)]

Status = Literal[
    "WAITING",
    "WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR",
    "WAITING_FOR_REMOTE_KVS",
    "WAITING_FOR_STREAMING_REQ",
    "RUNNING",
    "PREEMPTED",
    "FINISHED_STOPPED",
    "FINISHED_LENGTH_CAPPED",
    "FINISHED_ABORTED",
    "FINISHED_IGNORED",
    "FINISHED_ERROR",
    "FINISHED_REPETITION",
]
"""Names of vLLM's ``RequestStatus``. The engine refuses an abort with one that is not finished."""


class Group(Struct, frozen=True, forbid_unknown_fields=True):
    """A KV cache group: layers that share a block table."""

    type: Literal["full", "sliding_window", "chunked_local", "mamba", "cross_attention", "sink"]
    block_size: AtLeast1 | UnsetType = UNSET
    """Unset: that of the cache."""
    sliding_window: AtLeast1 | UnsetType = UNSET
    """Tokens that a window has; a window needs it."""
    chunk: AtLeast1 | UnsetType = UNSET
    """Tokens that a chunk has; chunked local attention needs it."""
    mamba_cache_mode: Literal["none", "all", "align"] = "none"
    num_speculative_blocks: AtLeast0 = 0
    """Of Mamba: states beside the last one."""
    prefill_checkpoint_alignment: AtLeast0 = 0
    """Of Mamba in the mode `align`, in lines that know it: a step may keep a state within it, too,
    a multiple of so many tokens from its begin. 0: it may not."""
    eagle: bool = False
    """Whether the group's hits lose their last block."""
    sink_len: AtLeast0 | UnsetType = UNSET
    """Tokens in a sink's own blocks; a sink needs it."""


class Drafts(Struct, frozen=True, forbid_unknown_fields=True):
    """The drafts that follow an update; :mod:`nullblock.conformance.drafting` plays them.

    If it is written at all, update lines tell what was drafted.
    """

    length: (
        Literal["all", "none", "hash"]
        | Annotated[list[Annotated[int, Meta(ge=0, le=MAX_DRAFTS)]], Meta(min_length=1)]
    ) = "all"
    """Tokens of a proposal: ``num_spec_tokens`` of them, no proposal at all, or from 0 up to as
    many; a list says it of one proposal after another, round and round.
    """
    to: Literal["sampled", "scheduled"] = "sampled"
    """Whom they are for: requests of the step that sampled and live, or all of them."""
    fill_in: bool = False
    """They are written into the newest step in flight instead of being kept for a later one."""


class Connector(Struct, frozen=True, forbid_unknown_fields=True):
    """What a KV connector answers (:class:`nullblock.conformance.played.PlayedConnector`)."""

    matched: dict[str, int | None] = {}
    """Tokens that the remote side holds, by request id; null: it does not know yet."""
    is_async: bool | list[str] = msgspec.field(name="async", default=False)
    """Whose loads take more than a step: everybody's, nobody's, or those of some ids."""
    delay_free: bool | list[str] = False
    """Whose blocks are kept after the end, until they are sent."""
    all_groups: bool = False
    """Whether it takes the blocks of several cache groups."""
    failure_policy: Literal["recompute", "fail"] = "recompute"
    """What becomes of requests whose blocks were not loaded."""
    kv_role: Literal["kv_producer", "kv_consumer", "kv_both"] | UnsetType = UNSET
    """What it is there for; unset: both. Lines after 0.22.1 ask whether it loads."""
    requires_kv_delivery: bool = False
    """Whether what a request hands off when it ends must arrive. Lines after 0.22.1 ask."""


class Grammar(Struct, frozen=True, forbid_unknown_fields=True):
    """A grammar as it is played (:class:`nullblock.conformance.played.PlayedGrammar`)."""

    ready: bool = True
    """Whether it is compiled on arrival; else ``grammar_ready`` says when."""
    rejects: list[int] = []
    """Tokens that it rejects."""
    reject_at: AtLeast0 | None = None
    """The number of a token that it rejects, of those that it sees; 0 is the first."""
    after: AtLeast0 = 0
    """How many outputs come before it sees any."""


class Config(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The engine's configuration and the driver's model. Sizes are tokens, blocks or requests."""

    block_size: AtLeast1 = 16
    num_blocks: Annotated[int, Meta(ge=1, le=MAX_BLOCKS)] = 64
    """The null block included."""
    max_num_batched_tokens: AtLeast1 = 64
    max_num_scheduled_tokens: AtLeast0 | None = None
    """None and 0: ``max_num_batched_tokens``."""
    max_num_seqs: AtLeast1 = 8
    max_model_len: AtLeast1 = 256
    long_prefill_token_threshold: int = 0
    """Not positive: none."""
    enable_chunked_prefill: bool = True
    enable_prefix_caching: bool = True
    policy: Literal["fcfs", "priority"] = "fcfs"
    async_scheduling: bool = False
    queue_depth: int = 2
    """Steps in flight at most, where ``step`` and ``run`` take turns of the engine's batch queue;
    only asynchronous scheduling does so.
    """
    num_spec_tokens: Annotated[int, Meta(ge=0, le=MAX_DRAFTS)] = 0
    spec_method: Literal["ngram", "eagle", "draft_model"] = "ngram"
    scheduler_reserve_full_isl: bool = True
    watermark: float | int | None = None
    """0.22.1 has none: taken and ignored."""
    max_loras: AtLeast0 | None = None
    pipeline_parallel_size: AtLeast1 = 1
    use_v2_model_runner: bool = False
    hash_algo: Literal["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"] = "sha256"
    hash_seed: str | int = "0"
    hash_block_size: int | None = None
    """None: the greatest that divides all groups' blocks. With one group: taken and ignored."""
    kv_events: bool = False
    log_stats: bool = False
    groups: Annotated[list[Group], Meta(min_length=1)] = msgspec.field(
        default_factory=lambda: [Group("full")]
    )
    accept: Literal["all", "none", "hash"] | list[AtLeast0 | None] = "hash"
    """Draft tokens accepted; without drafts nobody looks at it. None: nothing is sampled, not even
    the token behind them.
    """
    drafts: Drafts | UnsetType = UNSET
    vocab: AtLeast1 = 1000
    seed: int = 0
    connector: Connector | None = None
    # What follows is left out of the header unless it was written: it came later.
    encoder: Encoder | None | UnsetType = UNSET
    """The model's encoder; without one there are no encoder inputs."""
    include_finished_set: bool | UnsetType = UNSET
    """Clients are told which of their requests have ended."""
    decode_context_parallel_size: AtLeast1 | UnsetType = UNSET
    prefill_context_parallel_size: AtLeast1 | UnsetType = UNSET
    """Ranks among which the tokens of a block are divided, in decode and in prefill; unset: 1."""
    runner_type: Literal["generate", "pooling"] | UnsetType = UNSET
    """What the model makes: tokens, if unset, or vectors and no tokens. Lines after 0.22.1 ask."""

    @property
    def makes_vectors(self) -> bool:
        """Whether the model makes vectors and no tokens."""
        return self.runner_type == "pooling"

    @property
    def dcp_world_size(self) -> int:
        """Ranks of decode context parallelism."""
        size = self.decode_context_parallel_size
        return 1 if size is UNSET else size

    @property
    def pcp_world_size(self) -> int:
        """Ranks of prefill context parallelism."""
        size = self.prefill_context_parallel_size
        return 1 if size is UNSET else size

    @property
    def context_parallel_size(self) -> int:
        """How many times the tokens of `block_size` a block of all ranks together holds."""
        return self.dcp_world_size * self.pcp_world_size

    @property
    def max_concurrent_batches(self) -> int:
        """Steps that may be in flight at once."""
        return self.queue_depth if self.async_scheduling else 1

    @property
    def loads_beside_steps(self) -> bool:
        """Whether a connector loads while several steps may be in flight."""
        overlap = self.max_concurrent_batches > 1 or self.pipeline_parallel_size > 1
        loads = self.connector is not None and self.connector.kv_role != "kv_producer"
        return overlap and loads

    @property
    def requires_kv_delivery(self) -> bool:
        """Whether a connector hands off what must arrive."""
        return self.connector is not None and self.connector.requires_kv_delivery

    @property
    def has_clients(self) -> bool:
        """Whether outputs tell several clients apart."""
        return self.include_finished_set is True


class _Event(Struct, frozen=True, forbid_unknown_fields=True, tag_field="op", kw_only=True):
    """One thing that happens to the engine."""


class Add(_Event, frozen=True, kw_only=True, tag="add"):
    """A request arrives."""

    id: str
    prompt: Prompt
    max_tokens: int = 16
    min_tokens: int = 0
    priority: int = 0
    arrival: float | UnsetType = UNSET
    """Unset: the number of requests added so far, this one included."""
    lora: str | None = None
    lora_id: int | None | UnsetType = UNSET
    """Unset: a number that follows from the adapter's name."""
    salt: str | None = None
    stop: list[int] | None = None
    eos: int | None = None
    eos_at: int | UnsetType = UNSET
    """The model samples ``eos`` from this output on (0 is the first)."""
    repetition_detection: Repetition | None = None
    cycle: Cycle | None = None
    """The model samples the same tokens over and over."""
    skip_cache_read: bool | None = None
    resumable: bool | None = None
    """A chunk of a session. While the session lives, its id takes further chunks, and an arrival
    that is not resumable ends it.
    """
    grammar: Grammar | None = None
    mm_features: list[Item] = []
    """Encoder inputs, by their place in the prompt."""
    prompt_embeds: PromptEmbeds | None = None
    pooling: bool = False
    """The request wants one vector and no token."""
    client_index: AtLeast0 = 0
    """Which front end the request is from."""


class Step(_Event, frozen=True, kw_only=True, tag="step"):
    """Whole steps: schedule and update; asynchronously, turns of the batch queue."""

    n: Annotated[int, Meta(ge=0, le=MAX_STEPS)] = 1


class Schedule(_Event, frozen=True, kw_only=True, tag="schedule"):
    """The first half of a step."""


class Update(_Event, frozen=True, kw_only=True, tag="update"):
    """The second half of the oldest step in flight."""


class Drain(_Event, frozen=True, kw_only=True, tag="drain"):
    """The second half of every step in flight."""


class Run(_Event, frozen=True, kw_only=True, tag="run"):
    """Steps until nothing is unfinished."""

    max_steps: AtLeast0 = 1000


class Abort(_Event, frozen=True, kw_only=True, tag="abort"):
    """Requests are ended from outside; ``ids`` null: all of them."""

    ids: list[str] | None
    status: Status = "FINISHED_ABORTED"


class ResetPrefixCache(_Event, frozen=True, kw_only=True, tag="reset_prefix_cache"):
    """The prefix cache is emptied."""

    reset_running: bool = False


class ResetEncoderCache(_Event, frozen=True, kw_only=True, tag="reset_encoder_cache"):
    """The encoder cache is emptied."""


class Counts(_Event, frozen=True, kw_only=True, tag="counts"):
    """The engine is asked how many requests it has work for."""


class Pause(_Event, frozen=True, kw_only=True, tag="pause"):
    """The pause state changes."""

    state: Literal["UNPAUSED", "PAUSED_NEW", "PAUSED_ALL"]


class EvictBlocks(_Event, frozen=True, kw_only=True, tag="evict_blocks"):
    """Blocks are taken out of the prefix cache."""

    ids: list[AtLeast0]


class KvDone(_Event, frozen=True, kw_only=True, tag="kv_done"):
    """Workers report with the next update, instead of what they were to report before."""

    recv: list[str] = []
    """Requests whose load has ended, well or not."""
    send: list[str] = []
    """Requests whose blocks were sent."""
    invalid: list[AtLeast0] = []
    """Blocks that were not loaded."""


class KvMatch(_Event, frozen=True, kw_only=True, tag="kv_match"):
    """The connector learns what the remote side holds; other requests stay as they were."""

    matched: dict[str, int | None]


class GrammarReady(_Event, frozen=True, kw_only=True, tag="grammar_ready"):
    """Grammars are compiled; requests without one, or gone, are ignored."""

    ids: list[str]


class Draft(_Event, frozen=True, kw_only=True, tag="draft"):
    """Drafts for requests, by id: for their next steps, or for the newest step in flight."""

    tokens: dict[str, list[int]]
    fill_in: bool = False


Event = (
    Add
    | Step
    | Schedule
    | Update
    | Drain
    | Run
    | Abort
    | ResetPrefixCache
    | ResetEncoderCache
    | Counts
    | Pause
    | EvictBlocks
    | KvDone
    | KvMatch
    | GrammarReady
    | Draft
)
EVENTS: dict[str, type[Struct]] = {
    str(kind.__struct_config__.tag): kind for kind in Event.__args__
}


class Document(Struct, forbid_unknown_fields=True):
    """A whole scenario file."""

    events: list[Event]
    config: Config = msgspec.field(default_factory=Config)
    requests: dict[str, Any] = {}
    """Taken and ignored, as the real engine's driver does."""


class Scenario(Struct, frozen=True):
    """A decoded scenario."""

    config: Config
    events: list[Event]
    written_config: dict[str, Any]
    """The configuration as the header shows it: as written, completed with the defaults."""
    ignored: list[str]
    """Keys that are part of the format and that no engine looks at."""
