"""The same answers as `nullblock.spec.concrete`, from indexes: for pools of thousands of blocks.

Ghost fields are not kept. `tests/spec/test_indexed.py` shows that every answer equals the
definition's.
"""

from collections import OrderedDict
from collections.abc import Iterable
from itertools import count, takewhile
from typing import Any

from nullblock.spec.carriers import CARRIERS, Zero
from nullblock.spec.concrete import Env, Key, State, Test, initial
from nullblock.spec.facts import Config
from nullblock.spec.heaps import HeapsInPlace, PlacedHeap
from nullblock.spec.sessions import may_stand_twice, order
from nullblock.spec.waiting import is_heap


class Stamps(OrderedDict[Any, int]):
    """A map to stamps, kept in their order: a new stamp is the greatest, or, if negative, among
    the least.
    """

    def __missing__(self, key: Any) -> int:
        return 0

    def __setitem__(self, key: Any, value: int) -> None:
        self.pop(key, 0)
        if value > 0:
            _PUT(self, key, value)
        elif value:
            before = list(takewhile(lambda k: self[k] < value, self))
            _PUT(self, key, value)
            for k in (key, *reversed(before)):
                self.move_to_end(k, last=False)


class Places(Stamps):
    """Stamps of which a new one may lie among the others."""

    def __setitem__(self, key: Any, value: int) -> None:
        self.pop(key, 0)
        behind = list(takewhile(lambda k: self[k] > value, reversed(self))) if value > 0 else []
        super().__setitem__(key, value)
        for k in reversed(behind):
            self.move_to_end(k)


_PUT = OrderedDict.__setitem__
"""Past the check above."""


class Hashes(dict[Any, Any]):
    """A map from blocks to hashes that also knows the blocks of each hash, first cached first."""

    def __init__(self) -> None:
        super().__init__()
        self.holders: dict[Any, dict[Any, None]] = {}
        self.changes = 0
        """How often a block has got another hash, or lost it."""

    def __missing__(self, key: Any) -> None:
        return None

    def __setitem__(self, b: Any, h: Any) -> None:
        old = self.pop(b, None)
        self.changes += 1
        if old is not None:
            # The hash goes to the end, as in BlockHashToBlockMap.pop: where lines spell two alike,
            # the later one is shown.
            holders = self.holders.pop(old)
            del holders[b]
            if holders:
                self.holders[old] = holders
        if h is not None:
            _NOTE(self, b, h)
            if h in self.holders:
                self.holders[h][b] = None
            else:
                self.holders[h] = {b: None}


_NOTE = dict.__setitem__


