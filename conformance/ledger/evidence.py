"""The evidence file: what each source found, and of which text."""

from pathlib import Path
from typing import Any, Literal

import msgspec

from nullblock.conformance.ledger.digest import digest
from nullblock.conformance.ledger.registry import SOURCES
from nullblock.conformance.ledger.sources.base import Record

FILE = Path(__file__).with_name("evidence.json")


class Kept(Record, frozen=True):
    """What one source found."""

    digest: str
    """Of the files that it rests on, as they were."""
    record: msgspec.Raw


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that was found."""

    format: Literal["nullblock-ledger"]
    version: Literal[1]
    sources: dict[str, Kept]


class Damaged(ValueError):
    """The evidence file cannot be read; the text says why."""


def kept(name: str, record: Any) -> Kept:
    """What a source has just found, with the digest of the present text, or of the text of the
    long run that it was read from.
    """
    source = SOURCES[name]
    of = digest(source.files) if source.of is None else source.of(record)
    return Kept(of, msgspec.Raw(msgspec.json.encode(record)))


def load(path: Path | None = None) -> Evidence:
    """Read the file. Raises Damaged."""
    path = path or FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Evidence)
    except OSError as error:
        raise Damaged(f"{path}: {error.strerror or error}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Damaged(f"{path}: {error}") from None


def record(name: str, found: Kept) -> Any:
    """The record of a source. Raises Damaged."""
    try:
        return msgspec.json.decode(found.record, type=SOURCES[name].record)
    except msgspec.MsgspecError as error:
        raise Damaged(f"evidence of {name}: {error}") from None


def dump(evidence: Evidence) -> bytes:
    """The file: one line for each thing that was found, so that a change shows where it is."""
    return _lines(msgspec.json.decode(msgspec.json.encode(evidence)), 0).encode() + b"\n"


DEPTH, WIDTH = 8, 160


def _lines(value: Any, depth: int) -> str:
    """JSON, broken into lines where it would be long."""
    short = msgspec.json.encode(value).decode()
    if len(short) <= WIDTH - depth or depth > DEPTH or not isinstance(value, dict | list):
        return short
    blank, inner = " " * depth, " " * (depth + 1)
    if isinstance(value, dict):
        key = msgspec.json.encode
        items = [f"{key(k).decode()}:{_lines(v, depth + 1)}" for k, v in value.items()]
        return "{\n" + ",\n".join(inner + i for i in items) + f"\n{blank}}}"
    return "[\n" + ",\n".join(inner + _lines(v, depth + 1) for v in value) + f"\n{blank}]"
