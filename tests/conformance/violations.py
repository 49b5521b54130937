"""Violations for tests: recorded decisions altered in one way, as files."""

import copy
from functools import cache
from pathlib import Path
from typing import Any

from alterations import ALTERATIONS, first
from traces import documents, unsealed

from nullblock.conformance import bundled
from nullblock.conformance.trace import source

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


def altered(folder: Path, name: str, path: Path = bundled.TRACE) -> tuple[Path, int]:
    """A trace with one decision altered, and the line of that decision."""
    _, kind, suits, alter = ALTERATIONS[name]
    lines = _recorded(path, 500)
    at = first(lines, kind, suits)
    lines = copy.deepcopy(lines[: at + 3])
    alter(lines[at])
    file = folder / "altered.jsonl"
    file.write_bytes(unsealed(lines))
    return file, at + 1
