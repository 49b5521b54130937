"""JSON as the standard has it and no further: what Python's reader lets through is refused.

Refused besides bad syntax: a key given twice, ``NaN`` and ``Infinity``, whole numbers that need
more than 64 bits, half a surrogate pair, a byte order mark, text that is not UTF-8, more than
:data:`MAX_BYTES`, and nesting deeper than :data:`MAX_DEPTH`.
"""

import json
import math
from dataclasses import dataclass
from typing import Any

from nullblock.conformance.errors import ScenarioError

MAX_BYTES = 32 * 2**20
"""Bytes that a file may have."""
MAX_DEPTH = 64
"""Lists and objects that may stand inside one another."""
_INT_LIMIT = 2**63
_BOM = b"\xef\xbb\xbf"

Path = tuple[Any, ...]
"""A place as ``(outer place, key or index)``; the empty tuple is the whole document."""


@dataclass(frozen=True, slots=True)
class _Refused:
    """Stands in the parsed document where something was that may not be there."""

    what: str
    remedy: str


def loads(data: bytes) -> Any:
    """The document in ``data``; :class:`ScenarioError` with its place if it is not strict JSON."""
    if len(data) > MAX_BYTES:
        raise ScenarioError(
            f"{len(data)} bytes of JSON", f"at most {MAX_BYTES} are read; split it"
        )
    text = _decoded(data)
    try:
        document = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_constant,
            parse_int=_integer,
            parse_float=_real,
        )
    except json.JSONDecodeError as error:
        if not text.strip():
            remedy, place = 'write {"events": [...]}', "line 1 column 1"
            raise ScenarioError("the file is empty", remedy, place) from None
        raise ScenarioError(
            f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}",
            place=f"line {error.lineno} column {error.colno}",
        ) from None
    except RecursionError:
        raise _too_deep("") from None
    _check(document)
    return document


def path_text(path: Path) -> str:
    """``events[3].prompt`` for ``(((((), "events"), 3)), "prompt")``."""
    parts: list[str] = []
    while path:
        path, key = path
        parts.append(f"[{key}]" if isinstance(key, int) else f".{_printable(key)}")
    return "".join(reversed(parts)).removeprefix(".")


def _printable(key: str) -> str:
    """A key fit for one line of a terminal."""
    return key if key.isidentifier() else json.dumps(key[:40])


def _decoded(data: bytes) -> str:
    if data.startswith(_BOM):
        raise ScenarioError(
            "starts with a byte order mark", "save it as UTF-8 without one", "line 1 column 1"
        )
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScenarioError(
            f"not UTF-8: byte 0x{data[error.start]:02x} at offset {error.start}",
            "save it as UTF-8",
            f"line {line}",
        ) from None


def _object(pairs: list[tuple[str, Any]]) -> Any:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return _Refused(f"the key {json.dumps(key[:80])} is given twice", "keep one of them")
        seen.add(key)
    raise AssertionError("a shorter dict without a repeated key")


def _constant(name: str) -> _Refused:
    return _Refused(f"{name} is not JSON", "write a finite number")


def _integer(digits: str) -> int | _Refused:
    if len(digits) <= 20 and -_INT_LIMIT <= (value := int(digits)) < _INT_LIMIT:
        return value
    return _Refused(f"a number of {len(digits)} digits", "whole numbers have at most 64 bits here")


def _real(digits: str) -> float | _Refused:
    value = float(digits)
    if math.isfinite(value):
        return value
    return _Refused(f"{digits[:40]} is out of range", "write a finite number")


def _check(document: Any) -> None:
    """Find the first thing that was refused, in document order, with its place."""
    pending: list[tuple[Any, Path, int]] = [(document, (), 0)]
    while pending:
        value, path, depth = pending.pop()
        match value:
            case int() | float() | None:
                pass
            case str():
                _check_text(value, path)
            case _Refused(what, remedy):
                raise ScenarioError(what, remedy, path_text(path))
            case _ if depth == MAX_DEPTH:
                raise _too_deep(path_text(path))
            case list():
                inner = [
                    (item, (path, index), depth + 1)
                    for index, item in enumerate(value)
                    if type(item) is not int
                ]
                pending.extend(reversed(inner))
            case _:
                for key in value:
                    _check_text(key, (path, key))
                inner = [(item, (path, key), depth + 1) for key, item in value.items()]
                pending.extend(reversed(inner))


def _check_text(text: str, path: Path) -> None:
    if text.isascii():
        return
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise ScenarioError(
            "half a surrogate pair in a string", "write the whole character", path_text(path)
        ) from None


def _too_deep(place: str) -> ScenarioError:
    return ScenarioError("nested too deeply", f"at most {MAX_DEPTH} levels are read", place)
