"""The maps that hold the fields of a concrete state: what an absent key reads as."""

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
    **dict.fromkeys(("tab", "run", "frame", "hit", "rej", "inputof"), Nothing),
    "entry": Minus,
}
