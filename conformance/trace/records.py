"""The records of a trace. ``conformance/FORMAT.md`` explains them; this is what decodes them.

A trace is a list of records, one JSON object a line, each tagged by ``ev``. Fields are encoded in
the order given here and left out where they have their default. A field that may be UNSET is
optional: absent, it was not observed, and nothing is concluded from it.

Numbers stand for everything that could tell one user from another:

* a request number stands for a request id; it counts up from 0 as ids appear;
* a chain number stands for a full block and everything before it; equal numbers, equal prefixes.
"""

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from nullblock.conformance.trace.base import (
    BlockId,
    Chain,
    Count,
    Digest,
    Groups,
    Int,
    Least,
    Limit,
    Line,
    Piece,
    Positive,
    Rank,
    RequestNumber,
)
from nullblock.conformance.trace.drafts import Draft, Drafted
from nullblock.conformance.trace.encoder import Answers, Encoder, EncoderCache, Inputs, Item
from nullblock.conformance.trace.encoder import ResetEncoderCache as ResetEncoderCache
from nullblock.conformance.trace.header import (
    CacheGroup,
    EngineInfo,
    Header,
    Observed,
    TraceConfig,
)
from nullblock.conformance.trace.inputs import Compiled, Evict, Feature, Pause
from nullblock.conformance.trace.remote import (
    Answer,
    Connector,
    Kept,
    Matched,
    RemoteState,
    Transfers,
)
from nullblock.conformance.trace.sessions import Chunk, SessionEnd, Taken, Turn
from nullblock.conformance.trace.snapshot import RequestState, State, StepInFlight

FORMAT = "nullblock-trace"
MAJOR, MINOR = 1, 8
VERSION = f"{MAJOR}.{MINOR}"

__all__ = [
    "Answer",
    "BlockId",
    "CacheGroup",
    "Chain",
    "Chunk",
    "Compiled",
    "Connector",
    "Count",
    "Draft",
    "Drafted",
    "Encoder",
    "EncoderCache",
    "EngineInfo",
    "Evict",
    "Feature",
    "Groups",
    "Header",
    "Item",
    "Kept",
    "Matched",
    "Observed",
    "Pause",
    "RemoteState",
    "RequestNumber",
    "RequestState",
    "ResetEncoderCache",
    "SessionEnd",
    "State",
    "StepInFlight",
    "Taken",
    "TraceConfig",
    "Transfers",
    "Turn",
]


class Part(Line, frozen=True, kw_only=True, tag="part"):
    """The first record of every file of a recording but the first, in format 1.0.

    Files of 1.1 each start with a header of their own; a reader that goes through several shows
    this in place of all headers but the first.
    """

    number: Annotated[int, Meta(ge=2, le=2**53)]
    recording: str


class Add(Line, frozen=True, kw_only=True, tag="add"):
    """Input: a request arrives."""

    id: RequestNumber
    prompt: Count
    """Tokens."""
    max_tokens: Limit
    min_tokens: Least = 0
    priority: Rank = 0
    arrival: float | UnsetType = UNSET
    """Seconds from any origin; only the order counts, and only for the PRIORITY policy."""
    tie: float | UnsetType = UNSET
    """Orders requests of one priority and arrival, as their ids do. Absent: 0."""
    skip_reading_prefix_cache: bool = False
    chain: list[Chain] | UnsetType = UNSET
    """Chain numbers of the prompt's full blocks, in order."""
    features: list[str] = msgspec.field(default_factory=list)
    """What decisions about this request depend on besides."""
    adapter: Count = 0
    """The number that stands for its adapter, from 1, where their number is capped; 0: none."""
    items: list[Item] = msgspec.field(default_factory=list)
    """Its encoder inputs, in the order of the prompt."""
    name: str | UnsetType = UNSET
    """The request's own id. Recorders leave it out unless they are asked to tell."""


class Abort(Line, frozen=True, kw_only=True, tag="abort"):
    """Input: requests are ended from outside. Decision: which of them were alive."""

    asked: list[RequestNumber] | None
    """None: everybody. Ids that the recorder never saw are left out."""
    status: str
    """The ``RequestStatus`` that they get."""
    aborted: list[RequestNumber] | UnsetType = UNSET
    """In the order in which they gave up their blocks."""
    state: "PostState | UnsetType" = UNSET


