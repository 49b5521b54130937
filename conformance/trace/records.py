"""The records of a trace. ``conformance/FORMAT.md`` explains them; this is what decodes them.

A trace is a list of records, one JSON object a line, each tagged by ``ev``. Fields are encoded in
the order given here and left out where they have their default. A field that may be UNSET is
optional: absent, it was not observed, and nothing is concluded from it.

Numbers stand for everything that could tell one user from another:

* a request number stands for a request id; it counts up from 0 as ids appear;
* a chain number stands for a full block and everything before it; equal numbers, equal prefixes.
"""

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

FORMAT = "nullblock-trace"
MAJOR, MINOR = 1, 0
VERSION = f"{MAJOR}.{MINOR}"

Int = Annotated[int, Meta(ge=-(2**53), le=2**53)]
"""A whole number that any JSON reader holds exactly."""
Count = Annotated[int, Meta(ge=0, le=2**53)]
Positive = Annotated[int, Meta(ge=1, le=2**53)]
RequestNumber: TypeAlias = Count
BlockId: TypeAlias = Count
Chain = tuple[Count, Positive]
"""A run of chain numbers: the first, and how many follow one another from there."""
Groups = list[list[BlockId]]
"""Block ids by KV cache group."""
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Observation = Literal["complete", "sampled", "absent"]


class _Part(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A piece of a record."""


class _Record(_Part, frozen=True, kw_only=True, tag_field="ev"):
    """A line."""


class EngineInfo(_Part, frozen=True, kw_only=True):
    """Which engine decided."""

    name: str
    version: str
    commit: str | UnsetType = UNSET
    scheduler: str | UnsetType = UNSET
    """The class that decides, with its module."""


class TraceConfig(_Part, frozen=True, kw_only=True):
    """The constants that decisions depend on, as vLLM names them, resolved: nothing is implied."""

    block_size: Positive
    """Tokens a block."""
    num_blocks: Positive
    """Blocks of the pool, the null block included."""
    max_num_scheduled_tokens: Positive
    """Token budget of a step."""
    max_num_seqs: Positive
    max_model_len: Positive
    long_prefill_token_threshold: Int
    """Not positive: no threshold."""
    enable_chunked_prefill: bool
    enable_prefix_caching: bool
    scheduler_reserve_full_isl: bool
    policy: Literal["fcfs", "priority"]


class Observed(_Part, frozen=True, kw_only=True):
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


class Header(_Record, frozen=True, kw_only=True, tag="header"):
    """The first record."""

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
    """Empty: no request, every block free in order of id, nothing cached."""
    recording: str | UnsetType = UNSET
    """Tells the parts of one recording from those of another."""
    writer: str | UnsetType = UNSET
    sealed: bool = False
    """The trace ends with an ``end`` record; without it, it was cut."""


class Part(_Record, frozen=True, kw_only=True, tag="part"):
    """The first record of every file of a recording but the first."""

    number: Annotated[int, Meta(ge=2, le=2**53)]
    recording: str


class Add(_Record, frozen=True, kw_only=True, tag="add"):
    """Input: a request arrives."""

    id: RequestNumber
    prompt: Count
    """Tokens."""
    max_tokens: Positive
    min_tokens: Count = 0
    priority: Int = 0
    arrival: float | UnsetType = UNSET
    """Seconds from any origin; only the order counts, and only for the PRIORITY policy."""
    tie: float | UnsetType = UNSET
    """Orders requests of one priority and arrival, as their ids do. Absent: 0."""
    skip_reading_prefix_cache: bool = False
    chain: list[Chain] | UnsetType = UNSET
    """Chain numbers of the prompt's full blocks, in order."""
    features: list[str] = msgspec.field(default_factory=list)
    """What decisions about this request depend on besides."""
    name: str | UnsetType = UNSET
    """The request's own id. Recorders leave it out unless they are asked to tell."""


class Abort(_Record, frozen=True, kw_only=True, tag="abort"):
    """Input: requests are ended from outside. Decision: which of them were alive."""

    asked: list[RequestNumber] | None
    """None: everybody. Ids that the recorder never saw are left out."""
    status: str
    """The ``RequestStatus`` that they get."""
    aborted: list[RequestNumber] | UnsetType = UNSET
    """In the order in which they gave up their blocks."""
    state: "PostState | UnsetType" = UNSET


class Pause(_Record, frozen=True, kw_only=True, tag="pause"):
    """Input: how much may be scheduled from now on."""

    pause_state: Literal["UNPAUSED", "PAUSED_NEW", "PAUSED_ALL"]


class Reset(_Record, frozen=True, kw_only=True, tag="reset"):
    """Input: the prefix cache is to be emptied. Decision: whether it was."""

    reset_running: bool = False
    ok: bool | UnsetType = UNSET
    state: "PostState | UnsetType" = UNSET


class Evict(_Record, frozen=True, kw_only=True, tag="evict"):
    """Input: blocks are taken out of the prefix cache."""

    blocks: list[BlockId]


class PostState(_Part, frozen=True, kw_only=True):
    """Part of the engine's state after the decision that carries it."""

    num_free: Count | UnsetType = UNSET
    """Blocks in the free queue."""
    num_running: Count | UnsetType = UNSET
    num_waiting: Count | UnsetType = UNSET
    running: list[RequestNumber] | UnsetType = UNSET
    """The running list, in its order."""
    waiting: list[RequestNumber] | UnsetType = UNSET
    """The waiting queue, next one first."""


class NewRequest(_Part, frozen=True, kw_only=True):
    """A request that the worker has not seen."""

    id: RequestNumber
    computed: Int
    """Tokens that a prefix hit covers."""
    blocks: Groups | UnsetType = UNSET
    """Its whole block table."""


class CachedRequests(_Part, frozen=True, kw_only=True):
    """Requests that the worker knows; the first three lists run in parallel."""

    ids: list[RequestNumber]
    """Running ones in schedule order, then resumed ones."""
    computed: list[Int] | UnsetType = UNSET
    """Tokens computed before this step."""
    num_output: list[Count] | UnsetType = UNSET
    """Output tokens so far."""
    blocks: list[tuple[RequestNumber, Groups]] | UnsetType = UNSET
    """Blocks added in this step, of those that got any; of a resumed one the whole table."""
    resumed: list[RequestNumber] = msgspec.field(default_factory=list)
    all_tokens: list[tuple[RequestNumber, Count]] | UnsetType = UNSET
    """How many tokens are sent again, of those that were not scheduled in the step before."""

    def __post_init__(self) -> None:
        for name in ("computed", "num_output"):
            values = getattr(self, name)
            if values is not UNSET and len(values) != len(self.ids):
                raise ValueError(f"`{name}` and `ids` differ in length")


class Schedule(_Record, frozen=True, kw_only=True, tag="schedule"):
    """Decision: one call of ``schedule()``."""

    step: Positive
    ids: list[RequestNumber]
    """Who is scheduled, in schedule order."""
    tokens: list[Int]
    """Tokens each of them is to compute, in parallel to ``ids``."""
    new: list[NewRequest] = msgspec.field(default_factory=list)
    cached: CachedRequests | UnsetType = UNSET
    preempted: list[RequestNumber] = msgspec.field(default_factory=list)
    """In order of number; the decision is the set."""
    finished: list[RequestNumber] = msgspec.field(default_factory=list)
    """Those that ended since the step before, in order of number."""
    common_prefix: list[Count] | UnsetType = UNSET
    """``num_common_prefix_blocks``, by KV cache group."""
    state: PostState | UnsetType = UNSET

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.ids):
            raise ValueError("`tokens` and `ids` differ in length")


