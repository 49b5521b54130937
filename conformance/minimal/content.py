"""Tokens that realise the chain numbers of a trace.

A trace tells which blocks are alike, not what is in them. Each chain number gets tokens of its
own, consecutive numbers consecutive tokens, so that a prompt is a few ranges. What the model of a
scenario samples depends on the request and the place; where another prompt repeats that output,
it repeats those tokens.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from msgspec import UNSET

from nullblock.conformance.minimal.history import Life

VOCAB = 999_999
"""Sampled tokens are below it."""
EOS = 999_999
PROMPTS = 1_000_000
"""Tokens of full blocks of prompts begin here, those behind the last full block at TAILS."""
TAILS = 1_000_000_000
MOST_SEEDS = 100


class Content:
    """The tokens of some requests."""

    def __init__(
        self,
        lives: Iterable[Life],
        names: Mapping[int, str],
        block_size: int,
        cut: Mapping[Life, int],
        *,
        alike: bool,
    ) -> None:
        """``cut``: how many tokens of a prompt are kept, where that is not all of it.

        ``alike``: the model samples one and the same token always, as where equal prompts had
        equal outputs.
        """
        self.lives, self.names, self.size, self.cut = list(lives), names, block_size, cut
        self.vocab = 1 if alike else VOCAB
        self.seed = self._seed()
        self.made: dict[int, tuple[Life, int]] = {}
        """Chain number to the request whose output filled that block first, and its place."""
        for life in self.lives:
            places = count(self.length(life) // block_size)
            for place, (number, new) in zip(places, life.chain, strict=False):
                if new:
                    self.made[number] = (life, place)

    def length(self, life: Life) -> int:
        """Tokens of a request's prompt."""
        return self.cut.get(life, life.add.prompt)

    def prompt(self, life: Life) -> Any:
        """A request's prompt, in the form that scenarios have for it."""
        length = self.length(life)
        if life.add.chain is UNSET:
            return {"fill": 0, "n": length}
        pieces: list[Any] = []
        full = length // self.size
        for first, many in life.add.chain:
            many = min(many, full)
            full -= many
            pieces += self._run(first, many)
        if rest := length % self.size:
            start = self._tail(life) + length // self.size * self.size
            pieces.append({"range": [start, start + rest]})
        return pieces[0] if len(pieces) == 1 else {"concat": pieces}

    def sampled(self, life: Life, index: int) -> int:
        """The token that the model samples as a request's output number `index`, from 0."""
        position = self.length(life) + index
        text = f"{self.seed}:{self.names[life.number]}:{position}"
        return zlib.crc32(text.encode()) % self.vocab

    def _run(self, first: int, many: int) -> Iterator[Any]:
        """Blocks whose chain numbers follow one another."""
        start = None
        for number in range(first, first + many):
            if number in self.made:
                if start is not None:
                    yield self._range(start, number)
                    start = None
                yield list(self._filled(*self.made[number]))
            elif start is None:
                start = number
        if start is not None:
            yield self._range(start, first + many)

    def _range(self, start: int, end: int) -> Any:
        return {"range": [PROMPTS + start * self.size, PROMPTS + end * self.size]}

    def _tail(self, life: Life) -> int:
        """Where the tokens behind the last full block of a prompt come from."""
        owner = life.number
        if self.vocab == 1:  # equal outputs, so equal tails
            owner = next(reversed(list(_numbers(life))), 0)
        return TAILS + owner * 2**24

    def _filled(self, life: Life, place: int) -> Iterator[int]:
        """The tokens of a block that a request's output filled."""
        for position in range(place * self.size, (place + 1) * self.size):
            index = position - self.length(life)
            if index < 0:
                yield self._tail(life) + position
            else:
                yield EOS if index == life.eos else self.sampled(life, index)

    def _seed(self) -> int:
        """The first seed with which no stop id is sampled before it is due."""
        stopped = [life for life in self.lives if life.stop is not None]
        for seed in count():
            self.seed = seed
            if seed == MOST_SEEDS or not any(map(self._stops_early, stopped)):
                return seed
        raise AssertionError("count() does not end")

    def _stops_early(self, life: Life) -> bool:
        assert life.stop is not None
        token = self.sampled(life, life.stop)
        return any(self.sampled(life, index) == token for index in range(life.stop))


def _numbers(life: Life) -> Iterator[int]:
    """Chain numbers of a prompt's full blocks."""
    for first, many in life.add.chain or ():
        yield from range(first, first + many)
