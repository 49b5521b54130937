"""Numbers that stand for what a trace must not tell: request ids, and the content of blocks.

A number is given at first sight and forgotten once nothing can depend on it any more, so that
memory does not grow with the length of a recording.
"""

from bisect import bisect
from collections import deque
from collections.abc import Container, Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

Run = list[int]
"""The first of some consecutive numbers, and how many they are."""


class RequestNumbers:
    """Equal ids have equal numbers, as long as the engine may remember the id."""

    REMEMBERED = 64
    """Steps for which the number of a finished request is kept: far more than can be in flight."""

    def __init__(self) -> None:
        self.of: dict[str, int] = {}
        self._next = 0
        self._finished: deque[tuple[int, list[str]]] = deque()
        self._last: dict[str, int] = {}
        """The last of the steps there that report an end of this id."""

    def number(self, id: str) -> int:
        """The number of an id, a new one if it has none."""
        if id not in self.of:
            self.of[id] = self._next
            self._next += 1
        return self.of[id]

    def each(self, ids: list[str]) -> list[int]:
        """The numbers of ids."""
        try:
            return list(map(self.of.__getitem__, ids))
        except KeyError:
            return list(map(self.number, ids))

    def finished(
        self, step: int, ids: Iterable[str], *live: Container[str], left: Container[str] = ()
    ) -> None:
        """Step ``step`` reports that these ended: they will be forgotten if they stay away.

        Who had an id before may have ended long ago when steps of the next one are in flight, so
        that its last end counts. ``live``: whoever has a number still; of them an end is to come.
        ``left``: who has ended and is told of for all that: as many steps on it is asked again.
        """
        self._remember(step, list(ids))
        while self._finished and self._finished[0][0] <= step - self.REMEMBERED:
            told, ended = self._finished.popleft()
            self._remember(step, [id for id in ended if self._last.get(id) == told and id in left])
            for id in ended:
                if self._last.get(id) == told:
                    del self._last[id]
                    if not any(id in those for those in live):
                        self.of.pop(id, None)

    def _remember(self, step: int, ids: list[str]) -> None:
        if ids:
            self._finished.append((step, ids))
            self._last.update(dict.fromkeys(ids, step))


class AdapterNumbers:
    """Adapters are numbered from 1 as they appear, and forgotten once nobody alive has them."""

    def __init__(self) -> None:
        self._of: dict[int | None, int] = {}
        self._next = 1
        self._users: dict[str, int | None] = {}
        """The adapter of each live request that has one."""

    def add(self, id: str, adapter: int | None) -> int:
        """A request arrives; the number that stands for its adapter, which may lack one of its
        own.
        """
        self._users[id] = adapter
        if adapter not in self._of:
            self._of[adapter] = self._next
            self._next += 1
        return self._of[adapter]

    def remove(self, id: str) -> None:
        """A request ends."""
        if id not in self._users:
            return
        adapter = self._users.pop(id)
        if adapter not in self._users.values():
            del self._of[adapter]


class Mark(NamedTuple):
    """A moment. When it is as many blocks ago as there are, what nobody has had since is gone."""

    given_out: int
    """Blocks that were given out before it."""
    first: int
    """The first number given since."""
    held: set[bytes]
    """Hashes with lower numbers that somebody had then, or has had since."""


class Live(Struct, gc=False, eq=False):
    """The hashes of a live request."""

    hashes: Sequence[bytes]
    """All of them: they grow by themselves."""
    many: int
    """Those of its first blocks, whose numbers are ``runs``."""
    runs: list[Run]


