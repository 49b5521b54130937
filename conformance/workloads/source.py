"""The numbered lines of a workload: one file or a folder of them, plain, gzip or zstd.

What a file is, its first bytes say, never its name. Memory: one line.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from nullblock.conformance.workloads.errors import WorkloadError

MAX_LINE = 64 * 2**20
"""Bytes that a line may have: a whole agentic session can be one."""
_READ = 2**16
_PIECE = 2**10
"""Compressed bytes expanded at once, which bounds what a decompression bomb can do."""
_MAX_WINDOW = 2**27
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_OTHERS = {
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "a zip archive",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"PAR1": "Parquet",
}
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
    pieces = _expanded(stream)
    while True:
        try:
            piece = next(pieces, None)
        except WorkloadError as error:
            raise error.at(place=f"line {number}", file=file) from None
        if piece is None:
            break
        rest += piece
        start = 0
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


def _expanded(stream: BinaryIO) -> Iterator[bytes]:
    head = stream.read(_READ)
    for magic, name in _OTHERS.items():
        if head.startswith(magic):
            raise WorkloadError(f"this is {name}", _REMEDY)
    if head.startswith(_GZIP):
        yield from _inflated(_pieces(head, stream))
    elif head.startswith(_ZSTD):
        yield from _unzstd(_pieces(head, stream))
    else:
        yield head.removeprefix(b"\xef\xbb\xbf")
        while piece := stream.read(_READ):
            yield piece


def _pieces(head: bytes, stream: BinaryIO) -> Iterator[bytes]:
    while head:
        for start in range(0, len(head), _PIECE):
            yield head[start : start + _PIECE]
        head = stream.read(_READ)


def _inflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Gzip members one after another; each carries its checksum."""
    member = None
    for piece in pieces:
        while piece:
            member = member or zlib.decompressobj(wbits=31)
            try:
                yield member.decompress(piece)
            except zlib.error as error:
                raise WorkloadError(f"the gzip stream is damaged ({error})", _CUT) from None
            piece = member.unused_data
            if member.eof:
                member = None
    if member is not None:
        raise WorkloadError("the gzip stream is cut", _CUT)


def _unzstd(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Zstandard frames one after another."""
    # Here, since an engine's own environment may lack it and reads plain files and gzip.
    import zstandard

    engine = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    frame = None
    for piece in pieces:
        while piece:
            frame = frame or engine.decompressobj()
            try:
                yield frame.decompress(piece)
            except zstandard.ZstdError as error:
                raise WorkloadError(f"the zstd stream is damaged ({error})", _CUT) from None
            piece = b""
            if frame.eof:
                piece, frame = frame.unused_data, None
    if frame is not None:
        raise WorkloadError("the zstd stream is cut", _CUT)
