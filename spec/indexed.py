"""The same answers as `nullblock.spec.concrete`, from indexes: for pools of thousands of blocks.

Ghost fields are not kept. `tests/spec/test_indexed.py` shows that every answer equals the
definition's.
"""

from collections.abc import Iterable
from itertools import dropwhile, filterfalse, islice
from typing import Any

from nullblock.spec.carriers import CARRIERS, Zero
from nullblock.spec.concrete import Env, Key, State, Test, initial
from nullblock.spec.facts import Config
from nullblock.spec.heaps import HeapsInPlace, PlacedHeap
from nullblock.spec.indexes import Hashes, Passing, Places, Sparse, Stamps, Uncounted, Void
from nullblock.spec.longest_hits import LongestHits
from nullblock.spec.searches import Searches
from nullblock.spec.sessions import may_stand_twice, order
from nullblock.spec.waiting import is_heap, takes_place

LONGEST_ROW = 2**16
"""Running lists of at most so many requests get a place for each of them at once."""


class IndexedEnv(LongestHits, Searches, HeapsInPlace, Env):
    """An environment for ONE state, which `start` makes; sets are changed in place."""

    state: State

    def __init__(self, config: Config) -> None:
        super().__init__(config, checks=False)
        self.queues_twice = False
        """Whether somebody may stand twice in the skipped queue."""
        self.nulls: dict[Any, int] = {}
        """How many null blocks a table was last seen to begin with."""
        self._places_of: Any = None
        """What `_places` were last found for."""
        self._places: set[int] = set()
        self._firsts_of: Any = None
        """What `_firsts` were last found for."""
        self._firsts: dict[str, int | None] = {}
        self._sums_of: Any = None
        """What `_sums` were last found for."""
        self._sums: dict[Any, int] = {}
        self._reported: Any = None
        """What `_concerned` were last found for: blocks, and how many they were."""
        self._how_many = 0
        self._concerned: set[Any] = set()

    def start(self) -> State:
        """The initial state, bound to this environment."""
        self.nulls.clear()
        self._places_of = self._sums_of = self._reported = self._firsts_of = None
        self.forget_hits()
        self.state = initial(self)
        self.queues_twice = bool(may_stand_twice(self.state))
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
        if by is not None and by[0] == "hsh":  # asked far more often than anything else
            return by[1] in s.hsh.holders
        if by == "held":
            return bool(s.nfree < self.usable)
        if by in ("ready", "line"):
            return any(map(test, self._left(s.rank)))
        if by == "skip":
            return self._first_left(by, test) is not None
        if by is not None and by[0] == "adapter":
            return by[1] in self._adapters()
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
        if by == "lost":
            return any(map(test, s.missing))
        if by == "short":
            return any(map(test, self._short()))
        if by == "seats of the short":
            return any(map(test, self._short_seats()))
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
        if by == "skip" or (by == "line" and not self.priority):
            return self._first_left(by, test)
        if by == "holders":
            return min(filter(test, self._left(s.skip)), key=key, default=None)
        if by == "unused":
            return next(iter(s.unused), None)
        if by == "padding":
            return self.first_from(test, s.na + 1)
        if by is not None and by[0] == "last":
            last = self.last_between(test, 0, s.tlen[by[1]] - 1)
            return None if last < 0 else last
        if by in ("ready", "line"):
            ready = filter(test, self._heads())
            return min(ready, key=key, default=None) if self.priority else next(ready, None)
        if by == "places":
            return min(filter(test, self._any_places()), key=key, default=None)
        if by == "seats of the short":
            return min(filter(test, self._short_seats()), key=key, default=None)
        if by == "short":
            return min(filter(test, self._short()), key=key, default=None)
        if by == "lost":
            return min(filter(test, s.missing), key=key, default=None)
        if by == "flight":
            return min(filter(test, range(s.cur, s.nframe)), key=key, default=None)
        if by == "victim":
            return min(range(s.nr), key=key, default=None)
        if by is not None and by[0] == "outlived" and self.aligned_of(by[1]):
            held = range(self.first_held(by[1]), s.tlen[by[1]])
            return max(filter(test, held), default=None)
        if by is not None and by[0] == "outlived":
            return self.last_from(test, self.first_held(by[1]))
        if by in ("hit", "window"):
            return self.longest(test, by)
        if by == "said":
            return self.longest_first(test)
        if by is not None and by[0] == "said":
            return self.longest_of(test, by[1])
        if by == "items":
            return min(filter(test, self._item_places()), key=key, default=None)
        if by is not None and by[0] == "hsh":
            return next(iter(s.hsh.holders.get(by[1], ())), None)
        if by is not None and by[0] == "run":
            return next((i for i in range(s.nr) if s.run[i] == by[1]), None)
        return super().first(sort, test, key, by)

    def _left(self, queue: dict[int, Any]) -> Iterable[int]:
        """Whoever stands in a queue and may still be tried in this step, in its order: passing
        over whoever was passed over is what makes a long queue cheap.
        """
        passed: Any = self.state.passed  # type: ignore[attr-defined]
        if not passed or self.queues_twice:
            return queue
        return filterfalse(passed.__contains__, queue)

    def _first_left(self, by: str, test: Test) -> int | None:
        """The first of a queue who may still be tried in this step, and for whom a reading holds.
        Who stands there twice may be passed over twice.
        """
        # But for those who stand twice in words that the eraser knows.
        if may_stand_twice(self.state):
            return next(filter(test, self._left(self._queue(by))), None)
        r = self.first_in(by)
        while r is not None and not test(r):
            r = self.next_in(by, r)
        return r

    def _queue(self, by: str) -> dict[int, Any]:
        s: Any = self.state
        return s.skip if by == "skip" else s.rank  # type: ignore[no-any-return]

    def first_in(self, by: str) -> int | None:
        """Whoever stands first in a queue of those that were not passed over in this step: asked
        several times while one is tried, and found once, since nobody gets another place but
        whoever joins or leaves a queue, or is passed over.
        """
        s: Any = self.state
        about = (s.steps, s.nwait, len(s.passed))
        if self._firsts_of != about:
            self._firsts_of, self._firsts = about, {}
        if by not in self._firsts:
            self._firsts[by] = next(iter(self._left(self._queue(by))), None)
        return self._firsts[by]

    def next_in(self, by: str, r: int) -> int | None:
        """Whoever stands behind r there."""
        from_r = dropwhile(lambda q: q != r, self._left(self._queue(by)))
        return next(islice(from_r, 1, None), None)

    def _adapters(self) -> set[int]:
        """The adapters that take places: others do when somebody begins to run, or is computed."""
        s: Any = self.state
        about = (s.steps, s.phase, s.nr, s.budget)
        if self._places_of != about:
            running = s.run[: s.nr]
            self._places = {self.adapter(r) for r in running if takes_place(s, r)}
            self._places_of = about
        return self._places

    def _short(self) -> set[Any]:
        """Whoever holds blocks that are reported as not loaded, or did when that was reported:
        while a report is dealt with no table gets blocks.
        """
        s: Any = self.state
        if self._reported is not s.invalid or self._how_many != len(s.invalid):
            self._reported, self._how_many = s.invalid, len(s.invalid)
            self._concerned = {self.owner(t) for t in self.holding(s.invalid)}
        return self._concerned

    def _short_seats(self) -> Iterable[int]:
        """The indices of those that run."""
        s: Any = self.state
        short = self._short()
        return [i for i in range(s.nr) if s.run[i] in short] if short else ()

    def holding(self, blocks: Any) -> Iterable[Any]:
        """The tables that have some of these blocks."""
        s: Any = self.state
        return {t for (t, _), b in s.tab.items() if b in blocks} if blocks else ()

    def _heads(self) -> Iterable[int]:
        """Whoever waits and may be the next to be tried: where a queue is kept as a heap, the
        heads of both.
        """
        s: Any = self.state
        if not is_heap(s):
            return self._left(s.rank)
        if self.queues_twice:
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

    def skip_read(self, r: Any) -> bool:
        # As there, in words that the eraser knows; and the next.
        if r is None:
            return False
        return self.requests[r].skip_reading_prefix_cache

    def adapter(self, r: Any) -> int:
        if r is None:
            return 0
        return self.requests[r].adapter

    def most_items(self) -> int:
        """More encoder inputs no request has."""
        return max((len(q.items) for q in self.requests.values()), default=0)

    def is_first(self, sort: str, x: Any, test: Test, key: Key, by: Any = None) -> bool:
        if x is None:
            return False
        return bool(self.first(sort, test, key, by) == x)

    def count(self, sort: str, test: Test, by: Any = None) -> int:
        s: Any = self.state
        if by == "line":
            return sum(map(bool, map(test, s.rank)))
        if by == "skip":
            return sum(map(bool, map(test, s.skip)))
        return len(s.tlen) if by == "tlen" else super().count(sort, test, by)

    def matching(self, m: Any, low: int, high: int, x: Any, of: Any) -> int:
        s: Any = self.state
        if m is not s.frame or of is not s.grant:
            return super().matching(m, low, high, x, of)
        about = (low, high)  # entries have places of their own, and stay as they are
        if self._sums_of != about:
            self._sums = {}
            for i in range(low, high):
                self._sums[m[i]] = self._sums.get(m[i], 0) + of[i]
            self._sums_of = about
        return self._sums.get(x, 0)

    def variety(self, sort: str, test: Test, key: Key, by: Any = None) -> int:
        s: Any = self.state
        if by == "running":
            return len(set(map(key, filter(test, s.run[: s.nr]))))
        if by == "adapters":
            return len(self._adapters())
        return super().variety(sort, test, key, by)
