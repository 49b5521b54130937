"""What a trace tells of speculative decoding: how many drafts, never which.

A ``schedule`` says how many of its tokens are drafts (``Schedule.drafts``), an ``output`` how many
tokens came: one more than the drafts that the model agreed with.
"""

import msgspec

from nullblock.conformance.trace.base import Count, Line, Positive, RequestNumber

Drafted = list[tuple[RequestNumber, Count]]
"""Requests, and how many drafts each has."""


class Draft(Line, frozen=True, kw_only=True, tag="draft"):
    """Input: drafts are proposed, for the next step of each request."""

    ids: list[RequestNumber]
    """In any order. Requests that the recorder never saw are left out."""
    counts: list[Count]
    """How many each has now, in parallel to ``ids``: they replace those it had."""

    def __post_init__(self) -> None:
        if len(self.counts) != len(self.ids):
            raise ValueError("`counts` and `ids` differ in length")
        if len(set(self.ids)) != len(self.ids):
            raise ValueError("`ids` has a request twice")


class DraftDelta(Line, frozen=True, kw_only=True, tag="draft+"):
    """A ``draft`` for everyone who was in the step whose ``output`` came last."""

    step: Positive
    each: Count = 0
    counts: list[Count] = msgspec.field(default_factory=list)
    """In place of ``each``, where they differ: in schedule order."""

    def __post_init__(self) -> None:
        if self.each and self.counts:
            raise ValueError("`counts` stands in place of `each`")
