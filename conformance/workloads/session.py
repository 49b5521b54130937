"""What every workload is made of: sessions, and the turns in them."""

from collections.abc import Iterator
from dataclasses import dataclass

from nullblock.conformance.workloads.content import Content


@dataclass(frozen=True, slots=True)
class Turn:
    """One request, before anybody has sent it."""

    content: Content
    output_length: int
    """Tokens that the model samples, at least 1."""
    after: tuple[int, ...] = ()
    """Turns of the same session, by place, that end before this one is sent."""
    delay: float = 0.0
    """Seconds between the last of those ends, or the session's begin, and its arrival."""


@dataclass(frozen=True, slots=True)
class Session:
    """Requests of one user. A workload without sessions has one turn in each."""

    turns: tuple[Turn, ...]
    at: float | None = None
    """Seconds since the workload began; None: when a user is free."""


Sessions = Iterator[Session]


def scaled(tokens: int, scale: int) -> int:
    """A length divided by the scale, rounded up."""
    return -(-tokens // scale)