class Reset(Line, frozen=True, kw_only=True, tag="reset"):
    """Input: the prefix cache is to be emptied. Decision: whether it was."""

    reset_running: bool = False
    ok: bool | UnsetType = UNSET
    state: "PostState | UnsetType" = UNSET


class PostState(Piece, frozen=True, kw_only=True):
    """Part of the engine's state after the decision that carries it."""

    num_free: Count | UnsetType = UNSET
    """Blocks in the free queue."""
    num_running: Count | UnsetType = UNSET
    num_waiting: Count | UnsetType = UNSET
    running: list[RequestNumber] | UnsetType = UNSET
    """The running list, in its order."""
    waiting: list[RequestNumber] | UnsetType = UNSET
    """The waiting queue, next one first."""


class NewRequest(Piece, frozen=True, kw_only=True):
    """A request that the worker has not seen."""

    id: RequestNumber
    computed: Int
    """Tokens that a prefix hit covers."""
    blocks: Groups | UnsetType = UNSET
    """Its whole block table."""
    prefill: Count | UnsetType = UNSET
    """How many tokens are sent besides the prompt's own, to the second model runner."""


class CachedRequests(Piece, frozen=True, kw_only=True):
    """Requests that the worker knows; the first three lists run in parallel."""

    ids: list[RequestNumber]
    """Running ones in schedule order, then resumed ones."""
    computed: list[Int] | UnsetType = UNSET
    """Tokens computed before this step."""
    num_output: list[Int] | UnsetType = UNSET
    """Output tokens so far, and in flight, of which vllm-0.22.1 may count less than none."""
    blocks: list[tuple[RequestNumber, Groups]] | UnsetType = UNSET
    """Blocks added in this step, of those that got any; of a resumed one the whole table."""
    resumed: list[RequestNumber] = msgspec.field(default_factory=list)
    all_tokens: list[tuple[RequestNumber, Count]] | UnsetType = UNSET
    """How many tokens are sent again, of those that were not scheduled in the step before."""

    def __post_init__(self) -> None:
        many, computed, outputs = len(self.ids), self.computed, self.num_output
        if computed is not UNSET and len(computed) != many:
            raise ValueError("`computed` and `ids` differ in length")
        if outputs is not UNSET and len(outputs) != many:
            raise ValueError("`num_output` and `ids` differ in length")


class Schedule(Line, frozen=True, kw_only=True, tag="schedule"):
    """Decision: one call of ``schedule()``."""

    step: Positive
    ids: list[RequestNumber]
    """Who is scheduled, in schedule order."""
    tokens: list[Int]
    """Tokens each of them is to compute, in parallel to ``ids``."""
    drafts: Drafted = msgspec.field(default_factory=list)
    """How many of these are drafts, in schedule order, of those that have some."""
    new: list[NewRequest] = msgspec.field(default_factory=list)
    cached: CachedRequests | UnsetType = UNSET
    preempted: list[RequestNumber] = msgspec.field(default_factory=list)
    """In order of number; the decision is the set."""
    finished: list[RequestNumber] = msgspec.field(default_factory=list)
    """Those that ended since the step before, in order of number."""
    common_prefix: list[Count] | UnsetType = UNSET
    """``num_common_prefix_blocks``, by KV cache group."""
    encoder_inputs: Inputs = msgspec.field(default_factory=list)
    """Items that it computes, in schedule order."""
    evicted_items: list[Positive] = msgspec.field(default_factory=list)
    """Items that workers forget before it (``free_encoder_mm_hashes``)."""
    item_answers: Answers = msgspec.field(default_factory=list)
    """Input: what the encoder connector answers in it."""
    connector_items: Inputs = msgspec.field(default_factory=list)
    """Items of which the encoder connector is told that they have room, in that order."""
    zeroed: list[BlockId] = msgspec.field(default_factory=list)
    """Beside Mamba layers: blocks that workers zero before it (``new_block_ids_to_zero``)."""
    state: PostState | UnsetType = UNSET

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.ids):
            raise ValueError("`tokens` and `ids` differ in length")


