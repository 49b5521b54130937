"""The formats of workloads by name, and which one a file has."""

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from nullblock.conformance.workloads import azure, mooncake, weka
from nullblock.conformance.workloads.errors import WorkloadError
from nullblock.conformance.workloads.session import Session
from nullblock.conformance.workloads.source import Line, first_lines, lines


class Format(enum.StrEnum):
    """What a workload file can be."""

    mooncake = "mooncake"
    weka = "weka"
    azure = "azure"


SAYS: dict[Format, tuple[str, ...]] = {
    Format.mooncake: ("outputs are taken to be unlike everything else",),
    Format.weka: (
        "an agent sends one request after another and thinks in between",
        "outputs are taken to be unlike everything else, and come back as new blocks",
    ),
    Format.azure: ("the trace tells lengths only: every prompt is unlike all others, no hits",),
}
"""What a reader of the result has to know."""

REMEDY = (
    'write --format; the formats are mooncake ({"timestamp": ...}), weka ([session, agent, ...] '
    'or {"requests": [...]}) and azure (TIMESTAMP,ContextTokens,GeneratedTokens)'
)


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload that has been opened."""

    format: Format
    sessions: Iterator[Session]
    notes: tuple[str, ...]


def open_workload(
    path: Path, format: Format | None = None, *, scale: int = 1, shared_prefix: int = 0
) -> Workload:
    """The sessions in a file or folder.

    Args:
        format: None: what the first line looks like.
        scale: divides lengths, and the tokens that an id stands for; a divisor of 64.
        shared_prefix: tokens that all sessions of a WEKA workload begin with, in whole blocks.

    Raises:
        WorkloadError: an empty file, or one of no known format; reading on, any damage.
        OSError: the file cannot be read.
    """
    rows = lines(path)
    first = next(rows, None)
    if first is None:
        raise WorkloadError("the file is empty", "a workload has a line a request", "", str(path))
    found = format or _guess(first)
    rows = chain([first], rows)
    if format is None:
        _check_alike(path, found)
    units = weka.Units(shared_prefix // weka.TOKENS_PER_ID, scale)
    match found:
        case Format.mooncake:
            sessions = mooncake.sessions(rows, scale)
        case Format.azure:
            sessions = azure.sessions(rows, scale)
        case Format.weka:
            read_rows = weka.packed if first.text.startswith(b"[") else weka.published
            sessions = read_rows(rows, units)
    return Workload(found, sessions, SAYS[found])


def _check_alike(path: Path, format: Format) -> None:
    """Refuse a folder with a file of another format, before anything of it is played; one of no
    format is damage, which is told where it is reached.
    """
    for first in first_lines(path):
        try:
            other = _guess(first)
        except WorkloadError:
            continue
        if other is not format:
            raise first.error(
                f"a {other.value} file in a folder that begins with a {format.value} one",
                "replay the files of each format by themselves",
            )


def _guess(first: Line) -> Format:
    text = first.text
    if azure.is_header(text):
        return Format.azure
    if text.startswith(b"["):
        return Format.weka
    if text.startswith(b"{"):
        head = text[:4096]
        if b'"hash_ids"' in head and b'"timestamp"' in head:
            return Format.mooncake
        if b'"requests"' in head:
            return Format.weka
        if b'"timestamp"' in head:
            return Format.mooncake
    raise first.error("the format is not known", REMEDY)
