"""What is known of a request in one object, instead of in one map for each field.

The text sees maps all the same; the erased form reads the object.
"""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from nullblock.spec.carriers import Nothing, Zero
from nullblock.spec.concrete import Key, State, Test
from nullblock.spec.erased.windows import Window, Windows
from nullblock.spec.facts import Config
from nullblock.spec.fields import FIELDS
from nullblock.spec.indexed import LONGEST_ROW, IndexedEnv
from nullblock.spec.indexes import Stamps, Uncounted, Void

ENTRIES = ("frame", "born", "grant", "due", "ndraft")
"""The maps from the entries of the steps in flight."""
BRIEF = frozenset({"grows", "swept"})
"""Of the tables of one request at a time, whoever's turn it is: that is forgotten sooner in a map
of its own.
"""
_BY_REQUEST = tuple(f for f in FIELDS if FIELDS[f] in ("R>I", "T>I") and f not in BRIEF)


class _Slots:
    """Every map from requests to numbers has a slot."""

    __slots__ = (*_BY_REQUEST, "blocks", "nulls", "tables")

    def __init__(self) -> None:
        for f in _BY_REQUEST:
            setattr(self, f, 0)
        self.blocks = Nothing()
        """What a table has at its places."""
        self.nulls = 0
        """How many null blocks a table was last seen to begin with."""
        self.tables: list[_Slots] = []
        """Of a request whose tables have names of their own: their objects, by group."""


