"""Writing a trace: one file, whole or not at all, sealed at its end."""

import gzip
import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec
import zstandard

from nullblock.conformance.files import atomic_writer
from nullblock.conformance.trace.decode import Unknown
from nullblock.conformance.trace.deltas import Delta, ScheduleDelta
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.reader import TraceReader, config_sha256
from nullblock.conformance.trace.records import End, Header, Part, Record, Schedule
from nullblock.conformance.trace.seal import GZIP, ZSTD, Sealed

_LEVEL = 19


class TraceWriter:
    """Puts records on a stream, and counts and digests them for the ``end`` record."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._encode = msgspec.json.Encoder().encode
        self._digest = hashlib.sha256()
        self.records = self._steps = 0

    def write(self, record: Record | Delta) -> None:
        """Add a record. A header gets the digest of its configuration, and is sealed."""
        if isinstance(record, Header):
            digest = config_sha256(record.config)
            record = msgspec.structs.replace(record, config_sha256=digest, sealed=True)
        line = self._encode(record) + b"\n"
        self._digest.update(line)
        self.records += 1
        self._steps += isinstance(record, Schedule | ScheduleDelta)
        self._stream.write(line)

    def end(self) -> None:
        """Add the ``end`` record."""
        digest = self._digest.hexdigest()
        self.write(End(steps=self._steps, records=self.records, sha256=digest))


@contextmanager
def compressed(stream: BinaryIO, name: str, level: int = _LEVEL) -> Iterator[BinaryIO]:
    """A stream that compresses onto another one, as the file's name asks for, and seals it."""
    below: Any = Sealed(stream)
    if name.endswith(".zst"):
        engine = zstandard.ZstdCompressor(level=level, write_checksum=True)
        with engine.stream_writer(below, closefd=False) as zstd:
            yield cast(BinaryIO, zstd)
        below.seal(ZSTD)
    elif name.endswith(".gz"):
        # No name and no time inside: the same records give the same bytes.
        with gzip.GzipFile("", "wb", fileobj=below, mtime=0) as member:
            yield cast(BinaryIO, member)
        below.seal(GZIP)
    else:
        yield stream


@contextmanager
def trace_file(path: Path, level: int = _LEVEL) -> Iterator[TraceWriter]:
    """A writer whose records become the sealed trace ``path``: plain, ``.gz`` or ``.zst``.

    ``level`` is that of zstd: the default is for traces that are kept, a small one for speed.

    If the block does not end well, the file stays as it was. Raises ``OSError``.
    """
    with atomic_writer(path) as raw, compressed(raw, path.name, level) as stream:
        writer = TraceWriter(stream)
        yield writer
        writer.end()


def write_trace(path: Path, records: Iterable[Record | Delta]) -> None:
    """Make ``path`` a sealed trace of these records; raises what they raise, and ``OSError``."""
    with trace_file(path) as writer:
        for record in records:
            writer.write(record)


def reseal(path: Path, target: Path) -> int:
    """Write the trace again with digests and counts that fit its records; how many they are.

    For a trace that was changed or cut on purpose. Raises :class:`Malformed` for damage that no
    seal can mend, ``OSError`` where a file cannot be read or written.
    """
    with trace_file(target) as writer:
        for record in _without_end(path):
            writer.write(record)
    return writer.records


def _without_end(path: Path) -> Iterator[Record | Delta]:
    for located in TraceReader(path, lax=True):
        record = located.written
        if isinstance(record, Unknown):
            raise Malformed(
                f"this version does not know {record.kind[:40]!r} records",
                "use the nullblock that wrote them",
                located.line,
                file=located.file,
            )
        # One file: the headers of later parts and the ends of earlier ones go.
        if not isinstance(record, End) and not isinstance(located.record, Part):
            yield record
