"""Records that wait to be encoded, several steps at once, and hashes to be numbered with them.

One go for many is quicker than many goes: a number is found in a large table, and what the
processor has to fetch for it is fetched for all at once.
"""

import os
import weakref
from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import chain, count
from threading import RLock
from typing import Any

from msgspec import Struct, json

from nullblock.conformance.adapters.vllm.filling import Filling
from nullblock.conformance.adapters.vllm.numbering import ChainNumbers, Live

BATCH = 72
"""Records: of 24 steps, mostly."""
Fields = dict[str, Any]
Filled = tuple[Fields, list[Filling] | Live, list[bytes], bool]
"""A record, who filled a block, each block's hash, and whether ``fresh`` may tell them; of an
arrival whose first blocks these are.
"""
_lines = json.Encoder().encode_lines


class Pair(Struct, array_like=True, gc=False):
    """A pair of numbers, which the garbage collector does not count: there are hundreds."""

    one: int
    other: int


class Backlog:
    """Takes records in order. The engine's thread puts; whoever encodes holds the lock."""

    def __init__(self, chains: ChainNumbers, *, says_who: bool = False) -> None:
        """``says_who``: whether it is told who fills new blocks, where that does not follow."""
        self._says_who = says_who
        self.lock = RLock()
        os.register_at_fork(after_in_child=partial(_renew, weakref.ref(self)))
        self._chains = chains
        self._records: deque[Fields] = deque()
        self._filled: deque[Filled] = deque()

    def __len__(self) -> int:
        """Records that wait."""
        return len(self._records)

    def put(self, records: Sequence[Fields]) -> None:
        """Add records that belong together."""
        self._records.extend(records)

    @property
    def due(self) -> bool:
        """Whether it is time to take all."""
        return len(self._records) >= BATCH

    def fill(
        self, record: Fields, whose: list[Filling], hashes: list[bytes], *, fresh: bool
    ) -> None:
        """A record that is to tell the chain numbers of blocks. ``whose``: who filled them;
        ``fresh``: whether these are those that the step says.
        """
        self._filled.append((record, whose, hashes, fresh))

    def arrive(self, record: Fields, live: Live) -> None:
        """A record that is to tell the chain numbers of somebody's first blocks."""
        self._filled.append((record, live, list(live.hashes[: live.many]), False))

    def settle(self) -> None:
        """Number what is to be numbered. The lock is held."""
        fills = [self._filled.popleft() for _ in range(len(self._filled))]
        hashes = list(chain.from_iterable([filled for _, _, filled, _ in fills]))
        first = self._chains.all_new(hashes)
        for record, whose, filled, fresh in fills:
            if isinstance(whose, Live):
                record["chain"] = self._chains.arrived(whose, first)
            else:
                self._tell(record, whose, filled, fresh, first)
            if first is not None:
                first += len(filled)
        self._chains.sweep()

    def _tell(
        self,
        record: Fields,
        whose: list[Filling],
        hashes: list[bytes],
        fresh: bool,
        first: int | None,
    ) -> None:
        """Who fills which blocks. ``first``: all are new, have got numbers, and this is the first
        one.
        """
        start = self._chains.all_new(hashes) if first is None else first
        if fresh and start is not None:
            record["fresh"] = start
            return
        numbers = [filling.number for filling in whose]
        if start is None:
            record["chain"] = list(map(Pair, numbers, self._chains.each(hashes)))
        elif numbers and self._says_who:
            record["fills"], record["fresh"] = numbers, start
        else:
            record["chain"] = list(map(Pair, numbers, count(start)))

    def take(self) -> tuple[bytes, int]:
        """All that waits, as lines, and how many they are. The lock is held."""
        many = len(self._records)
        self.settle()
        return _lines([self._records.popleft() for _ in range(many)]), many


def _renew(backlog: "weakref.ref[Backlog]") -> None:
    """In a child process: whoever held the lock is not there to release it."""
    found = backlog()
    if found is not None:
        found.lock = RLock()