class Records(dict[Any, Any]):
    """The object of each request, and of each table with a name of its own. Of a request that has
    none everything is 0, and that is not kept: it has one from its arrival on. The first rule
    that asks for a table is about to put something into it.
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = range(groups if groups > 1 else 0)

    def __missing__(self, key: Any) -> _Slots:
        if isinstance(key, tuple):
            return self.make(key)
        made = _Slots()
        made.tables = [_Slots() for _ in self.groups]
        return made

    def make(self, key: Any) -> _Slots:
        """Objects from now on for a request and its tables: of these, that of `key`."""
        r = key[0] if isinstance(key, tuple) else key
        request = self[r] = self[r]  # one that is not kept may be made for it
        for g, table in zip(self.groups, request.tables, strict=True):
            self[r, g] = table
        found: _Slots = self[key]
        return found


class View:
    """One field of all requests, as a map whose absent keys read as 0."""

    __slots__ = ("field", "records")

    def __init__(self, records: Records, field: str) -> None:
        self.records, self.field = records, field

    def __getitem__(self, key: Any) -> Any:
        record = self.records.get(key)
        return 0 if record is None else getattr(record, self.field)

    def __setitem__(self, key: Any, value: Any) -> None:
        record = self.records.get(key)
        if record is None:
            if not value:
                return
            record = self.records.make(key)
        setattr(record, self.field, value)

    def __iter__(self) -> Iterator[Any]:
        return (r for r, record in self.records.items() if getattr(record, self.field))

    def __len__(self) -> int:
        values = list(map(attrgetter(self.field), self.records.values()))
        return len(values) - values.count(0)

    def items(self) -> Iterator[tuple[Any, Any]]:
        """Requests and what is not 0 of them."""
        return ((r, self[r]) for r in self)

    def clear(self) -> None:
        """Nothing is known any more of any request in this field."""
        for record in self.records.values():
            setattr(record, self.field, 0)

    def pop(self, key: Any, default: Any = None) -> Any:
        """Forget the request; all views of it go together."""
        record = self.records.get(key)
        if record is None:
            return default
        value = getattr(record, self.field)
        setattr(record, self.field, 0)
        return value


class Blocks(View):
    """The block tables of all requests, as one map from tables and places; where it is iterated,
    without the null blocks.
    """

    __slots__ = ()

    def __init__(self, records: Records) -> None:
        super().__init__(records, "blocks")

    def __getitem__(self, key: Any) -> Any:
        t, i = key
        record = self.records.get(t)
        return None if record is None else record.blocks[i]

    def __setitem__(self, key: Any, value: Any) -> None:
        t, i = key
        record = self.records.get(t)
        if record is None:
            record = self.records.make(t)
        record.blocks[i] = value

    def __iter__(self) -> Iterator[Any]:
        tables = ((t, record.blocks) for t, record in self.records.items())
        return ((t, i) for t, blocks in tables for i in blocks if blocks[i])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def clear(self) -> None:
        for record in self.records.values():
            record.blocks.clear()

    def pop(self, key: Any, default: Any = None) -> Any:
        t, i = key
        record = self.records.get(t)
        return default if record is None else record.blocks.pop(i, default)


class RecordEnv(IndexedEnv):
    """An indexed environment that keeps what is known of a request together, and the entries of
    steps in flight in lists.
    """

    def __init__(self, config: Config) -> None:
        self.records = Records(len(config.groups))
        self.windows = Windows()
        super().__init__(config)

    def start(self) -> State:
        self.records.clear()
        self.windows = Windows()
        return super().start()

    def first(self, sort: str, test: Test, key: Key, by: Any = None, known: Any = None) -> Any:
        if by is not None and by[0] == "outlived":
            if self.aligned_of(by[1]):
                first = self.first_held(by[1])
                last = self.last_between(test, first, self.length(by[1]))
                return None if last < first else last
            return self.last_from(test, self.first_held(by[1]))
        return super().first(sort, test, key, by, known)

    def exists(self, sort: str, test: Test, by: Any = None) -> bool:
        if by is not None and by[0] == "outlived" and self.aligned_of(by[1]):
            first = self.first_held(by[1])
            return self.last_between(test, first, self.length(by[1])) >= first
        return super().exists(sort, test, by)

    def count(self, sort: str, test: Test, by: Any = None) -> int:
        if sort == "R" and by is None:
            return len([r for r in self.requests if test(r)])
        return super().count(sort, test, by)

    def sum_over(self, sort: str, of: Key) -> int:
        if sort == "R":
            return sum([of(r) for r in self.requests])
        return super().sum_over(sort, of)

    def holding(self, blocks: Any) -> Any:
        if not blocks:
            return ()
        tables = ((t, record.blocks.values()) for t, record in self.records.items())
        return {t for t, held in tables if not blocks.keys().isdisjoint(held)}

    def length(self, t: Any) -> Any:
        """How many places a table has."""
        s: Any = self.state
        return s.tlen[t]

    def first_held(self, t: Any) -> int:
        # As there, in words that the eraser knows: mostly it is where it was seen last.
        s: Any = self.state
        i: int = self.records[t].nulls
        here = i < s.tlen[t] and s.tab[t, i] != self.NULL
        if here and (i == 0 or s.tab[t, i - 1] == self.NULL):
            return i
        return self.count_nulls(t)

    def count_nulls(self, t: Any) -> int:
        """How many null blocks a table begins with, counted anew where some were released."""
        record = self.records[t]
        i: int = record.nulls
        if i > record.tlen or (i > 0 and record.blocks[i - 1] != self.NULL):
            i = 0
        while i < record.tlen and record.blocks[i] == self.NULL:
            i += 1
        record.nulls = i
        return i

    def make_room(self, s: Any) -> None:
        """Room for the entries of one more step: at most one for each place in the list."""
        self.windows.open(s.nframe, len(s.run))

    def fill_row(self, m: Any, row: Any, low: int, high: int, x: Any) -> None:
        self.records[row].blocks.update(dict.fromkeys(range(low, high), x))

    def trim(self, m: Any, i: int) -> Any:
        if isinstance(m, Window):
            m.low = i
            return m
        return super().trim(m, i)

    def blank(self, field: str) -> Any:
        if field in BRIEF:  # once for whoever asks for slots
            return Zero()
        if field in ENTRIES and self.max_seqs <= LONGEST_ROW:
            return self.windows.make()
        if field == "tab":
            return Blocks(self.records)
        found = super().blank(field)
        if field in _BY_REQUEST and not isinstance(found, (Stamps, Void, Uncounted)):
            view = View(self.records, field)
            view.clear()
            return view
        return found