class Output(Line, frozen=True, kw_only=True, tag="output"):
    """Input: what the model sampled in the oldest step in flight."""

    step: Positive
    ids: list[RequestNumber]
    """In schedule order."""
    counts: list[Count]
    """Tokens sampled, in parallel to ``ids``: 0 for a chunk that is not the prompt's last, more
    than 1 where the model agrees with drafts, 1 where a vector comes."""
    eos: list[tuple[RequestNumber, Count]] = msgspec.field(default_factory=list)
    """Which tokens end their request as eos: request, place in its frame from 0."""
    stop: list[tuple[RequestNumber, Count]] = msgspec.field(default_factory=list)
    """Which tokens are stop ids of their request and not its eos."""
    rejected: list[tuple[RequestNumber, Count]] = msgspec.field(default_factory=list)
    """Whose grammar rejects what it takes of these tokens, whatever they are besides, and the
    place of the last that it takes."""
    chain: list[tuple[RequestNumber, Count]] | UnsetType = UNSET
    """Chain number of each block that these tokens fill, in order for each request."""

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.ids):
            raise ValueError("`counts` and `ids` differ in length")


class Finish(Piece, frozen=True, kw_only=True):
    """The end of a request."""

    id: RequestNumber
    reason: str
    """stop, length, abort, error, repetition, rejected."""
    by_stop_id: bool = False
    """It stopped on a stop id, which is then reported."""
    why: str | UnsetType = UNSET
    """Of a rejection."""


class Stored(Piece, frozen=True, kw_only=True, tag_field="t", tag="stored"):
    """KV event: blocks entered the prefix cache, one after another in one request."""

    chain: list[Chain]
    """Chain numbers of the blocks."""
    parent: Count | None = None
    """Chain number of the block before the first; none where a sequence begins."""
    tokens: Count
    """Tokens that the event names: those of all its blocks."""
    group: Count = 0
    """KV cache group."""
    kind: str | UnsetType = UNSET
    """What its layers are, as the engine calls them (``kv_cache_spec_kind``)."""
    window: Count | UnsetType = UNSET
    """Their window, in tokens (``kv_cache_spec_sliding_window``); 0: none."""


class Removed(Piece, frozen=True, kw_only=True, tag_field="t", tag="removed"):
    """KV event: a block left the prefix cache; one event for each copy."""

    chain: list[Count]
    group: Count = 0


class Cleared(Piece, frozen=True, kw_only=True, tag_field="t", tag="cleared"):
    """KV event: the prefix cache was emptied."""


Event = Stored | Removed | Cleared


class Update(Line, frozen=True, kw_only=True, tag="update"):
    """Decision: one call of ``update_from_output()``, on the ``output`` just before."""

    step: Positive
    ids: list[RequestNumber]
    """Whose output is passed on, in that order."""
    tokens: list[Count]
    """How many tokens of it, in parallel to ``ids``."""
    finish: list[Finish] = msgspec.field(default_factory=list)
    turns: list[Turn] = msgspec.field(default_factory=list)
    """Those of them that are sessions and go on."""
    events: list[Event] | UnsetType = UNSET
    """KV events published with it, in order: of everything since the update before."""
    state: PostState | UnsetType = UNSET

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.ids):
            raise ValueError("`tokens` and `ids` differ in length")


class Error(Line, frozen=True, kw_only=True, tag="error"):
    """Observation: the engine raised instead of deciding."""

    during: str
    """The kind of record that would stand here."""
    type: str
    """Name of the exception's class."""
    reset_running: bool | UnsetType = UNSET
    """Of a reset that raised: what it was asked, as in ``reset``."""


class Lost(Line, frozen=True, kw_only=True, tag="lost"):
    """The recorder gave up here; what came after was not observed."""

    reason: str


class Gap(Line, frozen=True, kw_only=True, tag="gap"):
    """The recorder could not keep up: records are missing here. A ``state`` record is next."""

    records: Count
    """How many are missing."""
    reason: str = ""


class End(Line, frozen=True, kw_only=True, tag="end"):
    """The last record of a file."""

    steps: Count
    """``schedule`` records before it, in this file (in 1.0: in all parts)."""
    records: Count
    """Lines before it, likewise."""
    sha256: Digest | UnsetType = UNSET
    """Of all bytes before it, decompressed, likewise."""
    continued: bool = False
    """The recording goes on in the next part."""


Record = (
    Header
    | Part
    | Add
    | Abort
    | Pause
    | Reset
    | Evict
    | Compiled
    | Feature
    | ResetEncoderCache
    | Chunk
    | SessionEnd
    | Matched
    | Transfers
    | Schedule
    | Output
    | Update
    | Draft
    | State
    | Error
    | Lost
    | Gap
    | End
)
"""What a reader shows. On a line there may be a short form of some: ``trace/deltas.py``."""
KINDS: dict[str, type[Struct]] = {str(k.__struct_config__.tag): k for k in Record.__args__}
