"""The lines of a trace file, plain or compressed, in bounded memory.

What a file is, its first bytes say, never its name. A line longer than :data:`MAX_LINE` ends the
reading.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from nullblock.conformance.compression import BOM, GZIP, READ, ZSTD, Damage, Foreign, expanded
from nullblock.conformance.trace import seal
from nullblock.conformance.trace.errors import Cut, Malformed

MAX_LINE = 16 * 2**20
"""Bytes that a line may have, its end included."""
ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.zst")
"""Of the names of traces in a folder."""
_SEALS = {GZIP: seal.GZIP, ZSTD: seal.ZSTD}
_REMEDY = "a trace is lines of JSON: plain UTF-8, gzip or zstd"
_CUT = "copy or record it again; what comes before can be judged after nullblock trace --reseal"


def lines(stream: BinaryIO, skims: Callable[[], bool] = lambda: False) -> Iterator[bytes]:
    """Each line of the trace in ``stream``, without its end.

    While ``skims()`` it is read and not taken apart: a small compressed file may have a thousand
    million lines. What is wrong with the stream, and with its last line, is found all the same.

    Raises :class:`Malformed`, with the number of the line at fault, when it gets there: the lines
    before have been yielded by then. :class:`Cut` if all that is wrong is that the rest is gone.
    """
    number, rest = 1, bytearray()
    try:
        for piece in _sliced(_expanded(stream)):
            if skims() and (end := piece.rfind(b"\n")) >= 0:
                number += piece.count(b"\n")
                rest = bytearray(piece[end + 1 :])
                continue
            first, *others = piece.split(b"\n")
            rest += first
            if len(rest) >= MAX_LINE:
                raise _too_long(number)
            if others:
                # A piece is shorter than a line may be, so the others are, too.
                yield bytes(rest)
                rest = bytearray(others.pop())
                yield from others
                number += 1 + len(others)
    except Foreign as found:
        raise Malformed(str(found), _REMEDY, 1) from None
    except Damage as damage:
        raise Cut(str(damage), _CUT, number) from None
    except seal.Unsealed:
        raise Cut("the file does not match the digest at its end", _CUT, number) from None
    if rest:
        raise Cut("the last line has no end: the file was cut", _CUT, number, len(rest) + 1)
    if number == 1:
        raise Malformed("the file is empty", _REMEDY, 1)


def _sliced(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """The same bytes, at most as many at once as are read at once."""
    for chunk in chunks:
        if len(chunk) <= READ:
            yield chunk
        else:
            for start in range(0, len(chunk), READ):
                yield chunk[start : start + READ]


def _too_long(line: int) -> Malformed:
    return Malformed(f"a line of more than {MAX_LINE} bytes", _REMEDY, line, MAX_LINE + 1)


def _expanded(stream: BinaryIO) -> Iterator[bytes]:
    """The content, the digest at its end compared. Raises Foreign for what is no JSON at all."""
    kinds = []

    def sealed(pieces: Iterator[bytes], kind: bytes) -> Iterator[bytes]:
        kinds.append(kind)
        return seal.checked(pieces, _SEALS[kind])

    chunks = expanded(stream, sealed)
    head = next(chunks, b"")
    if head.startswith(BOM):
        raise Foreign("this is UTF-8 with a byte order mark")
    if head and not kinds and not head.lstrip(b" \t\r\n").startswith(b"{"):
        raise Foreign("neither JSON nor gzip nor zstd")
    yield head
    yield from chunks


def recordings(path: Path) -> list[Path]:
    """Every recording in a folder that the recorder writes to: a file, or a folder of parts.

    A file is a recording; so is a folder that holds parts. Otherwise it is what lies in the
    folder, in order of name: several processes and ranks share one.
    """
    if not path.is_dir() or _numbered(path):
        return [path]
    inside = sorted(path.iterdir())
    return [
        name
        for name in inside
        if (name.is_dir() and _numbered(name)) or name.name.endswith(ENDINGS)
    ]


def parts(path: Path) -> list[Path]:
    """The files of a recording: the file itself, or the parts in a folder, in order.

    The first ones may be gone: a recorder keeps as many as it was told to. A folder around one
    recording stands for it. Raises :class:`Malformed` for a folder without parts, with one
    missing, or with several recordings.
    """
    found = recordings(path)
    if len(found) > 1:
        names = ", ".join(str(name) for name in found[:3])
        raise Malformed(
            f"{len(found)} recordings in this folder",
            f"check them one by one: {names}{', …' if len(found) > 3 else ''}",
            file=str(path),
        )
    if not found:
        raise Malformed(
            "no parts of a recording in this folder",
            "parts are called 0001.jsonl, 0002.jsonl, … (or .jsonl.gz, .jsonl.zst)",
            file=str(path),
        )
    if not found[0].is_dir():
        return found
    numbered = _numbered(found[0])
    for number in range(min(numbered), max(numbered) + 1):
        if number not in numbered:
            raise Malformed(
                f"part {number:04d} of {max(numbered):04d} is missing", "add it", file=str(path)
            )
    return [numbered[number] for number in sorted(numbered)]


def in_parts(path: Path, last: Path) -> bool:
    """Whether the file that was found last in a recording is a part, and was not given alone."""
    return last != path and last in _numbered(last.parent).values()


def _numbered(folder: Path) -> dict[int, Path]:
    """The parts in a folder, by number."""
    found = {}
    for name in sorted(folder.iterdir()):
        stem, _, ending = name.name.partition(".")
        if stem.isdecimal() and f".{ending}" in ENDINGS:
            found[int(stem)] = name
    return found
