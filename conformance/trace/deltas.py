"""The short forms of records: what is as it was expected to be is left out.

With hundreds of requests decoding, one step is like the next: the same requests, a token each.
Readers see whole records only; :class:`nullblock.conformance.trace.expand.Expander` makes them.
"""

import msgspec
from msgspec import UNSET, UnsetType

from nullblock.conformance.trace.base import (
    BlockId,
    Count,
    Groups,
    Int,
    Line,
    Positive,
    RequestNumber,
)
from nullblock.conformance.trace.drafts import DraftDelta, Drafted
from nullblock.conformance.trace.encoder import Answers, Inputs
from nullblock.conformance.trace.records import Event, Finish, NewRequest, PostState
from nullblock.conformance.trace.sessions import Turn


class ScheduleDelta(Line, frozen=True, kw_only=True, tag="schedule+"):
    """A ``schedule`` told by what differs from the one before.

    Whoever was scheduled there and is not ``gone`` stays: in the same order, before all others,
    each with one token and its drafts; computed what was computed and scheduled there, one output
    more and one for each draft there, of both less the drafts rejected since. Absent here, and of
    a short update, ``common_prefix`` and each of the counts in ``state`` are as they were told
    last.
    """

    step: Positive
    gone: list[RequestNumber] = msgspec.field(default_factory=list)
    """Scheduled in the step before and not in this one."""
    odd: list[tuple[RequestNumber, Int, Int, Int]] = msgspec.field(default_factory=list)
    """Those that stay with other numbers: tokens, computed, num_output."""
    drafts: Count = 0
    """Of each of those that stay."""
    drafted: Drafted = msgspec.field(default_factory=list)
    """In place of it, of those that have another number of drafts; and of those behind them."""
    ids: list[RequestNumber] = msgspec.field(default_factory=list)
    """Who is scheduled after those that stay, in schedule order."""
    tokens: list[Int] = msgspec.field(default_factory=list)
    """In parallel to ``ids``."""
    known: list[tuple[RequestNumber, Int, Int]] = msgspec.field(default_factory=list)
    """Those of ``ids`` that the worker has seen, as in ``cached``: computed, num_output."""
    new: list[NewRequest] = msgspec.field(default_factory=list)
    gets: list[RequestNumber] = msgspec.field(default_factory=list)
    """Whose the blocks in ``given`` are, in place of those who are due."""
    given: list[BlockId] = msgspec.field(default_factory=list)
    """One block each, in schedule order, for those who stay, are not ``odd``, and have computed a
    multiple of the block size. Empty: ``blocks`` tells of them, too."""
    blocks: list[tuple[RequestNumber, Groups]] = msgspec.field(default_factory=list)
    """Of all others."""
    resumed: list[RequestNumber] = msgspec.field(default_factory=list)
    all_tokens: list[tuple[RequestNumber, Count]] = msgspec.field(default_factory=list)
    preempted: list[RequestNumber] = msgspec.field(default_factory=list)
    finished: list[RequestNumber] = msgspec.field(default_factory=list)
    common_prefix: list[Count] | UnsetType = UNSET
    encoder_inputs: Inputs = msgspec.field(default_factory=list)
    evicted_items: list[Positive] = msgspec.field(default_factory=list)
    item_answers: Answers = msgspec.field(default_factory=list)
    connector_items: Inputs = msgspec.field(default_factory=list)
    zeroed: list[BlockId] = msgspec.field(default_factory=list)
    state: PostState | UnsetType = UNSET

    def __post_init__(self) -> None:
        if len(self.tokens) != len(self.ids):
            raise ValueError("`tokens` and `ids` differ in length")
        if self.gets and len(self.gets) != len(self.given):
            raise ValueError("`gets` and `given` differ in length")


class OutputDelta(Line, frozen=True, kw_only=True, tag="output+"):
    """An ``output`` for everyone in its step, one token each unless it is said otherwise."""

    step: Positive
    odd: list[tuple[RequestNumber, Count]] = msgspec.field(default_factory=list)
    """Who sampled another number of tokens, and how many."""
    counts: list[Count] = msgspec.field(default_factory=list)
    """In place of ``odd``, where many did: of everyone in the step, in schedule order."""
    eos: list[tuple[RequestNumber, Count]] = msgspec.field(default_factory=list)
    stop: list[tuple[RequestNumber, Count]] = msgspec.field(default_factory=list)
    rejected: list[tuple[RequestNumber, Count]] = msgspec.field(default_factory=list)
    chain: list[tuple[RequestNumber, Count]] | UnsetType = UNSET
    fills: list[RequestNumber] = msgspec.field(default_factory=list)
    """Beside ``fresh``: who fills a block, once for each, in that order."""
    fresh: Count | UnsetType = UNSET
    """In place of ``chain``: whoever has a full block with one token more than the step computes
    fills it, and the chain numbers count from here, in schedule order."""

    def __post_init__(self) -> None:
        if self.chain is not UNSET and self.fresh is not UNSET:
            raise ValueError("`fresh` stands in place of `chain`")
        if self.fills and self.fresh is UNSET:
            raise ValueError("`fills` without `fresh`")
        if self.odd and self.counts:
            raise ValueError("`counts` stands in place of `odd`")


class UpdateDelta(Line, frozen=True, kw_only=True, tag="update+"):
    """An ``update`` that passes on what its ``output`` has, in that order."""

    step: Positive
    gone: list[RequestNumber] = msgspec.field(default_factory=list)
    """Who sampled something and gets nothing."""
    cut: list[tuple[RequestNumber, Count]] = msgspec.field(default_factory=list)
    """Who stops before the last of its tokens, and how many it gets."""
    finish: list[Finish] = msgspec.field(default_factory=list)
    turns: list[Turn] = msgspec.field(default_factory=list)
    events: list[Event] | UnsetType = UNSET
    state: PostState | UnsetType = UNSET


Delta = ScheduleDelta | OutputDelta | UpdateDelta | DraftDelta
