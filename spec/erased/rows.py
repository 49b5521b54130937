"""Many records of one kind, a list for each of their fields."""

from collections.abc import Callable, Iterator
from typing import Any


class Rows:
    """Iterates over records that are made when they are asked for."""

    __slots__ = ("lists", "make", "names")

    def __init__(
        self, make: Callable[..., Any], names: tuple[str, ...], *lists: list[Any]
    ) -> None:
        """`make` takes one of each list."""
        self.make, self.names, self.lists = make, names, lists

    @property
    def columns(self) -> dict[str, list[Any]]:
        """The lists, by name."""
        return dict(zip(self.names, self.lists, strict=True))

    def __iter__(self) -> Iterator[Any]:
        return map(self.make, *self.lists)

    def __len__(self) -> int:
        return len(self.lists[0])


def pair(*parts: Any) -> tuple[Any, ...]:
    """A tuple of its arguments."""
    return parts
