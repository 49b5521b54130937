"""Violations for tests: recorded decisions altered in one way, as files."""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from alterations import ALTERATIONS, DRAFT_ALTERATIONS, first
from traces import documents, unsealed

from nullblock.conformance import bundled
from nullblock.conformance.trace import source
from nullblock.conformance.trace.reader import TraceReader

Lines = list[dict[str, Any]]


@cache
def _recorded(path: Path, steps: int) -> Lines:
    with path.open("rb") as stream:
        lines = documents(b"\n".join(source.lines(stream)))
    last = next(i for i, line in enumerate(lines) if line.get("step") == steps)
    return lines[:last]


def recorded(path: Path = bundled.TRACE, steps: int = 500) -> Lines:
    """The first steps of a bundled recording."""
    return copy.deepcopy(_recorded(path, steps))


@cache
def _written_out(path: Path, steps: int) -> Lines:
    found: Lines = []
    for located in TraceReader(path):
        line = json.loads(msgspec.json.encode(located.record))
        if line.get("step") == steps:
            break
        found.append(line)
    return found


def drafted() -> Lines:
    """The first steps of the bundled recording with drafts, short forms written out."""
    return copy.deepcopy(_written_out(bundled.DRAFTED, 150))


def agents() -> Lines:
    """The first steps of the bundled recording with KV events, short forms written out, unsealed;
    from its 322nd step on blocks leave the cache.
    """
    header, *lines = copy.deepcopy(_written_out(bundled.AGENTS, 400))
    return [header | {"sealed": False}, *lines]


def altered(folder: Path, name: str, path: Path = bundled.TRACE) -> tuple[Path, int]:
    """A trace with one decision altered, and the line of that decision."""
    _, kind, suits, alter = (ALTERATIONS | DRAFT_ALTERATIONS)[name]
    lines = (
        _written_out(bundled.DRAFTED, 150) if name in DRAFT_ALTERATIONS else _recorded(path, 500)
    )
    at = first(lines, kind, suits)
    lines = copy.deepcopy(lines[: at + 3])
    alter(lines[at])
    file = folder / "altered.jsonl"
    file.write_bytes(unsealed(lines))
    return file, at + 1
