"""Reading a trace, front to back, in memory that does not grow with its length."""

import hashlib
import hmac
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import UNSET

from nullblock.conformance.trace import source
from nullblock.conformance.trace.decode import Decoder, Unknown
from nullblock.conformance.trace.errors import Cut, Malformed
from nullblock.conformance.trace.order import Order
from nullblock.conformance.trace.records import End, Header, Part, Record, TraceConfig

_RESEAL = "if it was changed on purpose: nullblock trace --reseal"


@dataclass(frozen=True, slots=True)
class Located:
    """A record and where it stands."""

    record: Record | Unknown
    line: int
    """From 1, inside ``file``."""
    file: str


def config_sha256(config: TraceConfig) -> str:
    """The digest that a header carries of its configuration."""
    canonical = msgspec.json.encode(msgspec.to_builtins(config), order="deterministic")
    return hashlib.sha256(canonical).hexdigest()


class TraceReader:
    """Iterates over a trace: one file, or a folder with the parts of one recording.

    Everything that makes a trace damaged raises :class:`Malformed` when the reading gets there.
    Whether the seal at the end fits is known when the iteration is over: :attr:`seal`.

    Raises ``OSError`` where a file cannot be read.
    """

    def __init__(self, path: Path, *, stream: BinaryIO | None = None, lax: bool = False) -> None:
        """With ``stream``, that is read. ``lax``: digests may be wrong and the end be lost."""
        self._files = source.parts(path) if stream is None else [path]
        self._stream = stream
        self._lax = lax
        self._lines = self._numbered()
        self._digest = hashlib.sha256()
        self._cut: Cut | None = None
        self.seal: bool | None = None
        """Whether the digest in the end record fits; None: there is none, or it is not reached."""

    def __iter__(self) -> Iterator[Located]:
        decoder = Decoder()
        order: Order | None = None
        count, records, part = 0, 0, 0
        end: End | None = None
        for part, count, file, line in self._lines:
            try:
                record: Record | Unknown
                if order is None:
                    record = header = decoder.header(line)
                    self._check_header(header, line)
                    order = Order(header)
                else:
                    record = decoder.record(line)
                    order.take(record)
                    _check_part(record, header, part, count)
                if isinstance(record, End):
                    end = record
                    self._check_end(end, records)
            except Malformed as error:
                raise error.on(count, file) from None
            self._digest.update(line)
            self._digest.update(b"\n")
            records += 1
            yield Located(record, count, file)
        if order is None and self._cut is not None:
            raise self._cut
        if end is None and order is not None and header.sealed and not self._lax:
            raise Malformed(
                f"the recording stops after step {order.steps}, without its end record",
                "copy it again; to judge what there is: nullblock trace --reseal",
                count + 1,
                file=str(self._files[-1]),
            )
        if self.seal is False and not self._lax:
            raise Malformed(
                "the content does not match the digest in the end record",
                _RESEAL,
                count,
                file=str(self._files[-1]),
            )

    def drain(self) -> None:
        """Read on without looking at the records: a damaged file is damaged to its end.

        Raises :class:`Malformed` for a compressed stream that is broken or cut.
        """
        for _ in self._lines:
            pass

    def _numbered(self) -> Iterator[tuple[int, int, str, bytes]]:
        """Part number, line number, file and bytes of every line."""
        for part, path in enumerate(self._files, start=1):
            try:
                with self._stream or path.open("rb") as stream:
                    for number, line in enumerate(source.lines(stream), start=1):
                        yield part, number, str(path), line
            except Malformed as error:
                if self._lax and isinstance(error, Cut):
                    self._cut = error.at(file=str(path))
                    return
                raise error.at(file=str(path)) from None

    def _check_header(self, header: Header, line: bytes) -> None:
        if self._lax or header.config_sha256 is UNSET:
            return
        if not hmac.compare_digest(config_sha256(header.config), str(header.config_sha256)):
            raise Malformed(
                "the configuration does not match its digest",
                _RESEAL,
                column=line.find(b'"config"') + 1,
            )

    def _check_end(self, end: End, records: int) -> None:
        if self._lax:
            return
        if end.records != records:
            raise Malformed(f"{records} records, and the end record counts {end.records}", _RESEAL)
        if end.sha256 is not UNSET:
            self.seal = hmac.compare_digest(self._digest.hexdigest(), str(end.sha256))


def _check_part(record: Record | Unknown, header: Header, part: int, line: int) -> None:
    """Part records stand at the start of every file but the first, and nowhere else."""
    if (part > 1 and line == 1) != isinstance(record, Part):
        raise Malformed(
            "a part record belongs at the start of each file of a recording but the first",
            "give the parts as they were recorded",
        )
    if isinstance(record, Part) and (record.number, record.recording) != (part, header.recording):
        raise Malformed(
            f"part {record.number} of recording {record.recording[:40]} "
            f"where part {part} of {header.recording} is due",
            "give the parts of one recording, all of them",
        )
