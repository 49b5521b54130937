"""The numbered lines of a workload: one file or a folder of them, plain, gzip or zstd.

What a file is, its first bytes say, never its name. Memory: one line.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from nullblock.conformance.compression import BOM, Damage, Foreign, expanded
from nullblock.conformance.workloads.errors import WorkloadError

MAX_LINE = 64 * 2**20
"""Bytes that a line may have: a whole agentic session can be one."""
_REMEDY = "a workload is text, plain UTF-8, gzip or zstd"
_CUT = "copy or download it again"
_SUFFIXES = (".json", ".jsonl", ".csv")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a workload."""

    text: bytes
    """Without its end."""
    number: int
    """From 1."""
    file: str
    """Its file, as the user named it."""

    def error(self, what: str, remedy: str) -> WorkloadError:
        """What is wrong with this line."""
        return WorkloadError(what, remedy, f"line {self.number}", self.file)


def lines(path: Path) -> Iterator[Line]:
    """Each line that is not blank. Of a folder, those of its workload files in order of name.

    Raises:
        WorkloadError: damage, with file and line, when it gets there.
        OSError: a file cannot be read.
    """
    for file in _files(path):
        with file.open("rb") as stream:
            yield from _lines(stream, str(file))


def first_lines(path: Path) -> Iterator[Line]:
    """The first line of each file that :func:`lines` reads. Raises the same."""
    for file in _files(path):
        with file.open("rb") as stream:
            yield from islice(_lines(stream, str(file)), 1)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    plain = ((one, one.name.removesuffix(".gz").removesuffix(".zst")) for one in path.iterdir())
    found = sorted(one for one, name in plain if name.endswith(_SUFFIXES) and one.is_file())
    if not found:
        what = "no workload files in this folder"
        raise WorkloadError(what, "they end in .json, .jsonl or .csv", file=str(path))
    return found


def _lines(stream: BinaryIO, file: str) -> Iterator[Line]:
    number, rest = 1, bytearray()
    pieces = expanded(stream)
    while True:
        try:
            piece = next(pieces, None)
        except (Foreign, Damage) as error:
            remedy = _REMEDY if isinstance(error, Foreign) else _CUT
            raise WorkloadError(str(error), remedy, f"line {number}", file) from None
        if piece is None:
            break
        rest += piece
        start = 0
        if number == 1 and rest.startswith(BOM):
            start = len(BOM)
        while (end := rest.find(b"\n", start)) >= 0:
            if text := bytes(rest[start:end]).strip():
                yield Line(text, number, file)
            number, start = number + 1, end + 1
        del rest[:start]
        if len(rest) > MAX_LINE:
            what = f"a line of more than {MAX_LINE // 2**20} MiB"
            raise WorkloadError(what, _REMEDY, f"line {number}", file)
    if text := bytes(rest).strip():
        yield Line(text, number, file)
