"""What sessions of a scope may have had: each a number, so that a state is still one of numbers.

A session's tokens depend on where its chunks were put. That is one of few things in a scope, all
of which are listed beforehand: the compiled form asks about them in tables.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Token = Any
MOST_HISTORIES = 5000
"""A scope with more is too large for its sessions."""


@dataclass(frozen=True, slots=True)
class History:
    """A session with some of its chunks, each behind what it kept."""

    id: str
    before: int
    """What it had before its last chunk; 0: its first prompt and outputs, which need no number."""
    kept: int
    """How many tokens of that it kept."""
    full: int
    """How many blocks kept their hashes."""
    turns: int
    """Chunks that it has taken."""


class Histories:
    """Every history of a scope's sessions, from 1."""

    def __init__(
        self,
        chunks: dict[str, tuple[tuple[int, ...], ...]],
        most: int,
        size: int,
        rehashed: bool,
        sampled: Callable[[str, int, int], Token],
    ) -> None:
        """`chunks`: by session, what it is sent after its first prompt. `most`: tokens that it may
        have. `size`: tokens of a block. `rehashed`: no block keeps a hash of what is dropped.
        `sampled`: the token of a session at a position, so many tokens into its turn.
        """
        self.chunks, self.most, self.size, self.rehashed = chunks, most, size, rehashed
        self.sampled = sampled
        self.all: list[History] = [History("", 0, 0, 0, 0)]
        self.numbers: dict[History, int] = {}
        for id in chunks:
            self._list(id, 0, 0)

    def _list(self, id: str, before: int, turns: int) -> None:
        if turns == len(self.chunks[id]):
            return
        for kept in range(self.most - len(self.chunks[id][turns])):
            for full in self._kept_hashes(kept):
                h = History(id, before, kept, full, turns + 1)
                self.numbers[h] = len(self.all)
                self.all.append(h)
                assert len(self.all) < MOST_HISTORIES, "too many histories of sessions"
                self._list(id, self.numbers[h], turns + 1)

    def _kept_hashes(self, kept: int) -> Iterator[int]:
        """How many blocks may keep their hashes: what is dropped may have filled some."""
        yield kept // self.size
        if not self.rehashed:
            yield from range(kept // self.size + 1, self.most // self.size + 1)

    def extended(self, id: str, past: int, kept: int, known: int) -> int:
        """The number of a history with one chunk more. Raises KeyError for none of the scope."""
        before, full = self.all[past], known // self.size
        if not self.rehashed:
            full = max(full, before.full)
        return self.numbers[History(id, past, kept, full, before.turns + 1)]

    def start(self, past: int) -> int:
        """Where the outputs of the last turn begin."""
        h = self.all[past]
        return h.kept + len(self.chunks[h.id][h.turns - 1])

    def token(self, id: str, prompt: tuple[int, ...], past: int, position: int) -> Token:
        """The token at a position of what a session has had."""
        if not past:
            begin = len(prompt)
            return prompt[position] if position < begin else self.sampled(id, position, begin)
        h, begin = self.all[past], self.start(past)
        if position < h.kept:
            return self.token(id, prompt, h.before, position)
        if position < begin:
            return self.chunks[id][h.turns - 1][position - h.kept]
        return self.sampled(id, position, begin)
