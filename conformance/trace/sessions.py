"""What a trace tells of streaming sessions: requests whose prompts arrive in chunks.

A session is an arrival with the feature ``resumable``. What it is sent later are records of their
own. Where it stops it takes its next chunk, or waits for one: that is told where it happens.
"""

import msgspec
from msgspec import UNSET, UnsetType

from nullblock.conformance.trace.base import (
    Chain,
    Count,
    Int,
    Least,
    Limit,
    Line,
    Piece,
    RequestNumber,
)
from nullblock.conformance.trace.encoder import Item

RESUMABLE = "resumable"
"""The feature of a request that is a session."""


class Taken(Piece, frozen=True, kw_only=True):
    """Decision: a session has taken a chunk, behind what it keeps."""

    tokens: Count
    """What it has then: what it keeps and the chunk."""
    chain: list[Chain] | UnsetType = UNSET
    """Chain numbers of its full blocks, from the first one on that was not full before or has
    other content now."""


class Turn(Piece, frozen=True, kw_only=True):
    """Decision: a session stops, and goes on."""

    id: RequestNumber
    taken: Taken | None = None
    """None: it waits for its next chunk."""


class Chunk(Line, frozen=True, kw_only=True, tag="chunk"):
    """Input: a session is sent the next chunk of its prompt."""

    id: RequestNumber
    prompt: Count
    """Tokens."""
    max_tokens: Limit
    min_tokens: Least = 0
    arrival: float | UnsetType = UNSET
    """As in ``add``: whoever takes it has arrived then."""
    tie: float | UnsetType = UNSET
    """Likewise."""
    features: list[str] = msgspec.field(default_factory=list)
    """What decisions about its turn depend on besides."""
    items: list[Item] = msgspec.field(default_factory=list)
    """Its encoder inputs, in order; their places are counted from its first token."""
    taken: Taken | None = None
    """Decision: the session waits for it, and takes it at once; none: it takes it later."""


class SessionEnd(Line, frozen=True, kw_only=True, tag="session_end"):
    """Input: a session is sent no more chunks."""

    id: RequestNumber
    ended: bool = False
    """Decision: it waits for a chunk, and ends at once; otherwise it takes its chunks first."""


class QueuedChunk(Piece, frozen=True, kw_only=True):
    """A chunk that a session has not taken, inside a ``state`` record."""

    prompt: Count
    max_tokens: Limit
    min_tokens: Least = 0
    arrival: float | UnsetType = UNSET
    tie: float | UnsetType = UNSET
    features: list[str] = msgspec.field(default_factory=list)
    items: list[Item] = msgspec.field(default_factory=list)


class SessionState(Piece, frozen=True, kw_only=True):
    """A session inside a ``state`` record; a request that is none has no such field."""

    chunks: list[QueuedChunk] = msgspec.field(default_factory=list)
    """Those that have arrived and are not taken, the next one first."""
    ended: bool = False
    """Its end has arrived, behind them."""
    lost: Int = 0
    """Tokens that count as its prompt, and that it has no more."""
    by_stop_id: bool = False
    """An earlier turn has ended with a stop id, which all later ends report, too."""
