"""The maps that hold the fields of a concrete state, what an absent key reads as, and what a
concrete environment answers about sets and maps.
"""

from typing import Any


class Zero(dict[Any, Any]):
    """A map whose absent keys read as 0."""

    def __missing__(self, key: Any) -> int:
        return 0


class Minus(dict[Any, Any]):
    """A map whose absent keys read as -1."""

    def __missing__(self, key: Any) -> int:
        return -1


class Nothing(dict[Any, Any]):
    """A map whose absent keys read as None."""

    def __missing__(self, key: Any) -> None:
        return None


class Empty(dict[Any, Any]):
    """A map whose absent keys read as the empty set."""

    def __missing__(self, key: Any) -> frozenset[Any]:
        return frozenset()


CARRIERS: dict[str, type[dict[Any, Any]]] = {
    "pos": Minus,
    "hsh": Nothing,
    "own": Empty,
    "users": Empty,
    "ends": Empty,
    "pw": Nothing,
    **dict.fromkeys(("tab", "run", "frame", "hit", "rej", "inputof", "asksof", "zero"), Nothing),
    **dict.fromkeys(("heap", "queue"), Nothing),
    "entry": Minus,
}


class Collections:
    """Sets and maps of a concrete state. What is changed is made anew."""

    def mem(self, S: Any, x: Any) -> bool:
        """Membership."""
        return x in S

    def card(self, S: Any) -> int:
        """Cardinality."""
        return len(S)

    def some(self, S: Any) -> Any:
        """Some member of a set, None of the empty one."""
        return min(S, default=None)

    def empty(self, sort: str) -> Any:
        """The empty set of a sort."""
        return frozenset()

    def add(self, S: Any, x: Any) -> Any:
        """The set with x in it."""
        return S | {x}

    def remove(self, S: Any, x: Any) -> Any:
        """The set without x."""
        return S - {x}

    def copied(self, S: Any) -> Any:
        """The set, for another field."""
        return S

    def fill(self, m: Any, low: int, high: int, x: Any) -> None:
        """Write x at m[low], …, m[high - 1]."""
        m.update(dict.fromkeys(range(low, high), x))

    def fill_row(self, m: Any, row: Any, low: int, high: int, x: Any) -> None:
        """Write x at m[row, low], …, m[row, high - 1]."""
        m.update({(row, i): x for i in range(low, high)})

    def drop(self, m: Any, i: int, n: int) -> Any:
        """The sequence m[0:n] without its i-th member."""
        return m.__class__((j if j < i else j - 1, m[j]) for j in range(n) if j != i)

    def shift(self, m: Any, i: int) -> Any:
        """The map with every value above i lowered by one: positions after the i-th member has
        left.
        """
        return m.__class__((x, n - 1 if n > i else n) for x, n in m.items())

    def trim(self, m: Any, i: int) -> Any:
        """The map without its keys below i."""
        return m.__class__((j, x) for j, x in m.items() if j >= i)

    def blank(self, field: str) -> Any:
        """An empty map for a field."""
        return CARRIERS.get(field, Zero)()
