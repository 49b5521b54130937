"""The request traces of Azure (Patel et al., ISCA'24; CC-BY-4.0): arrival times and lengths.

A CSV file with the columns ``TIMESTAMP``, ``ContextTokens`` and ``GeneratedTokens``. Nothing tells
which prompts are alike, so each one here is unlike all others, and no prefix is ever hit.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime

from nullblock.conformance.workloads.content import Content
from nullblock.conformance.workloads.session import Session, Turn, scaled
from nullblock.conformance.workloads.source import Line

NAMES = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
UNIT = 512
"""Tokens of a unit of the prompts made up here."""


def is_header(text: bytes) -> bool:
    """Whether a line names the columns of such a file."""
    return b"contexttokens" in text.lower() and b"timestamp" in text.lower()


def sessions(rows: Iterable[Line], scale: int = 1) -> Iterator[Session]:
    """Each row as a session of one turn. Raises :class:`WorkloadError` as the other readers do."""
    columns: list[int] = []
    first: datetime | None = None
    latest, id = 0.0, 0
    for row in rows:
        fields = [field.strip().strip('"') for field in _text(row).split(",")]
        if is_header(row.text):
            columns = _columns(row, fields)
            continue
        if not columns:
            raise row.error("no header before the first row", f"begin with {','.join(NAMES)}")
        if len(fields) <= max(columns):
            raise row.error(f"{len(fields)} columns", "the line is cut or is none of this trace")
        stamp, tokens_in, tokens_out = (fields[column] for column in columns)
        time = _time(row, stamp)
        first = first or time
        if (time.tzinfo is None) != (first.tzinfo is None):
            raise row.error("a time zone in some rows only", "write all times alike")
        at = (time - first).total_seconds()
        if at < latest:
            raise row.error(f"{stamp} is before the row before", "sort the rows by time")
        latest = at
        length = scaled(_count(row, tokens_in), scale)
        units = -(-length // UNIT)
        content = Content(length, UNIT, ((id, units),))
        id += units
        yield Session((Turn(content, scaled(max(1, _count(row, tokens_out)), scale)),), at)


def _text(row: Line) -> str:
    try:
        return row.text.decode()
    except UnicodeDecodeError:
        raise row.error("not UTF-8", "save it as UTF-8") from None


def _columns(row: Line, fields: list[str]) -> list[int]:
    places = {field.lower(): place for place, field in enumerate(fields)}
    missing = [name for name in NAMES if name.lower() not in places]
    if missing:
        raise row.error(f"no column {missing[0]}", f"the columns are {', '.join(NAMES)}")
    return [places[name.lower()] for name in NAMES]


def _time(row: Line, text: str) -> datetime:
    # Python reads up to six digits of a second; the traces have seven.
    whole, dot, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    try:
        return datetime.fromisoformat(whole + dot + digits[:6] + rest[len(digits) :])
    except ValueError:
        what = f"{text[:40]!r} is no time"
        raise row.error(what, "write it as 2023-11-16 18:17:03.979960") from None


def _count(row: Line, text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text)
    raise row.error(f"{text[:40]!r} is no number of tokens", "a whole number from 0")
