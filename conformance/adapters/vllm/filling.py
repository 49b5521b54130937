"""Who fills a block in a step, and who needs a new one: told from where their tokens stand.

A request's tokens have positions from 0. The last byte of the position of the last token that a
step computes tells where in its block that is, if block sizes divide 256, as nearly all do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress
from typing import Any, NamedTuple

_BYTES = bytes(range(256))
_ON = _BYTES + _BYTES
"""From a place on: the bytes, so many further."""


@dataclass(slots=True, eq=False)
class Filling:
    """A request that fills blocks."""

    number: int
    request: Any
    hashes: Sequence[bytes]
    """The request's own, of its full blocks: it grows by itself. Nothing once it has ended."""
    known: int
    """Blocks whose chain number is recorded."""
    rest: int = 0
    """Tokens behind the last full block, as long as no ``Tally`` knows."""

    @property
    def alive(self) -> bool:
        """Whether the request has not ended."""
        return self.request is not None

    def end(self) -> None:
        """The request has ended."""
        self.request, self.hashes, self.known = None, (), 0


NOBODY = Filling(-1, None, (), 0)
"""Stands for a request of which nothing is known."""


def positions(computed: Iterable[int], tokens: list[int]) -> bytes:
    """Of the last token that each computes in a step: the last byte."""
    return bytes([(c + n - 1) & 255 for c, n in zip(computed, tokens, strict=True)])


def tokens_on(before: bytes, many: int) -> bytes:
    """The positions so many steps of one token each later."""
    many %= 256
    return before.translate(_ON[many : many + 256])


def a_token_on(before: bytes) -> bytes:
    """The positions after a step of one token each."""
    return tokens_on(before, 1)


@lru_cache(1024)
def _rest(n: int, block_size: int) -> bytes:
    """Of every byte, whether that is what is left of it behind full blocks."""
    return bytes(at % block_size == n for at in range(256))


class Row(NamedTuple):
    """Some of the requests of a step, in its order. Never changed: steps share it."""

    ids: list[str]
    fillings: list[Filling]


class Ring:
    """Whose block begins and is full how many steps later, of requests that get a token a step.

    Those of whom that is so at the same time are a row. When somebody comes or ends it costs a
    new row, and no look at all others.
    """

    def __init__(
        self, at: bytes, block_size: int, ids: list[str], fillings: list[Filling]
    ) -> None:
        """``at``: the positions now; ``block_size``: tokens, a divisor of 256."""
        self._at, self._size = at, block_size
        self._all = Row(ids, fillings)
        self._rows: dict[int, Row] = {}
        self._whole = False
        """Whether there are all rows."""

    def opening(self, many: int) -> Row:
        """Those that compute the first token of a block so many steps later."""
        n = -many % self._size
        if n not in self._rows:
            mask = self._at.translate(_rest(n, self._size))
            ids, fillings = self._all
            self._rows[n] = Row(list(compress(ids, mask)), list(compress(fillings, mask)))
        return self._rows[n]

    def filling(self, many: int) -> Row:
        """Those whose block is full with the token that is sampled then."""
        return self.opening(many + 2)

    def come(self, id: str, filling: Filling, position: int, many: int) -> None:
        """Behind all others one more, whose last token computed so many steps later has that
        position.
        """
        n, row = self._row(position, many)
        self._rows[n] = Row([*row.ids, id], [*row.fillings, filling])

    def end(self, id: str, position: int, many: int) -> None:
        """One has ended; it had that position so many steps later."""
        n, row = self._row(position, many)
        place = row.ids.index(id)
        ids, fillings = row.ids.copy(), row.fillings.copy()
        del ids[place], fillings[place]
        self._rows[n] = Row(ids, fillings)

    def _row(self, position: int, many: int) -> tuple[int, Row]:
        if not self._whole:  # a row that is made later would not know
            self._rows = {n: Row([], []) for n in range(self._size)}
            for id, filling, at in zip(*self._all, self._at, strict=True):
                row = self._rows[at % self._size]
                row.ids.append(id)
                row.fillings.append(filling)
            self._all, self._whole = Row([], []), True
        n = (position - many) % self._size
        return n, self._rows[n]


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
