"""The first record of a trace: which engine, its constants, what is observed."""

from math import lcm
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from nullblock.conformance.repetition import FEATURE
from nullblock.conformance.trace.base import Count, Digest, Int, Line, Observation, Piece, Positive
from nullblock.conformance.trace.encoder import Encoder
from nullblock.conformance.trace.remote import Connector
from nullblock.conformance.trace.sessions import RESUMABLE


class EngineInfo(Piece, frozen=True, kw_only=True):
    """Which engine decided."""

    name: str
    version: str
    commit: str | UnsetType = UNSET
    scheduler: str | UnsetType = UNSET
    """The class that decides, with its module."""


class CacheGroup(Piece, frozen=True, kw_only=True):
    """A KV cache group: what its layers see, all that is before a token if neither is set."""

    sliding_window: Count = 0
    """A token sees so many, itself among them; 0: no window."""
    attention_chunk_size: Count = 0
    """A token sees those of its chunk; 0: no chunks."""
    eagle: bool = False
    """Some of its layers are an EAGLE-like method's: of several kinds of layers these drop their
    last hit. If no group says so, and such a method is configured, all do."""
    mla: bool = False
    """They are latent attention, which is scheduled as other layers that see as much."""
    block_size: Count = 0
    """Tokens a block of it; 0: as many as the configuration says."""
    mamba: Literal["none", "all", "align"] | UnsetType = UNSET
    """They are Mamba layers, and which of their states are kept to be hit."""
    num_speculative_blocks: Count = 0
    """Of Mamba layers: states beside the one at hand, for drafts."""
    prefill_checkpoint_alignment: Count = 0
    """Of Mamba layers in the mode `align`: a step may keep a state within it, too, so many tokens
    from its begin or a multiple of that; 0: it may not."""
    cross_attention: bool = False
    """They see what an encoder makes of a request's items, and no token: a request has blocks for
    all of that from its first step on."""
    sink_len: Count = 0
    """They see all before a token and, besides, so many tokens of nobody's, which are in blocks of
    their own that no request gets: the first ones of the pool, group by group."""

    @property
    def is_windowed(self) -> bool:
        """Whether a token sees only a part of the past."""
        return self.sliding_window > 0 or self.attention_chunk_size > 0

    def __post_init__(self) -> None:
        kinds = (self.sliding_window, self.attention_chunk_size, self.mamba is not UNSET)
        if sum(map(bool, kinds)) > 1:
            raise ValueError("a window, chunks and Mamba: layers have one of them")
        if self.num_speculative_blocks and self.mamba is UNSET:
            raise ValueError("states for drafts of layers that are no Mamba layers")
        if self.prefill_checkpoint_alignment and self.mamba != "align":
            raise ValueError(
                "states within steps of layers that are not Mamba's in the mode align"
            )
        if self.mla and (self.attention_chunk_size or self.mamba is not UNSET):
            raise ValueError("latent attention in chunks, or of Mamba: there are no such layers")
        if self.cross_attention and (self.mla or any(kinds)):
            raise ValueError("cross-attention sees no tokens: there are no such layers")
        if self.sink_len and (self.mla or self.cross_attention or any(kinds)):
            raise ValueError("sinks beside anything but full attention: there are no such layers")


