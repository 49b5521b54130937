"""Whether two engines printed the same lines for a scenario.

Hashes may be spelled differently: they are compared by first appearance, and the entries of
``cached_map`` by their block lists. Of an ``EXCEPTION`` only that it was raised counts, and
nothing after it. The header's ``vllm``, ``config`` and ``ignored`` and the trailer's digest belong
to whoever printed them.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

OWN_FIELDS = {"header": {"vllm", "config", "ignored"}, "trailer": {"sha256"}}
"""Fields that are not compared, by kind of line."""


class _Absent:
    """Where one side has a value and the other has not even the key or the line."""

    def __repr__(self) -> str:
        return "nothing"


ABSENT = _Absent()


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two runs part."""

    line: int
    """From 1, the header included."""
    event: str
    """The kind of line on the left, with its step or event number."""
    path: str
    """Keys and indexes inside the line, ``state.requests.a.computed``; empty: the line itself."""
    left: Any
    right: Any

    def __str__(self) -> str:
        place = f"line {self.line} ({self.event})" + (f", {self.path}" if self.path else "")
        return f"{place}: {_short(self.left)} on the left, {_short(self.right)} on the right"


def first_difference(left: Iterable[str], right: Iterable[str]) -> Difference | None:
    """The first difference between two lists of lines, or None.

    Raises ``ValueError`` for a line that is not JSON.
    """
    comparison = Comparison()
    for left_line, right_line in zip_longest(left, right):
        a = {} if left_line is None else json.loads(left_line)
        b = {} if right_line is None else json.loads(right_line)
        if a.get("ev") == b.get("ev") == "EXCEPTION":
            return None
        found = comparison.difference(a, b)
        if found is not None:
            return found
    return None


class Comparison:
    """Compares two runs line by line, as they come."""

    def __init__(self) -> None:
        self.number = 0
        self.left, self.right = HashNames(), HashNames()

    def difference(self, a: dict[str, Any], b: dict[str, Any]) -> Difference | None:
        """What differs in the next line; an empty one stands for none."""
        self.number += 1
        kinds = a.get("ev", ABSENT), b.get("ev", ABSENT)
        if kinds[0] != kinds[1]:
            return Difference(self.number, _event(a or b), "", *kinds)
        if kinds[0] == "EXCEPTION":
            return None
        found = next(_differences(self.left.named(a), self.right.named(b), ""), None)
        return None if found is None else Difference(self.number, _event(a), *found)


class HashNames:
    """Replaces hashes by numbers in the order in which they first appear in a run."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def named(self, fields: dict[str, Any]) -> dict[str, Any]:
        """A line ready for comparison; lines have to come in their order."""
        own = OWN_FIELDS.get(fields["ev"], ())
        kept = {key: value for key, value in fields.items() if key not in own}
        for event in kept.get("kv_events", ()):
            event["block_hashes"] = [self._name(h) for h in event.get("block_hashes", ())]
            if event.get("parent_block_hash") is not None:
                event["parent_block_hash"] = self._name(event["parent_block_hash"])
        state = kept.get("state")
        if state and "block_hash" in state:
            by_block = sorted(state["block_hash"].items())
            by_list = sorted(state["cached_map"].items(), key=lambda item: item[1])
            kept["state"] = state | {
                "block_hash": {block: self._name(hash) for block, hash in by_block},
                "cached_map": {self._name(hash): blocks for hash, blocks in by_list},
            }
        return kept

    def _name(self, spelling: Any) -> str:
        # The group at the end is no part of the spelling: it has to agree as it is.
        hash, _, group = str(spelling).partition(":")
        name = self._names.setdefault(hash, f"hash {len(self._names)}")
        return f"{name}:{group}" if group else name


def _differences(a: Any, b: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Each place where two JSON values differ, as ``(path, left, right)``."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in [*a, *(key for key in b if key not in a)]:
            inner = f"{path}.{key}".removeprefix(".")
            yield from _differences(a.get(key, ABSENT), b.get(key, ABSENT), inner)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for index, (x, y) in enumerate(zip(a, b, strict=True)):
            yield from _differences(x, y, f"{path}[{index}]")
    # True == 1 in Python and not in JSON.
    elif a is not b and (type(a) is not type(b) or a != b):
        yield path, a, b


def _event(fields: dict[str, Any]) -> str:
    number = [f"{key} {fields[key]}" for key in ("step", "n") if key in fields]
    return " ".join([str(fields.get("ev")), *number])


def _short(value: Any) -> str:
    text = repr(value) if value is ABSENT else json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
