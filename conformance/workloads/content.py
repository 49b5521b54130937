"""What a prompt consists of, without its tokens: which prefixes it shares, and with whom.

A prompt is cut into units of some tokens. A unit's id stands for its tokens and all tokens before
them: equal ids, equal prefixes. From that follow the chain numbers of an engine's blocks, whatever
their size, and synthetic tokens that share exactly what the ids share.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, repeat
from math import gcd

from nullblock.conformance.consecutive import Run, runs

OUTPUT_NUMBERS = 2**52
"""From here on chain numbers are those of blocks that sampled tokens complete."""
MAX_ID = 2**40
"""Ids stay below it, so that every chain number of a prompt stays below OUTPUT_NUMBERS."""
_BLOCKS_A_REQUEST = 2**20


@dataclass(frozen=True, slots=True)
class Content:
    """The identity of a prompt."""

    length: int
    """Tokens."""
    unit: int
    """Tokens that an id stands for; the last one may stand for fewer."""
    runs: tuple[Run, ...]
    """The ids of its units."""

    def tokens(self) -> list[int]:
        """Synthetic tokens: a unit's id over and over, which takes little memory. No model reads
        them.
        """
        ids = chain.from_iterable(range(first, first + many) for first, many in self.runs)
        units = chain.from_iterable(repeat(id, self.unit) for id in ids)
        return list(units)[: self.length]

    def numbers(self, block_size: int) -> "Numbers":
        """The chain numbers of its full blocks.

        A block is known by the unit that its last token stands in, and by the place there.
        """
        many = self.length // block_size
        if self.unit % block_size == 0:
            per_unit = self.unit // block_size
            return Numbers(_cut([(f * per_unit, n * per_unit) for f, n in self.runs], many))
        return Numbers(runs(self._numbers(block_size, many)))

    def _numbers(self, block_size: int, many: int) -> Iterator[int]:
        """The same where blocks do not fit into units, one by one."""
        step = gcd(self.unit, block_size)
        ids = Numbers(self.runs)
        for end in range(block_size, many * block_size + 1, block_size):
            unit, place = divmod(end - 1, self.unit)
            yield ids[unit] * (self.unit // step) + (place + 1) // step - 1


class Numbers:
    """A sequence of numbers, kept as runs: a long one costs no more."""

    __slots__ = ("_length", "_starts", "runs")

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs = list(runs)
        self._starts, self._length = [], 0
        for _, many in self.runs:
            self._starts.append(self._length)
            self._length += many

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[int]:
        for first, many in self.runs:
            yield from range(first, first + many)

    def __getitem__(self, index: int) -> int:
        run = bisect_right(self._starts, index) - 1
        return self.runs[run][0] + index - self._starts[run]


def output_number(request: int, block: int) -> int:
    """The chain number of a block that sampled tokens of a request complete: nobody shares it."""
    return OUTPUT_NUMBERS + request * _BLOCKS_A_REQUEST + block


def first_of(runs: Iterable[Run], many: int) -> tuple[Run, ...]:
    """The first so many numbers."""
    return tuple(_cut(runs, many))


def _cut(runs: Iterable[Run], many: int) -> list[Run]:
    kept: list[Run] = []
    for first, length in runs:
        if many <= 0:
            break
        length = min(length, many)
        many -= length
        if kept and sum(kept[-1]) == first:
            kept[-1] = (kept[-1][0], kept[-1][1] + length)
        else:
            kept.append((first, length))
    return kept
