"""What is known of a request in one object, instead of in one map for each field.

The text sees maps all the same; the erased form reads the object.
"""

from collections.abc import Iterator
from operator import attrgetter
from typing import Any

from nullblock.spec.concrete import State
from nullblock.spec.erased.windows import Window, Windows
from nullblock.spec.facts import Config
from nullblock.spec.fields import FIELDS
from nullblock.spec.indexed import LONGEST_ROW, IndexedEnv, Stamps, Uncounted, Void

ENTRIES = ("frame", "born", "grant", "due", "ndraft")
"""The maps from the entries of the steps in flight."""
_BY_REQUEST = tuple(f for f in FIELDS if FIELDS[f] in ("R>I", "T>I"))


class _Slots:
    """Every map from requests to numbers has a slot."""

    __slots__ = _BY_REQUEST

    def __init__(self) -> None:
        for f in _BY_REQUEST:
            setattr(self, f, 0)


class Records(dict[Any, Any]):
    """The object of each request, and of each table with a name of its own. Of a request that has
    none everything is 0, and that is not kept: it has one from its arrival on. The first rule
    that asks for a table is about to put something into it.
    """

    def __missing__(self, key: Any) -> _Slots:
        made = _Slots()
        if isinstance(key, tuple):
            self[key] = made
        return made


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
            record = self.records[key] = _Slots()
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


class RecordEnv(IndexedEnv):
    """An indexed environment that keeps what is known of a request together, and the entries of
    steps in flight in lists.
    """

    def __init__(self, config: Config) -> None:
        self.records = Records()
        self.windows = Windows()
        super().__init__(config)

    def start(self) -> State:
        self.records.clear()
        self.windows = Windows()
        return super().start()

    def make_room(self, s: Any) -> None:
        """Room for the entries of one more step: at most one for each place in the list."""
        self.windows.open(s.nframe, len(s.run))

    def trim(self, m: Any, i: int) -> Any:
        if isinstance(m, Window):
            m.low = i
            return m
        return super().trim(m, i)

    def blank(self, field: str) -> Any:
        if field in ENTRIES and self.max_seqs <= LONGEST_ROW:
            return self.windows.make()
        found = super().blank(field)
        if field in _BY_REQUEST and not isinstance(found, (Stamps, Void, Uncounted)):
            view = View(self.records, field)
            view.clear()
            return view
        return found
