"""Who fills a block in a step, and who needs a new one: told from where their tokens stand.

A request's tokens have positions from 0. The last byte of the position of the last token that a
step computes tells where in its block that is, if block sizes divide 256, as nearly all do.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_NEXT = bytes((n + 1) % 256 for n in range(256))


@dataclass(slots=True, eq=False)
class Filling:
    """A request that fills blocks."""

    number: int
    request: Any
    hashes: Sequence[bytes]
    """The request's own, of its full blocks: it grows by itself. Nothing once it has ended."""
    known: int
    """Blocks whose chain number is recorded."""

    @property
    def alive(self) -> bool:
        """Whether the request has not ended."""
        return self.request is not None

    def end(self) -> None:
        """The request has ended."""
        self.request, self.hashes, self.known = None, (), 0


NOBODY = Filling(-1, None, (), 0)
"""Stands for a request of which nothing is known."""


def positions(computed: list[int], tokens: list[int]) -> bytes:
    """Of the last token that each computes in a step: the last byte."""
    return bytes([(c + n - 1) & 255 for c, n in zip(computed, tokens, strict=True)])


def a_token_on(before: bytes) -> bytes:
    """The positions after a step of one token each."""
    return before.translate(_NEXT)


class Edges:
    """Which positions are the first ones of blocks of a size, and which the last but one."""

    def __init__(self, block_size: int) -> None:
        """``block_size``: tokens."""
        self.told = 256 % block_size == 0
        """Whether the last byte tells."""
        self._first = bytes(n % block_size == 0 for n in range(256))
        self._last_but_one = bytes((n + 2) % block_size == 0 for n in range(256))

    def opening(self, at: bytes) -> bytes:
        """Who computes the first token of a block, and needs one for it: 1, others 0."""
        return at.translate(self._first)

    def filling(self, at: bytes) -> bytes:
        """Whose block is full with the token that is sampled then, one position on."""
        return at.translate(self._last_but_one)
