"""Maps whose keys follow one another and leave in that order, as lists that share one origin."""

from collections.abc import Iterator
from typing import Any

SPARE = 2
"""So many places behind the last member are never filled: the erased form reads the key behind the
last one, and those just before the first one, as 0.
"""


class Windows:
    """The lists. The member of a map at `key` is at `key - base` in its list."""

    def __init__(self) -> None:
        self.base = 0
        self.all: list[Window] = []

    def make(self) -> "Window":
        """One more map."""
        window = Window(self)
        self.all.append(window)
        return window

    def open(self, first: int, many: int) -> None:
        """Make room for `many` members from `first` on; what every map has trimmed goes."""
        gone = min([w.low for w in self.all]) - self.base
        self.base += gone
        size = first + many + SPARE - self.base
        for w in self.all:
            cells = w.cells
            if gone > 0:
                del cells[:gone]
            if len(cells) < size:
                cells.extend([0] * (size - len(cells)))


class Window:
    """A map whose absent keys read as 0."""

    __slots__ = ("cells", "low", "origin")

    def __init__(self, origin: Windows) -> None:
        self.origin = origin
        self.cells: list[Any] = []
        self.low = 0
        """Keys below it are not wanted any more."""

    def __getitem__(self, key: int) -> Any:
        place = key - self.origin.base
        return self.cells[place] if key >= self.low and place < len(self.cells) else 0

    def __setitem__(self, key: int, value: Any) -> None:
        place = key - self.origin.base
        if place + SPARE >= len(self.cells):
            self.origin.open(key, 1)
            place = key - self.origin.base
        if place < 0:
            raise IndexError(f"{key} is trimmed")
        self.cells[place] = value

    def members(self, first: int, end: int) -> list[Any]:
        """What is at the keys from `first` to before `end`."""
        base = self.origin.base
        return self.cells[first - base : end - base]

    def items(self) -> Iterator[tuple[int, Any]]:
        """Keys and what is not 0 at them."""
        places = enumerate(self.cells, start=self.origin.base)
        return ((key, x) for key, x in places if x and key >= self.low)
