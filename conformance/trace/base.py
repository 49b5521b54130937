"""What records are made of: numbers, and the two kinds of structs."""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

Int = Annotated[int, Meta(ge=-(2**53), le=2**53)]
"""A whole number that any JSON reader holds exactly."""
Count = Annotated[int, Meta(ge=0, le=2**53)]
Positive = Annotated[int, Meta(ge=1, le=2**53)]
Rank = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
"""A whole number that a user chooses, and that only the order of requests depends on: a word."""
Limit = Annotated[int, Meta(ge=1, le=2**63 - 1)]
"""Tokens that a user allows a request: more than there can be, perhaps."""
Least = Annotated[int, Meta(ge=0, le=2**63 - 1)]
"""Tokens that a user wants of a request at least."""
RequestNumber: TypeAlias = Count
BlockId: TypeAlias = Count
Chain = tuple[Count, Positive]
"""A run of chain numbers: the first, and how many follow one another from there."""
Groups = list[list[BlockId]]
"""Block ids by KV cache group."""
Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Observation = Literal["complete", "sampled", "absent"]
ENDS = frozenset(
    f"FINISHED_{how}"
    for how in ("STOPPED", "LENGTH_CAPPED", "ABORTED", "IGNORED", "ERROR", "REPETITION")
)
"""Each ``RequestStatus`` that a request may be ended with, in 0.22.1 and in 0.32.0."""
PauseName = Literal["UNPAUSED", "PAUSED_NEW", "PAUSED_ALL"]


class Piece(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A piece of a record."""


class Line(Piece, frozen=True, kw_only=True, tag_field="ev"):
    """A record: one line of a trace."""
