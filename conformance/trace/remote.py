"""What a trace tells of a KV connector: what it answered, and what workers reported.

A connector knows what other engines have computed, and loads and sends blocks. What it holds, and
when it has come, are inputs: they stand right before the call of the engine that they came in.
"""

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from nullblock.conformance.trace.base import (
    BlockId,
    Count,
    Groups,
    Int,
    Line,
    Piece,
    RequestNumber,
)


class Connector(Piece, frozen=True, kw_only=True):
    """That there is a KV connector, and what decisions depend on of it."""

    failure_policy: Literal["recompute", "fail"]
    """What becomes of requests whose blocks were not loaded: they compute them, or end."""
    loads_beside_steps: bool = False
    """It loads, and several steps may be in flight meanwhile: in lines after vllm-0.22.1 blocks
    that are given up are then free when the steps that compute with them have come back."""
    requires_kv_delivery: bool = False
    """What a request hands off when it ends must arrive: in lines after vllm-0.22.1 what is in
    flight for a request that a step preempts is then dropped."""


class Answer(Piece, frozen=True, kw_only=True):
    """What a connector said of one request (``get_num_new_matched_tokens``)."""

    id: RequestNumber
    local: Int = 0
    """Tokens of the local hit, with which it was asked; not told where it does not know yet. Of an
    empty prompt it may be below 0 (GROUP-66).
    """
    tokens: Count | None = None
    """How many beyond these it can load; none: it does not know yet."""
    over_steps: bool = False
    """The load takes longer than the step."""
    begins: bool = False
    """The request was given slots, and its load begins."""
    blocks: Groups | UnsetType = UNSET
    """The whole block table of one whose load begins and takes longer than the step."""


class Matched(Line, frozen=True, kw_only=True, tag="matched"):
    """Input: what the connector answers in the step that comes next. Decision: who is asked, and
    whose load begins.
    """

    answers: list[Answer]
    """In the order in which it was asked."""


class Transfers(Line, frozen=True, kw_only=True, tag="transfers"):
    """Input: what workers report with the output that comes next, and what the connector says of
    requests that end with it, or with the abort that comes next.
    """

    received: list[RequestNumber] = msgspec.field(default_factory=list)
    """Loads that have ended, well or not, in the order in which the engine took them in."""
    sent: list[RequestNumber] = msgspec.field(default_factory=list)
    """Blocks that were sent, likewise."""
    invalid: list[BlockId] = msgspec.field(default_factory=list)
    """Blocks that were not loaded."""
    failed: list[RequestNumber] = msgspec.field(default_factory=list)
    """Those that end because their blocks were not loaded, in the order in which they gave them
    up."""
    delayed: list[RequestNumber] = msgspec.field(default_factory=list)
    """Those that end and whose blocks the connector wants to be kept until they are sent."""


class Kept(Piece, frozen=True, kw_only=True):
    """A request that has ended, and whose blocks are kept."""

    id: RequestNumber
    blocks: Groups | UnsetType = UNSET


class RemoteState(Piece, frozen=True, kw_only=True):
    """What is under way between the engine and its connector, inside a ``state`` record."""

    received: list[RequestNumber] = msgspec.field(default_factory=list)
    """Requests that wait for a load which has ended; in order of number."""
    failed: list[RequestNumber] = msgspec.field(default_factory=list)
    """Requests that wait for a load of which blocks were not loaded; in order of number."""
    kept: list[Kept] = msgspec.field(default_factory=list)
    """In order of number."""
