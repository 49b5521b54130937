"""Numbers in the order of ids, for a device that compares no strings (WAIT-1).

A request gets its number when it arrives, between those of its neighbours, and keeps it as long as
there is room between neighbours; where there is none, all that are alive get new ones.
"""

from bisect import bisect_left

_FIRST, _LAST = -(1 << 62), 1 << 62
_APART = 1 << 32
"""Between an id at either end and its neighbour, at most: ids often grow."""


class Ties:
    """The ids alive, in order, each with a number that no other has."""

    def __init__(self, first: int = _FIRST, last: int = _LAST) -> None:
        """All numbers lie between `first` and `last`."""
        self._first, self._last = first, last
        self._ids: list[str] = []
        self._number: dict[str, int] = {}

    def __getitem__(self, id: str) -> int:
        return self._number[id]

    def add(self, id: str) -> bool:
        """Number an id that is new; False: all others have got other numbers too."""
        at = bisect_left(self._ids, id)
        before = self._number[self._ids[at - 1]] if at else self._first
        after = self._number[self._ids[at]] if at < len(self._ids) else self._last
        number = (before + after) // 2
        if at == len(self._ids):
            number = min(number, before + _APART)
        elif at == 0:
            number = max(number, after - _APART)
        self._ids.insert(at, id)
        self._number[id] = number
        if before < self._number[id] < after:
            return True
        apart = (self._last - self._first) // (len(self._ids) + 1)
        assert apart > 0, f"{len(self._ids)} ids and too few numbers"
        self._number = {id: self._first + apart * i for i, id in enumerate(self._ids, start=1)}
        return False

    def remove(self, id: str) -> None:
        """An id that is alive no more."""
        del self._number[id]
        self._ids.pop(bisect_left(self._ids, id))
