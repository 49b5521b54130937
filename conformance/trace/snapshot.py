"""The ``state`` record: everything that decisions depend on, at one moment."""

import msgspec
from msgspec import UNSET, UnsetType

from nullblock.conformance.trace.base import (
    BlockId,
    Chain,
    Count,
    Groups,
    Int,
    Least,
    Limit,
    Line,
    PauseName,
    Piece,
    Positive,
    Rank,
    RequestNumber,
)
from nullblock.conformance.trace.drafts import Drafted
from nullblock.conformance.trace.encoder import EncoderCache, Item
from nullblock.conformance.trace.remote import RemoteState
from nullblock.conformance.trace.sessions import SessionState


class RequestState(Piece, frozen=True, kw_only=True):
    """One request inside a ``state`` record.

    Where ``prompt`` is given, everything after it is observed, and left out where it has its
    default; where it is absent, nothing after it is known.
    """

    id: RequestNumber
    status: str
    computed: Int
    tokens: Count
    """Prompt and output, placeholders not included."""
    blocks: Groups | UnsetType = UNSET
    prompt: Count | UnsetType = UNSET
    """Prompt tokens, as in ``add``; so are the others that ``add`` has."""
    max_tokens: Limit | UnsetType = UNSET
    min_tokens: Least = 0
    priority: Rank = 0
    arrival: float | UnsetType = UNSET
    tie: float | UnsetType = UNSET
    skip_reading_prefix_cache: bool = False
    chain: list[Chain] | UnsetType = UNSET
    """Of all full blocks of its tokens, prompt and output."""
    features: list[str] = msgspec.field(default_factory=list)
    adapter: Count = 0
    items: list[Item] = msgspec.field(default_factory=list)
    placeholders: Int = 0
    """Tokens in flight that it will take (``num_output_placeholders``)."""
    discard: Int = 0
    """Outputs in flight that it will not (``async_tokens_to_discard``)."""
    preemptions: Count = 0
    drafts: Count = 0
    """Drafts that its next step may verify (``spec_token_ids``)."""
    chunk: bool = False
    """Its last step left it short of a token (``is_prefill_chunk``), where there are drafts."""
    num_cached: list[Count] | UnsetType = UNSET
    """Leading blocks whose hash was entered or hit, by KV cache group. Absent: the manager has
    no entry for the request, which is not the same as 0."""
    states_before: list[Count] | UnsetType = UNSET
    """Where Mamba layers keep only the state that a step ends with, by KV cache group: one after
    the place of the state that the table's last growth began with; 0: there is none."""
    name: str | UnsetType = UNSET
    session: SessionState | UnsetType = UNSET
    """Of a session: what else is known of it."""


class StepInFlight(Piece, frozen=True, kw_only=True):
    """A step that was scheduled, and whose output has not come."""

    step: Positive
    ids: list[RequestNumber]
    """In schedule order."""
    tokens: list[Int]
    """In parallel to ``ids``."""
    drafts: Drafted = msgspec.field(default_factory=list)
    """As in ``schedule``."""
    owed: list[RequestNumber] = msgspec.field(default_factory=list)
    """Those of ``ids`` that get a token from it: not a chunk of a prompt, and still alive."""
    gone: list[RequestNumber] = msgspec.field(default_factory=list)
    """Those of ``ids`` whose request has ended since; who has the number now is another one."""

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.ids):
            raise ValueError("`tokens` and `ids` differ in length")
        if not set(self.ids).issuperset(self.owed + self.gone):
            raise ValueError("`owed` and `gone` are some of `ids`")
        drafting = [r for r, _ in self.drafts]
        if not set(self.ids).issuperset(drafting) or len(set(drafting)) < len(drafting):
            raise ValueError("`drafts` are of some of `ids`, told once of each")


class State(Line, frozen=True, kw_only=True, tag="state"):
    """Observation: the whole state after the record before."""

    step: Count
    """Steps scheduled so far."""
    running: list[RequestNumber]
    waiting: list[RequestNumber]
    skipped: list[RequestNumber] = msgspec.field(default_factory=list)
    """Those of them that stand in the skipped queue: they lead."""
    heap: list[RequestNumber] | UnsetType = UNSET
    """The same under PRIORITY where there were sessions, by their places in the heap that the
    queue is: chunks may have left it out of order (WAIT-53). It may be absent where no more than
    two stand there: then the order of ``skipped`` says their places."""
    requests: list[RequestState]
    """In order of arrival."""
    free_queue: list[BlockId] | UnsetType = UNSET
    """Next one to be given out first."""
    ref_cnt: list[tuple[BlockId, Int]] | UnsetType = UNSET
    """Of the blocks where it is not 0."""
    chains: list[tuple[BlockId, Count]] | UnsetType = UNSET
    """Chain number that each block carries in the prefix cache; blocks that carry the same one
    in the order in which they were cached."""
    chain_groups: list[tuple[BlockId, Count]] = msgspec.field(default_factory=list)
    """The KV cache group for which these blocks are in the prefix cache, where that is not 0."""
    encoder: EncoderCache | UnsetType = UNSET
    """Where the model has an encoder."""
    remote: RemoteState | UnsetType = UNSET
    """Where the engine has a KV connector."""
    in_flight: list[StepInFlight] | UnsetType = UNSET
    """Oldest first."""
    finished: list[RequestNumber] | UnsetType = UNSET
    """Ended, and not yet reported by a ``schedule``; in order of number."""
    previous: list[RequestNumber] | UnsetType = UNSET
    """Scheduled in the step before; in order of number."""
    pause_state: PauseName | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.heap is not UNSET and sorted(self.heap) != sorted(self.skipped):
            raise ValueError("`heap` has those of `skipped`")
