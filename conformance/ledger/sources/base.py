"""What a source is."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from nullblock.conformance.ledger.rows import Cell, Exhibit, Fall, Row

R = TypeVar("R", bound=msgspec.Struct)


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is written down of evidence. Damage is noticed when it is read."""


NOTE = "note: "
"""How a line of a worker's standard error begins that whoever refreshes is to read at once."""


def note(text: str) -> None:
    """Say what somebody who waits for a source ought to know, while it is gathered."""
    print(f"{NOTE}{text}", file=sys.stderr, flush=True)


def nothing(record: Any) -> Iterator[Any]:
    """No rows, no cells, no complaint."""
    yield from ()


@dataclass(frozen=True, slots=True)
class Source(Generic[R]):
    """One source of evidence."""

    name: str
    record: type[R]
    files: tuple[str, ...]
    """Patterns, from the folder that holds the layers: what the evidence rests on."""
    gather: Callable[[], R]
    """Runs the engine, or reads what a long run has left. Raises OSError or ValueError."""
    cells: Callable[[R], Iterable[Cell]] = nothing
    """What it shows of each statement."""
    broken: Callable[[R], Iterable[str]] = nothing
    """What is claimed and not borne out, besides claimed cells, one line each."""
    rows: Callable[[R], Iterable[Row]] = nothing
    """Statements of its own, beside those of the catalogue."""
    falls: Callable[[R], Iterable[Fall]] = nothing
    """Under what statements fall."""
    exhibits: Callable[[R], Iterable[Exhibit]] = nothing
    """What has a counterexample of its own."""
    of: Callable[[R], str] | None = None
    """The digest of the files that a long run was of; None: it runs when it is gathered."""
    again: str = ""
    """The command that makes a long run again."""
    claimed: bool = True
    """Whether anything that is claimed rests on it. The rest is shown, and marked when stale."""
