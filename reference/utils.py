"""Integer division that rounds up, and a read-only view of a list."""

from collections.abc import Iterator, Sequence
from typing import Generic, NoReturn, TypeVar, overload

T = TypeVar("T")


def cdiv(a: int, b: int) -> int:
    """``a / b`` rounded up, for negative ``a`` too."""
    return -(a // -b)


class ConstantList(Sequence[T], Generic[T]):
    """A live view of a list that only its owner may change."""

    __slots__ = ("_x",)

    def __init__(self, x: list[T]) -> None:
        self._x = x

    @overload
    def __getitem__(self, item: int) -> T: ...

    @overload
    def __getitem__(self, item: slice) -> list[T]: ...

    def __getitem__(self, item: int | slice) -> T | list[T]:
        return self._x[item]

    def __len__(self) -> int:
        return len(self._x)

    def __iter__(self) -> Iterator[T]:
        return iter(self._x)

    def __contains__(self, item: object) -> bool:
        return item in self._x

    def __repr__(self) -> str:
        return f"ConstantList({self._x!r})"

    def _refuse(self, *args: object) -> NoReturn:
        """Raise TypeError: whoever was given the view must not change the list."""
        raise TypeError("a constant list does not change")

    append = extend = insert = pop = remove = clear = __setitem__ = __delitem__ = _refuse

    def copy(self) -> list[T]:
        """The elements as a list of the caller's own."""
        return self._x.copy()