class ChainNumbers:
    """Equal block hashes have equal numbers, as long as a block with that hash may exist.

    A block that nobody holds leaves the cache at the latest when as many blocks as there are have
    been given out since. Only that is relied on, and nothing that the engine says about its cache,
    which may be wrong. When there are many numbers, the moment is marked; when it is that long
    ago, numbers are kept that are younger, or that somebody has had since. So nothing needs to be
    kept of those who have ended.
    """

    def __init__(self, num_blocks: int, sweep_above: int = 2**18, *, events: bool = False) -> None:
        """Numbers are looked through when there are more than ``sweep_above``.

        ``events``: hashes are looked up as KV events spell them, too.
        """
        self._of: dict[bytes, int] = {}
        self._short: dict[int, int] | None = {} if events else None
        self._next = 0
        self._num_blocks = num_blocks
        self._least_sweep = self._sweep_above = sweep_above
        self._live: dict[str, Live] = {}
        self._mark: Mark | None = None
        self.given_out = 0
        """Blocks taken from the free queue so far: at least that many."""

    def add(self, id: str, hashes: Sequence[bytes], many: int | None = None) -> list[Run]:
        """A request arrives; the numbers of its first so many blocks, of all if None, as runs."""
        self.sweep()
        return self.arrived(self.expect(id, hashes, len(hashes) if many is None else many))

    def expect(self, id: str, hashes: Sequence[bytes], many: int) -> Live:
        """A request arrives; its first so many blocks are to be numbered yet."""
        live = self._live[id] = Live(hashes, many, [])
        return live

    def arrived(self, live: Live, first: int | None = None) -> list[Run]:
        """The numbers of the first blocks of somebody expected, as runs. ``first``: all of them
        are new, have got numbers, and this is the first one.
        """
        if first is None:
            live.runs = self._runs(live.hashes[: live.many])
        elif live.many:
            live.runs = [[first, live.many]]
        return live.runs

    def _runs(self, hashes: Sequence[bytes]) -> list[Run]:
        """The numbers of hashes, as runs. Mostly all behind the first new one are new, too."""
        numbers = list(map(self._of.get, hashes))
        known = numbers.index(None) if None in numbers else len(numbers)
        self._seen_again(hashes[:known])
        runs: list[Run] = []
        start = numbers[0] if known else None
        if start is not None and numbers[:known] == list(range(start, start + known)):
            runs.append([start, known])
        else:
            self._extend(runs, hashes[:known])
        first = self.all_new(hashes[known:]) if known < len(hashes) else None
        if first is None:
            self._extend(runs, hashes[known:])
        elif runs and sum(runs[-1]) == first:
            runs[-1][1] += len(hashes) - known
        else:
            runs.append([first, len(hashes) - known])
        return runs

    def remove(self, id: str) -> None:
        """A request ends."""
        self._live.pop(id, None)

    def _seen_again(self, hashes: Iterable[bytes]) -> None:
        """Somebody has these, which have numbers."""
        if self._mark is not None:
            self._mark.held.update(hashes)

    def runs(self, id: str) -> list[Run]:
        """The numbers of a live request's blocks so far."""
        if id not in self._live:
            return []
        live = self._live[id]
        runs = [list(run) for run in live.runs]
        self._extend(runs, live.hashes[live.many :])
        return runs

    def changed(self, id: str, first: int) -> None:
        """From that block on a live request has other hashes than it had."""
        live = self._live.get(id)
        if live is not None and first < live.many:
            live.many, live.runs = 0, []

    def _extend(self, runs: list[Run], hashes: Iterable[bytes]) -> None:
        for number in self.each(hashes):
            _append(runs, number)

    def known(self, hash: bytes | int) -> int | None:
        """The number of a hash, if it has one; a whole number is its last 64 bits."""
        if isinstance(hash, int):
            return self._short.get(hash) if self._short is not None else None
        return self._of.get(hash)

    def cached(self, hash: bytes) -> int:
        """The number of a hash that a block carries now, a new one if it has none."""
        return self.number(hash)

    def number(self, hash: bytes) -> int:
        """The number of a hash, a new one if it has none."""
        return self.each((hash,))[0]

    def each(self, hashes: Iterable[bytes]) -> list[int]:
        """The numbers of hashes, new ones for those that have none."""
        of, fresh = self._of, self._next
        told = []
        for hash in hashes:
            number = of.setdefault(hash, fresh)
            if number == fresh:
                fresh += 1
                if self._short is not None:
                    self._short[int.from_bytes(hash[-8:], "big")] = number
            else:
                self._seen_again((hash,))
            told.append(number)
        self._next = fresh
        return told

    def all_new(self, hashes: Sequence[bytes]) -> int | None:
        """The first number of hashes that have none and differ: they get consecutive ones.

        None, and nothing is changed, where that is not so.
        """
        of, first = self._of, self._next
        due = range(first, first + len(hashes))
        numbers = list(map(of.setdefault, hashes, due))
        if numbers != list(due):
            for hash, number, expected in zip(hashes, numbers, due, strict=True):
                if number == expected:
                    del of[hash]
            return None
        self._next = due.stop
        if self._short is not None:
            for hash, number in zip(hashes, due, strict=True):
                self._short[int.from_bytes(hash[-8:], "big")] = number
        return first

    def sweep(self) -> None:
        """Forget what no block can have, if there are many numbers."""
        if len(self._of) <= self._sweep_above:
            return
        mark, self._mark = self._mark, None
        if mark is None:
            held = set[bytes]()
            for live in self._live.values():
                held.update(live.hashes)
            self._mark = Mark(self.given_out, self._next, held)
        elif mark.given_out + self._num_blocks > self.given_out:
            self._mark = mark
        else:
            self._of = {h: n for h, n in self._of.items() if n >= mark.first or h in mark.held}
            if self._short is not None:
                numbers = set(self._of.values())
                self._short = {h: n for h, n in self._short.items() if n in numbers}
            self._sweep_above = max(self._least_sweep, len(self._of))


class Ties:
    """Numbers that order requests of one priority and arrival as their ids do. A session may have
    several chunks of one arrival, with one number.
    """

    def __init__(self) -> None:
        self._classes: dict[tuple[int, float], list[tuple[str, float]]] = {}

    def add(self, key: tuple[int, float], id: str) -> float | None:
        """The place of a request among those alive; None if there is no number left for it."""
        members = self._classes.setdefault(key, [])
        at = bisect(members, (id,))
        if at < len(members) and members[at][0] == id:
            members.insert(at, members[at])
            return members[at][1]
        before = members[at - 1][1] if at else None
        after = members[at][1] if at < len(members) else None
        match before, after:
            case None, None:
                tie = 0.0
            case None, float(b):
                tie = b - 1.0
            case float(a), None:
                tie = a + 1.0
            case float(a), float(b):
                tie = (a + b) / 2
                if not a < tie < b:
                    return None
        members.insert(at, (id, tie))
        return tie

    def remove(self, key: tuple[int, float], id: str) -> None:
        """A request ends, or has a new arrival."""
        members = self._classes.get(key, [])
        at = bisect(members, (id,))
        if at < len(members) and members[at][0] == id:
            del members[at]
        if not members:
            self._classes.pop(key, None)


def _append(runs: list[Run], number: int) -> None:
    if runs and runs[-1][0] + runs[-1][1] == number:
        runs[-1][1] += 1
    else:
        runs.append([number, 1])


def runs(numbers: Iterable[int]) -> list[Run]:
    """Numbers that follow each other as runs: the first, and how many. The recorder stands alone,
    so that it cannot ask `nullblock.conformance.consecutive`.
    """
    found: list[Run] = []
    for number in numbers:
        _append(found, number)
    return found