class Output(_Record, frozen=True, kw_only=True, tag="output"):
    """Input: what the model sampled in the oldest step in flight."""

    step: Positive
    ids: list[RequestNumber]
    """In schedule order."""
    counts: list[Count]
    """Tokens sampled, in parallel to ``ids``; 0 for a chunk that is not the prompt's last."""
    eos: list[tuple[RequestNumber, Count]] = msgspec.field(default_factory=list)
    """Which tokens end their request as eos: request, place in its frame from 0."""
    stop: list[tuple[RequestNumber, Count]] = msgspec.field(default_factory=list)
    """Which tokens are stop ids of their request and not its eos."""
    chain: list[tuple[RequestNumber, Count]] | UnsetType = UNSET
    """Chain number of each block that these tokens fill, in order for each request."""

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.ids):
            raise ValueError("`counts` and `ids` differ in length")


class Finish(_Part, frozen=True, kw_only=True):
    """The end of a request."""

    id: RequestNumber
    reason: str
    """stop, length, abort, error, repetition, rejected."""
    by_stop_id: bool = False
    """It stopped on a stop id, which is then reported."""
    why: str | UnsetType = UNSET
    """Of a rejection."""


class Update(_Record, frozen=True, kw_only=True, tag="update"):
    """Decision: one call of ``update_from_output()``, on the ``output`` just before."""

    step: Positive
    ids: list[RequestNumber]
    """Whose output is passed on, in that order."""
    tokens: list[Count]
    """How many tokens of it, in parallel to ``ids``."""
    finish: list[Finish] = msgspec.field(default_factory=list)
    state: PostState | UnsetType = UNSET

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.ids):
            raise ValueError("`tokens` and `ids` differ in length")


class RequestState(_Part, frozen=True, kw_only=True):
    """One request inside a ``state`` record."""

    id: RequestNumber
    status: str
    computed: Int
    tokens: Count
    """Prompt and output."""
    blocks: Groups | UnsetType = UNSET


class State(_Record, frozen=True, kw_only=True, tag="state"):
    """Observation: the whole state after the record before."""

    step: Count
    """Steps scheduled so far."""
    running: list[RequestNumber]
    waiting: list[RequestNumber]
    requests: list[RequestState]
    free_queue: list[BlockId] | UnsetType = UNSET
    """Next one to be given out first."""
    ref_cnt: list[tuple[BlockId, Int]] | UnsetType = UNSET
    """Of the blocks where it is not 0."""
    chains: list[tuple[BlockId, Count]] | UnsetType = UNSET
    """Chain number that each block carries in the prefix cache."""


class Error(_Record, frozen=True, kw_only=True, tag="error"):
    """Observation: the engine raised instead of deciding."""

    during: str
    """The kind of record that would stand here."""
    type: str
    """Name of the exception's class."""


class Lost(_Record, frozen=True, kw_only=True, tag="lost"):
    """The recorder gave up here; what came after was not observed."""

    reason: str


class End(_Record, frozen=True, kw_only=True, tag="end"):
    """The last record."""

    steps: Count
    """``schedule`` records before it."""
    records: Count
    """Lines before it, in all parts."""
    sha256: Digest | UnsetType = UNSET
    """Of all bytes before it, decompressed, in all parts."""


Record = (
    Header
    | Part
    | Add
    | Abort
    | Pause
    | Reset
    | Evict
    | Schedule
    | Output
    | Update
    | State
    | Error
    | Lost
    | End
)
KINDS: dict[str, type[Struct]] = {str(k.__struct_config__.tag): k for k in Record.__args__}
