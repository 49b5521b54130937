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
def _drafted() -> Lines:
    records = (located.record for located in TraceReader(bundled.DRAFTED))
    found = [json.loads(msgspec.json.encode(record)) for record in records]
    return found[: next(i for i, line in enumerate(found) if line.get("step") == 150)]


def drafted() -> Lines:
    """The first steps of the bundled recording with drafts, short forms written out."""
    return copy.deepcopy(_drafted())


def altered(folder: Path, name: str, path: Path = bundled.TRACE) -> tuple[Path, int]:
    """A trace with one decision altered, and the line of that decision."""
    _, kind, suits, alter = (ALTERATIONS | DRAFT_ALTERATIONS)[name]
    lines = _drafted() if name in DRAFT_ALTERATIONS else _recorded(path, 500)
    at = first(lines, kind, suits)
    lines = copy.deepcopy(lines[: at + 3])
    alter(lines[at])
    file = folder / "altered.jsonl"
    file.write_bytes(unsealed(lines))
    return file, at + 1