class Sparse(Zero):
    """A map that forgets keys set to zero, so that its length counts the others."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if value:
            super().__setitem__(key, value)
        else:
            self.pop(key, None)


class Passing(dict[int, Any]):
    """A map whose keys come one after another and leave in the same order."""

    def __missing__(self, key: int) -> int:
        return 0


class Void(dict[Any, Any]):
    """A ghost map that keeps nothing."""

    def __missing__(self, key: Any) -> None:
        return None

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


class Uncounted(Zero):
    """A ghost map of numbers that keeps nothing."""

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


LONGEST_ROW = 2**16
"""Running lists of at most so many requests get a place for each of them at once."""


class IndexedEnv(HeapsInPlace, Env):
    """An environment for ONE state, which `start` makes; sets are changed in place."""

    state: State

    def __init__(self, config: Config) -> None:
        super().__init__(config, checks=False)
        self.nulls: dict[Any, int] = {}
        """How many null blocks a table was last seen to begin with."""
        self._about: Any = None
        """What `_found` was last found for: which reading, for whom, in which cache."""
        self._found: int | None = None

    def start(self) -> State:
        """The initial state, bound to this environment."""
        self.nulls.clear()
        self._about = None
        self.state = initial(self)
        return self.state

    def blank(self, field: str) -> Any:
        match field:
            case "stamp" | "unused":
                return Stamps()
            case "rank" | "skip":
                return Places()
            case "heap" | "queue":
                return PlacedHeap()
            case "hsh":
                return Hashes()
            case "tlen":
                return Sparse()
            case "run" if self.max_seqs <= LONGEST_ROW:
                return [None] * (self.max_seqs + 2)
            case "pos" | "own" | "pw" | "done" | "hstamp" | "ix":
                return Void()
            case "cum" | "flown" | "landed" | "slip" | "since":
                return Uncounted()
            case "spot" | "nth" | "entry":
                return Void()
            case "made" | "loadfrom" | "loadto":
                return Uncounted()
            case "frame" | "born" | "grant" | "due" | "fend" | "ndraft":
                return Passing()
            case _:
                return CARRIERS.get(field, Zero)()

    def empty(self, sort: str) -> Any:
        return set() if sort == "R" else None

    def add(self, S: Any, x: Any) -> Any:
        if S is not None:
            S.add(x)
        return S

    def remove(self, S: Any, x: Any) -> Any:
        if S is not None:
            S.discard(x)
        return S

    def copied(self, S: Any) -> Any:
        return None if S is None else set(S)

    def shift(self, m: Any, i: int) -> Any:
        return m

    def drop(self, m: Any, i: int, n: int) -> Any:
        if isinstance(m, dict):
            return super().drop(m, i, n)
        del m[i]
        m.append(None)
        return m

    def trim(self, m: Any, i: int) -> Any:
        if m and next(reversed(m)) < i:
            m.clear()
        elif m:
            for j in range(next(iter(m)), i):
                m.pop(j, None)
        return m

    def exists(self, sort: str, test: Test, by: Any = None) -> bool:
        s: Any = self.state
        if by == "held":
            return bool(s.nfree < self.usable)
        if by in ("ready", "line"):
            return any(map(test, s.rank))
        if by == "skip":
            return any(map(test, s.skip))
        if by == "running":
            return any(map(test, s.run[: s.nr]))
        if by is not None and by[0] == "hsh":
            return by[1] in s.hsh.holders
        if by is not None and by[0] == "outlived":
            if self.aligned_of(by[1]):
                return any(map(test, range(self.first_held(by[1]), s.tlen[by[1]])))
            return bool(test(self.first_held(by[1])))
        if by is not None and by[0] == "awaited":
            return self.may_be_of_state(by[1]) and any(map(test, s.sched))
        if by == "items":
            return any(map(test, self._item_places()))
        if by == "pending":
            return any(map(test, range(s.na, s.nhit)))
        if by == "anew":
            return any(map(test, s.anew))
        return super().exists(sort, test, by)

    def may_be_of_state(self, h: Any) -> bool:
        """Whether h may be the hash of a state of an aligned table: asked before it is looked for.
        A subclass may know which group a hash is for.
        """
        return True

    def first(self, sort: str, test: Test, key: Key, by: Any = None, known: Any = None) -> Any:
        s: Any = self.state
        if by == "stamp":
            return next(iter(s.stamp), None)
        if by == "rank":
            return (
                min(s.rank, key=key, default=None) if self.priority else next(iter(s.rank), None)
            )
        if by == "skip":
            return next(filter(test, s.skip), None)
        if by == "holders":
            return min(filter(test, s.skip), key=key, default=None)
        if by == "unused":
            return next(iter(s.unused), None)
        if by in ("ready", "line"):
            ready = filter(test, self._heads())
            return min(ready, key=key, default=None) if self.priority else next(ready, None)
        if by == "places":
            return min(filter(test, self._any_places()), key=key, default=None)
        if by == "seats":
            return min(filter(test, range(s.nr)), key=key, default=None)
        if by == "flight":
            return min(filter(test, range(s.cur, s.nframe)), key=key, default=None)
        if by == "victim":
            return min(range(s.nr), key=key, default=None)
        if by is not None and by[0] == "outlived" and self.aligned_of(by[1]):
            held = range(self.first_held(by[1]), s.tlen[by[1]])
            return max(filter(test, held), default=None)
        if by is not None and by[0] == "outlived":
            return max(takewhile(test, count(self.first_held(by[1]))), default=None)
        if by in ("hit", "window"):
            return self._longest(test, by)
        if by == "said":
            most = s.ntok[s.lr] // self.span_unit
            return next(filter(test, range(most, -1, -1)), None)
        if by == "items":
            return min(filter(test, self._item_places()), key=key, default=None)
        if by is not None and by[0] == "hsh":
            return next(iter(s.hsh.holders.get(by[1], ())), None)
        if by is not None and by[0] == "run":
            return next((i for i in range(s.nr) if s.run[i] == by[1]), None)
        return super().first(sort, test, key, by)

    def _heads(self) -> Iterable[int]:
        """Whoever waits and may be the next to be tried: where a queue is kept as a heap, the
        heads of both.
        """
        s: Any = self.state
        if not is_heap(s):
            return s.rank  # type: ignore[no-any-return]
        if may_stand_twice(s):
            return {queue[0] for queue in (s.heap, s.queue) if len(queue)}
        waiting = s.rank.keys() - s.skip.keys() - s.passed
        heads = {min(waiting, key=lambda r: order(s, r))} if waiting else set()
        return heads | {s.heap[0]} if len(s.heap) else heads

    def first_held(self, t: Any) -> int:
        """The first place of a table that has not the null block. Null blocks come first
        (GROUP-9); where a reading of a table holds for a place behind, whose block no token sees,
        it holds for this one. In an aligned table there may be others between its states: it need
        not hold for this one, but for no place before it.
        """
        s: Any = self.state
        i, length = self.nulls.get(t, 0), s.tlen[t]
        if i > length or (i > 0 and s.tab[t, i - 1] != self.NULL):
            i = 0  # it was released since
        while i < length and s.tab[t, i] == self.NULL:
            i += 1
        self.nulls[t] = i
        return i

    def _any_places(self) -> range:
        """The places of the longest table of all."""
        s: Any = self.state
        tables = (t for r in self.requests for t in self.tables(r))
        return range(max((s.tlen[t] for t in tables), default=0))

    def _item_places(self) -> range:
        """The places that an encoder input has in a prompt, or among those of a step."""
        s: Any = self.state
        return range(max(s.ninput, self.most_items()) if self.encodes else 0)

    def most_items(self) -> int:
        """More encoder inputs no request has."""
        return max((len(q.items) for q in self.requests.values()), default=0)

    def _longest(self, test: Test, by: str) -> int | None:
        """The most blocks of the request that is looked up, or units of a hit, for which a reading
        holds.
        """
        s: Any = self.state
        about = (by, s.lr, s.ntok[s.lr], s.hsh.changes)
        if self._about != about:
            unit = self.span_unit if by == "hit" else self.block_size
            most = s.ntok[s.lr] // unit
            self._about = about
            self._found = next(filter(test, range(most, -1, -1)), None)
        return self._found

    def is_first(self, sort: str, x: Any, test: Test, key: Key, by: Any = None) -> bool:
        return x is not None and bool(self.first(sort, test, key, by) == x)

    def count(self, sort: str, test: Test, by: Any = None) -> int:
        s: Any = self.state
        if by == "line":
            return sum(map(bool, map(test, s.rank)))
        if by == "skip":
            return sum(map(bool, map(test, s.skip)))
        return len(s.tlen) if by == "tlen" else super().count(sort, test, by)

    def variety(self, sort: str, test: Test, key: Key, by: Any = None) -> int:
        s: Any = self.state
        if by == "running":
            return len(set(map(key, filter(test, s.run[: s.nr]))))
        return super().variety(sort, test, key, by)
