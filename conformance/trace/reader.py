"""Reading a trace, front to back, in memory that does not grow with its length."""

import hashlib
import hmac
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import UNSET, Struct

from nullblock.conformance.trace import source
from nullblock.conformance.trace.decode import Decoder, Passed, Shown, Unknown
from nullblock.conformance.trace.deltas import Delta
from nullblock.conformance.trace.errors import Cut, Malformed
from nullblock.conformance.trace.expand import Expander
from nullblock.conformance.trace.order import Order
from nullblock.conformance.trace.records import End, Header, Part, Record, TraceConfig

_RESEAL = "if it was changed on purpose: nullblock trace --reseal"
_AT_ONCE = 16
"""Lines that are digested together, none of them a long one but the last."""
_LONG = 2**14
_GONE = "add it; if it is gone, nullblock trace --reseal makes a trace of what there is"
_OPEN = "if the recorder was killed, nullblock trace --reseal makes a trace of what there is"


class Located(Struct, frozen=True):
    """A record and where it stands."""

    record: Shown
    line: int
    """From 1, inside ``file``."""
    file: str
    written: Record | Delta | Unknown
    """The record as it is in the file: in its short form, if it has one."""


def config_sha256(config: TraceConfig) -> str:
    """The digest that a header carries of its configuration."""
    canonical = msgspec.json.encode(msgspec.to_builtins(config), order="deterministic")
    return hashlib.sha256(canonical).hexdigest()