class TraceConfig(Piece, frozen=True, kw_only=True):
    """The constants that decisions depend on, as vLLM names them, resolved: nothing is implied."""

    block_size: Positive
    """Tokens that a chain number is for, and a block has whose group does not say otherwise."""
    num_blocks: Positive
    """Blocks of the pool, the null block included."""
    max_num_scheduled_tokens: Count
    """Token budget of a step; 0: nobody is scheduled, as lines after vllm-0.22.1 take a setting
    of 0.
    """
    max_num_seqs: Positive
    max_model_len: Positive
    long_prefill_token_threshold: Int
    """Not positive: no threshold."""
    enable_chunked_prefill: bool
    enable_prefix_caching: bool
    scheduler_reserve_full_isl: bool
    policy: Literal["fcfs", "priority"]
    async_scheduling: bool = False
    """A request is scheduled again before its last token is known."""
    watermark_blocks: Count = 0
    """Kept free when somebody is admitted while others run: lines after vllm-0.22.1."""
    pipeline_parallel_size: Positive = 1
    """More than one: several steps are in flight, whichever way they are scheduled. In lines after
    vllm-0.22.1 so many are from one token of a request to its next, where the second model runner
    is scheduled ahead."""
    num_spec_tokens: Count = 0
    """Drafts that a step may verify of one request; 0: no speculative decoding."""
    spec_method: Literal["ngram", "eagle", "draft_model"] = "ngram"
    """What proposes them, as far as it matters. ``ngram``: something that needs no slots in the
    cache; ``draft_model``: something that needs one for each; ``eagle``: that too, and the last
    hit of a prefix lookup is computed again."""
    eagle_group: bool = False
    """The last hit is computed again, whatever proposes drafts. Of one group; several have their
    own ``eagle``."""
    groups: list[CacheGroup] = msgspec.field(default_factory=list)
    """In the engine's order; none: one of full attention."""
    max_loras: Count = 0
    """Different adapters that may compute in a step; 0: no cap."""
    encoder: Encoder | UnsetType = UNSET
    """Absent: the model has none."""
    max_num_batched_tokens: Count = 0
    """What the admission of windows and chunks reckons with as a step and, in lines after
    vllm-0.22.1, where a draft model takes its places; 0: the token budget."""
    connector: Connector | UnsetType = UNSET
    """Absent: there is no KV connector."""
    max_concurrent_batches: Positive = 1
    """Steps in flight that the admission of windows and chunks reckons with, in lines after
    vllm-0.22.1."""
    use_v2_model_runner: bool = False
    """Workers run the second model runner: whoever is resumed is new to it."""
    mamba_split: Count = 0
    """Tokens in a block at whose ends the steps of a prefill end, where some Mamba layers keep
    only the state that a step ends with; 0: they end anywhere."""

    runner_type: Literal["generate", "pooling"] = "generate"
    """What the model makes: tokens, or vectors and no tokens, for which a step leaves no place in
    lines after vllm-0.22.1."""

    def __post_init__(self) -> None:
        own = [group.block_size for group in self.groups if group.block_size]
        if own and len(self.groups) == 1:
            raise ValueError("a block size of the only group: it has the configuration's")
        if self.enable_prefix_caching and any(size % self.block_size for size in own):
            raise ValueError("blocks that end within what a chain number is for")
        if any(group.sink_len % self.size_of(group) for group in self.groups):
            raise ValueError("a sink that ends within a block")
        if self.sink_blocks >= self.num_blocks:
            raise ValueError("sinks of more blocks than the pool has")

    def size_of(self, group: CacheGroup) -> int:
        """Tokens in a block of a group."""
        return group.block_size or self.block_size

    @property
    def sink_blocks(self) -> int:
        """Blocks that no request ever gets."""
        return sum(group.sink_len // self.size_of(group) for group in self.groups)

    @property
    def hit_unit(self) -> int:
        """Tokens in a prefix hit: it is a multiple of the sizes of all groups' blocks."""
        sizes = map(self.size_of, self.groups)
        return lcm(*sizes) if self.groups else self.block_size

    @property
    def is_plain(self) -> bool:
        """Whether there is one group of layers alone, which see all before a token."""
        return len(self.groups) < 2 and not any(
            group.is_windowed or group.mamba is not UNSET or group.cross_attention
            for group in self.groups
        )

    @property
    def is_encoder_decoder(self) -> bool:
        """Whether the model is an encoder-decoder model."""
        return self.encoder is not UNSET and self.encoder.is_encoder_decoder

    @property
    def loads_items(self) -> bool:
        """Whether there is an encoder connector."""
        return self.encoder is not UNSET and self.encoder.ec_connector

    @property
    def has_eagle_groups(self) -> bool:
        """Whether groups are told to have layers of an EAGLE-like method."""
        return any(group.eagle for group in self.groups)

    @property
    def is_eagle(self) -> bool:
        """Whether last hits are computed again, whatever tells of it."""
        proposes = self.num_spec_tokens > 0 and self.spec_method == "eagle"
        return proposes or self.eagle_group or self.has_eagle_groups


SINCE = {
    **dict.fromkeys(("num_spec_tokens", "spec_method", "eagle_group"), "1.2"),
    **dict.fromkeys(("groups", "max_num_batched_tokens", "max_loras", "encoder"), "1.3"),
    **dict.fromkeys(("connector", "max_concurrent_batches"), "1.4"),
    **dict.fromkeys(("use_v2_model_runner", "mamba_split"), "1.5"),
    "runner_type": "1.8",
}
"""The version of the format in which a constant is new, of those that 1.1 does not have."""
GRAMMARS_SINCE, SESSIONS_SINCE, CHUNKS_SINCE = "1.3", "1.4", "1.7"
OF_GROUPS_SINCE = {
    "eagle": "1.4",
    **dict.fromkeys(("mla", "block_size", "mamba", "num_speculative_blocks"), "1.5"),
    **dict.fromkeys(("cross_attention", "sink_len"), "1.6"),
    "prefill_checkpoint_alignment": "1.8",
}
OF_ENCODER_SINCE = dict.fromkeys(("is_encoder_decoder", "ec_connector"), "1.6")
"""The same of what is told of a group, and of the encoder."""


def sessions_since(config: TraceConfig) -> str:
    """The version that has words for sessions of an engine: chunks may have encoder inputs."""
    return SESSIONS_SINCE if config.encoder is UNSET else CHUNKS_SINCE


def least_version(config: TraceConfig) -> str:
    """The version that a trace of such an engine says: readers of that version can read it."""
    told = msgspec.to_builtins(config)
    of_groups = {name for group in told.get("groups", ()) for name in group}
    found = {since for name, since in SINCE.items() if name in told}
    found |= {since for name, since in OF_GROUPS_SINCE.items() if name in of_groups}
    of_encoder = told.get("encoder", ())
    found |= {since for name, since in OF_ENCODER_SINCE.items() if name in of_encoder}
    return max(found, default="1.1")


def kind_of(group: CacheGroup) -> str | None:
    """The feature that the words of a group tell of; None: none, it is plain full attention."""
    if group.mamba is not UNSET:
        return "kv_cache_spec:MambaSpec"
    if group.attention_chunk_size:
        return "kv_cache_spec:ChunkedLocalAttentionSpec"
    if group.sliding_window:
        return f"kv_cache_spec:SlidingWindow{'MLA' * group.mla}Spec"
    if group.cross_attention:
        return "kv_cache_spec:CrossAttentionSpec"
    if group.sink_len:
        return "kv_cache_spec:SinkFullAttentionSpec"
    return "kv_cache_spec:MLAAttentionSpec" if group.mla else None


def features_of(config: TraceConfig) -> list[str]:
    """The features that the constants tell of in full: a reader that knows the constants knows
    these, and one of an earlier version, which passes over constants, does not.
    """
    found = ["kv_cache_groups"] if len(config.groups) > 1 else []
    kinds = dict.fromkeys(map(kind_of, config.groups))
    found += [kind for kind in kinds if kind is not None]
    found += ["block_sizes"] if any(group.block_size for group in config.groups) else []
    if config.enable_prefix_caching and config.hit_unit != config.block_size:
        found.append("hash_block_size")
    found += ["eagle_group"] if config.has_eagle_groups else []
    found += ["max_loras"] if config.max_loras else []
    found += ["v2_model_runner"] if config.use_v2_model_runner else []
    found += ["pooling_model"] if config.runner_type == "pooling" else []
    found += ["encoder_decoder"] if config.is_encoder_decoder else []
    found += ["ec_connector"] if config.loads_items else []
    return found + ([] if config.connector is UNSET else ["kv_connector"])


class Observed(Piece, frozen=True, kw_only=True):
    """How much of each kind of record the trace contains. Not named: absent."""

    add: Observation = "absent"
    output: Observation = "absent"
    abort: Observation = "absent"
    pause: Observation = "absent"
    reset: Observation = "absent"
    evict: Observation = "absent"
    schedule: Observation = "absent"
    update: Observation = "absent"
    state: Observation = "absent"
    draft: Observation = "absent"
    """Needed where drafts are configured."""
    events: Observation = "absent"
    """KV events, in ``update`` records."""
    compiled: Observation = "absent"
    """When grammars are compiled; needed where requests have some."""
    chunk: Observation = "absent"
    """What sessions are sent after their arrival; needed where there are some."""
    matched: Observation = "absent"
    """What a KV connector answers; needed where there is one."""
    transfers: Observation = "absent"
    """What workers report of loads and sends; needed where there is a KV connector."""
    feature: Observation = "absent"
    """What decides between steps and no other record tells."""


class Header(Line, frozen=True, kw_only=True, tag="header"):
    """The first record of a trace, and of every part of a recording."""

    format: Literal["nullblock-trace"]
    version: Annotated[str, Meta(pattern=r"^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$")]
    spec: str
    """The profile that the engine's release follows."""
    engine: EngineInfo
    config: TraceConfig
    config_sha256: Digest | UnsetType = UNSET
    """Of ``config`` as canonical JSON: sorted keys, no spaces."""
    features: list[str] = msgspec.field(default_factory=list)
    """Whatever is switched on that decisions depend on and that ``config`` does not say."""
    observed: Observed
    block_ids: Literal["exact", "opaque", "absent"]
    """Exact: the engine's own. Opaque: renamed one to one. Absent: none are recorded."""
    start: Literal["empty", "unknown"]
    """Empty: no request, every block free in order of id, nothing cached. Unknown: recording
    begins in the middle; a ``state`` record says where."""
    recording: str | UnsetType = UNSET
    """Tells the parts of one recording from those of another."""
    part: Positive = 1
    """Which file of the recording this is."""
    data_parallel_rank: Count = 0
    """Which of several engines side by side."""
    writer: str | UnsetType = UNSET
    sealed: bool = False
    """The file ends with an ``end`` record; without it, it was cut."""

    @property
    def unknown_features(self) -> list[str]:
        """Those of its features that its constants do not tell of."""
        known = features_of(self.config)
        return [name for name in self.features if name not in known]

    @property
    def features_of_requests(self) -> frozenset[str]:
        """Those of requests that other records tell of in full."""
        found = {"structured_output"} if self.observed.compiled == "complete" else set()
        found |= {RESUMABLE} if self.observed.chunk == "complete" else set()
        found |= {"pooling", "prompt_embeds"}  # what comes is counted, and content is in numbers
        found |= {FEATURE}  # its ends are told
        found |= set() if self.config.connector is UNSET else {"kv_transfer"}
        return frozenset(found | (set() if self.config.encoder is UNSET else {"multimodal"}))
