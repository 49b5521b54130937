"""Every field of every record, from the types, and how a value of it is altered."""

import copy
from collections.abc import Iterator
from typing import Any, get_args

from bases import Lines
from msgspec import Struct
from msgspec.structs import fields

from nullblock.conformance.trace.records import KINDS

Path = tuple[str, ...]


def every_field(kinds: dict[str, type[Struct]] = KINDS) -> list[Path]:
    """The leaves of all records: kind of record, then names, lists of parts passed through."""
    every = ((kind, *path) for kind, record in kinds.items() for path in _leaves(record))
    return list(dict.fromkeys(every))


def _leaves(record: type[Struct]) -> Iterator[Path]:
    for field in fields(record):
        inner = list(_parts(field.type))
        if not inner:
            yield (field.name,)
        for part in inner:
            for rest in _leaves(part):
                yield (field.name, *rest)


def _parts(kind: Any) -> Iterator[type[Struct]]:
    """The structs inside a type."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        yield kind
    for argument in get_args(kind):
        yield from _parts(argument)


def alterations(lines: Lines, path: Path, most: int = 6) -> Iterator[tuple[int, Lines]]:
    """The trace with one occurrence of a field altered, and the index of that record.

    A field that is not there is put there if others of its kind have it as a list.
    """
    done = 0
    for at, line in enumerate(lines):
        if line["ev"] != path[0] or done >= most:
            continue
        for holder in range(_holders(line, path[1:-1])):
            told = copy.deepcopy(line)
            inside = list(_inside(told, path[1:-1]))[holder]
            if _alter(inside, path[-1]):
                done += 1
                yield at, [*lines[:at], told, *lines[at + 1 :]]
                break


def _holders(line: Any, path: Path) -> int:
    return len(list(_inside(line, path)))


def _inside(value: Any, path: Path) -> Iterator[dict[str, Any]]:
    """The objects at a path."""
    if isinstance(value, list):
        for member in value:
            yield from _inside(member, path)
    elif isinstance(value, dict):
        if not path:
            yield value
        elif path[0] in value:
            yield from _inside(value[path[0]], path[1:])


def _alter(holder: dict[str, Any], name: str) -> bool:
    """Another value for a field; False if there is none to change."""
    if name not in holder and (name not in PUT or holder.get("t") == "cleared"):
        return False  # an event that empties everything has no field
    old = holder.get(name, PUT.get(name))
    if name not in holder:
        if name == "gone" and "ev" not in holder:
            old = holder["ids"][:1]  # of a step in flight
        holder[name] = old
        return old != []
    holder[name] = other(old, name)
    return bool(holder[name] != old)


PUT: dict[str, Any] = {
    "async_scheduling": True,
    "eagle_group": True,
    "eagle": True,
    "pipeline_parallel_size": 2,
    "data_parallel_rank": 1,
    "disable_chunked_mm_input": True,
    "group": 1,
    "commit": "c0ffee",
    "features": ["kv_connector"],
    "preempted": [0],
    "finished": [0],
    "resumed": [0],
    "placeholders": 1,
    "discard": 1,
    "gone": [0],
    "name": "r",
    "tie": 1.0,
    "skip_reading_prefix_cache": True,
    "rejected": [[2, 0]],
    "ended": True,
}
"""What is put where a field is left out."""
EMPTY: dict[str, Any] = {
    "all_tokens": [[0, 5]],
    "blocks": [[0, [[1]]]],
    "chain": [[0, 1]],
    "chains": [[1, 0]],
    "ref_cnt": [[1, 1]],
}
"""What is put into an empty list."""
CHOICES = {
    "pause_state": ("PAUSED_ALL", "PAUSED_NEW", "UNPAUSED"),
    "policy": ("fcfs", "priority"),
    "runner_type": ("generate", "pooling"),
    "spec_method": ("ngram", "eagle", "draft_model"),
    "block_ids": ("exact", "opaque", "absent"),
    "start": ("empty", "unknown"),
    "status": ("WAITING", "RUNNING"),
    "reason": ("stop", "length"),
    "failure_policy": ("recompute", "fail"),
    "mamba": ("none", "all", "align"),
    "during": ("schedule", "update"),
    "version": ("2.0",),
}
"""Fields with a few values."""


def other(value: Any, name: str = "") -> Any:
    """Another value of the same type."""
    if name in ("chain", "is_embed") and value and isinstance(value[-1], list):
        *kept, [first, second] = value
        return [*kept, [first, second - 1] if second > 1 else [first + 1, second]]
    if name == "min_tokens":
        return value + 30
    if name in CHOICES:
        return next(v for v in CHOICES[name] if v != value)
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value + 1.5  # past the next one in order
        case str():
            return "absent" if value in ("complete", "sampled") else value + "0"
        case None:
            return []
        case [first, *rest] if not isinstance(first, list) or not rest:
            return [other(first), *rest] if rest else [other(first)]
        case [*firsts, last]:
            return [*firsts, other(last)]
        case []:
            return EMPTY.get(name, [0])
        case _:
            raise TypeError(f"no other value for {value!r}")