class TraceReader:
    """Iterates over a trace: one file, or a folder with the parts of one recording.

    Everything that makes a trace damaged raises :class:`Malformed` when the reading gets there;
    :class:`Cut` if all that is wrong is that the rest is missing. Whether the seal at the end
    fits is known when the iteration is over: :attr:`seal`. Of several parts only the first one's
    header is shown, and only the last one's end; a :class:`Part` stands where the others begin.

    Raises ``OSError`` where a file cannot be read.
    """

    def __init__(self, path: Path, *, stream: BinaryIO | None = None, lax: bool = False) -> None:
        """With ``stream``, that is read. ``lax``: digests may be wrong and the end be lost."""
        self._files = source.parts(path) if stream is None else [path]
        self._stream = stream
        self._in_parts = stream is None and source.in_parts(path, self._files[-1])
        self._lax = lax
        self._skims = False
        """Whether the rest is read without looking at the lines."""
        self._lines = self._numbered()
        self._digest = hashlib.sha256()
        self._undigested: list[bytes] = []
        self._records = 0
        self._header: Header | None = None
        self._end: End | None = None
        self._cut: Cut | None = None
        self.seal: bool | None = None
        """Whether the digest in the end record fits; None: there is none, or it is not reached."""

    def __iter__(self) -> Iterator[Located]:
        decoder = Decoder()
        order: Order | None = None
        count = 0
        for part, count, file, line in self._lines:
            try:
                written: Record | Delta | Unknown
                record: Shown
                if order is None:
                    written = record = header = self._first(decoder, line)
                    order, expander = Order(header), Expander(header)
                else:
                    written = decoder.record(line)
                    record = self._in_turn(written, order, expander, line, part, count)
                if isinstance(record, End):
                    self._check_end(record)
            except Malformed as error:
                raise error.on(count, file) from None
            self._undigested.append(line)
            if len(self._undigested) >= _AT_ONCE or len(line) > _LONG:
                self._digest_lines()
            self._records += 1
            if not (isinstance(record, End) and record.continued):
                yield Located(record, count, file, written)
        if order is None and self._cut is not None:
            raise self._cut
        if order is not None and not self._lax:
            self._check_closed(order, count)

    def _first(self, decoder: Decoder, line: bytes) -> Header:
        """The header with which the reading begins."""
        if len(self._files) > 1 and line.startswith(b'{"ev":"part"'):
            raise Malformed("the first part is missing", "add it")
        self._header = decoder.header(line)
        self._check_header(self._header, line)
        return self._header

    def _in_turn(
        self,
        written: Record | Delta | Unknown,
        order: Order,
        expander: Expander,
        line: bytes,
        part: int,
        count: int,
    ) -> Shown:
        """A whole record that may stand here."""
        if count == 1 and isinstance(written, Header):
            written = self._next_part(written, line, order)
        elif isinstance(written, Part) or (part > 1 and count == 1):
            assert self._header is not None
            _check_part(written, self._header, part, count)
        if isinstance(written, Unknown):
            order.take(written)
            return written
        if order.passes_over(written):
            return Passed()
        record = expander.whole(written, order.oldest)
        order.take(record)
        return record

    def _next_part(self, header: Header, line: bytes, order: Order) -> Part:
        """A part that starts with a header of its own, which has to go with the one before."""
        before, end = self._header, self._end
        assert before is not None
        self._check_header(header, line)
        if (header.recording, header.part) != (before.recording, before.part + 1):
            raise Malformed(
                f"part {header.part} of recording {str(header.recording)[:40]} "
                f"where part {before.part + 1} of {str(before.recording)[:40]} is due",
                "give the parts of one recording, all of them",
            )
        if header.config != before.config or header.features != before.features:
            raise Malformed("another configuration than in the part before", "check it by itself")
        if end is None or not end.continued:
            raise Malformed("the part before does not say that the recording goes on", _RESEAL)
        self._header, self._end = header, None
        self._digest, self._records = hashlib.sha256(), 0
        self._undigested.clear()
        order.next_file()
        return Part(number=header.part, recording=str(header.recording))

    def drain(self) -> None:
        """Read on without looking at the records: a damaged file is damaged to its end.

        Raises :class:`Malformed` for a compressed stream that is broken or cut.
        """
        self._skims = True
        for _ in self._lines:
            pass

    def _numbered(self) -> Iterator[tuple[int, int, str, bytes]]:
        """Part number, line number, file and bytes of every line."""
        for part, path in enumerate(self._files, start=1):
            try:
                name = str(path)
                with self._stream or path.open("rb") as stream:
                    lines = source.lines(stream, lambda: self._skims)
                    for number, line in enumerate(lines, start=1):
                        yield part, number, name, line
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

    def _check_end(self, end: End) -> None:
        self._end = end
        if self._lax:
            return
        if end.records != self._records:
            what = f"{self._records} records, and the end record counts {end.records}"
            raise Malformed(what, _RESEAL)
        if end.sha256 is not UNSET:
            self._digest_lines()
            fits = hmac.compare_digest(self._digest.hexdigest(), str(end.sha256))
            self.seal = fits and self.seal is not False

    def _digest_lines(self) -> None:
        """Digest the lines that have been read since the last time."""
        if self._undigested:
            self._digest.update(b"\n".join(self._undigested) + b"\n")
            self._undigested.clear()

    def _check_closed(self, order: Order, count: int) -> None:
        """Nothing may be missing at the end of the last file."""
        header, end, file = self._header, self._end, str(self._files[-1])
        assert header is not None
        if end is None and header.sealed:
            what = f"the recording stops after step {order.steps}, without its end record"
            raise Cut(what, _OPEN, count + 1, file=file)
        if end is not None and end.continued and self._in_parts:
            what = f"the recording goes on in part {header.part + 1}, which is missing"
            raise Cut(what, _GONE, count + 1, file=file)
        if self.seal is False:
            what = "the content does not match the digest in the end record"
            raise Malformed(what, _RESEAL, count, file=file)


def _check_part(record: Record | Delta | Unknown, header: Header, part: int, line: int) -> None:
    """Part records stand at the start of every file but the first, and nowhere else."""
    if not isinstance(record, Part) or line != 1 or part == 1:
        raise Malformed(
            "a part record belongs at the start of each file of a recording but the first",
            "give the parts as they were recorded",
        )
    if (record.number, record.recording) != (part, header.recording):
        raise Malformed(
            f"part {record.number} of recording {record.recording[:40]} "
            f"where part {part} of {header.recording} is due",
            "give the parts of one recording, all of them",
        )
