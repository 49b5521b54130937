"""A line of a trace becomes a record: strictly, and fast where the line is written as we write.

A line whose bytes equal the encoding of what they decode to can hide nothing. Any other line is
parsed a second time, key by key, to find what a decoder lets through: a key given twice, a key
that the format does not have.
"""

import json
import re
from typing import Any

import msgspec
from msgspec import Struct

from nullblock.conformance.trace.deltas import Delta
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.records import FORMAT, KINDS, MAJOR, MINOR, Header, Record

_VERSION = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")
_RECORD = f"write a record of {FORMAT} {MAJOR}.{MINOR} (conformance/FORMAT.md)"


class Unknown(Struct, frozen=True):
    """A record of a kind that a later minor version of the format has."""

    kind: str


class Passed(Struct, frozen=True):
    """A record before anything is known of the run: what it stands for cannot be told."""


Shown = Record | Unknown | Passed
"""What a reader shows of a line."""


class _Start(Struct):
    """What of a header every version has."""

    ev: str = ""
    format: str = ""
    version: str = ""


class Decoder:
    """Decodes the lines of one trace, the header first."""

    def __init__(self) -> None:
        self._decode = msgspec.json.Decoder(Record | Delta).decode
        self._encode = msgspec.json.Encoder().encode
        self._lenient = False

    def header(self, line: bytes) -> Header:
        """The first line. Raises :class:`Malformed`, without a line number."""
        self._lenient = False
        start = _decoded(msgspec.json.Decoder(_Start).decode, line)
        if start.ev != "header" or start.format != FORMAT:
            raise Malformed(
                "the first record is not the header of a trace",
                f'start with {{"ev":"header","format":"{FORMAT}",…}}',
            )
        version = _VERSION.fullmatch(start.version[:40])
        if version is None:
            raise Malformed(f"{start.version[:40]!r} is no version", "write MAJOR.MINOR")
        if int(version[1]) != MAJOR:
            raise Malformed(
                f"version {start.version} of the format; this reader knows {MAJOR}.x",
                "use the nullblock that goes with it",
                column=_column(line, "version"),
            )
        self._lenient = int(version[2]) > MINOR
        record = self.record(line)
        assert isinstance(record, Header)
        return record

    def record(self, line: bytes) -> Record | Delta | Unknown:
        """Any line, short forms as they are. Raises :class:`Malformed`, without a line number."""
        try:
            record: Record | Delta = self._decode(line)
        except _REFUSALS as error:
            return self._refused(line, error)
        if self._encode(record) != line:
            document = _parsed(line)
            if not self._lenient:
                _check_keys(document, record, line)
        return record

    def _refused(self, line: bytes, error: Exception) -> Unknown:
        try:
            raise _explained(line, error) from None
        except _UnknownKind as unknown:
            if not self._lenient:
                raise unknown.malformed from None
            _parsed(line)
            return Unknown(unknown.kind)


class _UnknownKind(Exception):
    def __init__(self, kind: str, line: bytes) -> None:
        self.kind = kind
        self.malformed = Malformed(
            f"no record is called {kind[:40]!r}",
            f"known: {', '.join(KINDS)}",
            column=_column(line, "ev"),
        )


_REFUSALS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What a decoder raises."""


def _decoded(decode: Any, line: bytes) -> Any:
    """``decode(line)``; whatever it finds wrong becomes one line."""
    try:
        return decode(line)
    except _REFUSALS as error:
        raise _explained(line, error) from None


def _explained(line: bytes, error: Exception) -> Exception:
    """What a decoder finds wrong, as a :class:`Malformed` or an :class:`_UnknownKind`."""
    if not line.strip():
        return Malformed("an empty line", "remove it")
    match error:
        case msgspec.ValidationError():
            what, _, path = str(error).rpartition(" - at `")
            what, path = (what, path.rstrip("`")) if what else (str(error), "$")
            if path == "$.ev" and what.startswith("Invalid value"):
                return _UnknownKind(what.partition("'")[2].rstrip("'"), line)
            place = "" if path == "$" else f"{path.removeprefix('$.')}: "
            what = what[:1].lower() + what[1:]
            return Malformed(f"{place}{what}", _RECORD, column=_column(line, _last_key(path)))
        case msgspec.DecodeError():
            what, _, position = str(error).partition(" (byte ")
            column = int(position.rstrip(")")) + 1 if position else len(line) + 1
            return _not_json(what.removeprefix("JSON is malformed: "), column)
        case UnicodeDecodeError():
            return _not_utf8(line, error)
        case _:
            return Malformed("nested too deeply", _RECORD)


def _not_json(what: str, column: int) -> Malformed:
    what = what[:1].lower() + what[1:]
    return Malformed(f"not JSON: {what}", "write one JSON object a line", column=column)


def _not_utf8(line: bytes, error: UnicodeDecodeError) -> Malformed:
    """The place in the whole line: the decoder counts from the start of a string."""
    try:
        line.decode()
        column = error.start + 1
    except UnicodeDecodeError as in_line:
        column = in_line.start + 1
    return Malformed("not UTF-8", "save it as UTF-8", column=column)


def _parsed(line: bytes) -> Any:
    """The line as plain values; :class:`Malformed` for a key that an object has twice."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise Malformed(
                f"the key {json.dumps(twice[:40])} is given twice",
                "keep one of them",
                column=_column(line, twice),
            )
        return found

    try:
        return json.loads(line, object_pairs_hook=unique)
    except UnicodeDecodeError as error:
        raise _not_utf8(line, error) from None
    except RecursionError:
        raise Malformed("nested too deeply", _RECORD) from None
    except ValueError as error:
        # The two parsers disagree about very little: the stricter one has its way.
        raise _not_json(str(error), getattr(error, "colno", 1)) from None


def _check_keys(document: Any, record: Any, line: bytes) -> None:
    """Refuse keys of the document that no field of the record has taken."""
    if isinstance(record, Struct) and isinstance(document, dict):
        fields = record.__struct_fields__
        for key, value in document.items():
            if key in fields:
                _check_keys(value, getattr(record, key), line)
            elif key != record.__struct_config__.tag_field:
                raise Malformed(
                    f"unknown key {json.dumps(key[:40])}",
                    f"known here: {', '.join(fields)}",
                    column=_column(line, key),
                )
    elif isinstance(document, list) and isinstance(record, (list, tuple)):
        for value, part in zip(document, record, strict=True):
            if isinstance(part, (Struct, list, tuple)):
                _check_keys(value, part, line)


def _last_key(path: str) -> str:
    """``blocks`` of ``$.new[0].blocks[3]``."""
    return re.sub(r"\[[^\]]*\]", "", path).rpartition(".")[2]


def _column(line: bytes, key: str) -> int:
    """Where a key stands in a line: its first appearance, or the start of the line."""
    return max(line.find(json.dumps(key).encode()), 0) + 1
