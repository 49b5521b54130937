"""From evidence to a ledger: the word of every cell, and what is claimed and not shown."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nullblock.conformance.ledger.digest import digest
from nullblock.conformance.ledger.engines import ENGINES
from nullblock.conformance.ledger.evidence import Evidence, record
from nullblock.conformance.ledger.registry import SOURCES
from nullblock.conformance.ledger.rows import Cell, Engine, Exhibit, Fall, Row
from nullblock.conformance.ledger.sources.proofs import ENGINE as Z3
from nullblock.conformance.ledger.words import Word
from nullblock.spec.catalogue import everything


@dataclass(frozen=True, slots=True)
class Ledger:
    """What is known."""

    rows: tuple[Row, ...]
    cells: dict[tuple[str, str], Cell]
    """By statement and engine."""
    falls: tuple[Fall, ...]
    exhibits: tuple[Exhibit, ...]
    records: dict[str, Any]
    """What each source found, as it found it."""
    stale: tuple[str, ...]
    """Sources whose evidence is of an earlier text."""
    shortfalls: tuple[str, ...]
    """What is claimed and not shown, one line each."""

    @property
    def engines(self) -> list[Engine]:
        """Those that say something."""
        there = {engine for _, engine in self.cells}
        return [e for name, e in ENGINES.items() if name in there]

    def of(self, row: Row) -> list[Cell | None]:
        """The cells of a row, in the order of the engines."""
        return [self.cells.get((row.id, e.name)) for e in self.engines]

    def group(self, name: str) -> list[Row]:
        """The rows of a group."""
        return [r for r in self.rows if r.group == name]

    def falling(self, row: Row) -> list[Fall]:
        """Under what a statement falls."""
        return [f for f in self.falls if f.row == row.id]

    def count(self, word: Word, group: str) -> int:
        """In how many rows of a group some engine says this word."""
        ids = {r.id for r in self.group(group)}
        return len({row for (row, _), c in self.cells.items() if row in ids and c.word == word})


def judge(evidence: Evidence) -> Ledger:
    """Find the words. Raises Damaged for a record that cannot be read."""
    records = {name: record(name, k) for name, k in evidence.sources.items() if name in SOURCES}
    stale = [
        name for name in records if digest(SOURCES[name].files) != evidence.sources[name].digest
    ]
    cells: dict[tuple[str, str], Cell] = {}
    rows = list(statements())
    falls: list[Fall] = []
    exhibits: list[Exhibit] = []
    for name, found in records.items():
        source = SOURCES[name]
        rows += source.rows(found)
        falls += source.falls(found)
        exhibits += source.exhibits(found)
        for cell in source.cells(found):
            cells[cell.row, cell.engine] = _aged(cell) if name in stale else cell
    cells |= _leaning(rows, cells)
    shortfalls = tuple(_shortfalls(records, stale, cells.values()))
    return Ledger(
        *(tuple(rows), cells, tuple(falls), tuple(exhibits)),
        *(records, tuple(stale), shortfalls),
    )


def _leaning(
    rows: Iterable[Row], cells: dict[tuple[str, str], Cell]
) -> dict[tuple[str, str], Cell]:
    """The cells that rest on proofs of the invariants which are not there."""
    ids = {r.id for r in rows if r.group == "invariant"}
    proofs = [c for (row, engine), c in cells.items() if row in ids and engine == Z3]
    if proofs and all(c.word == Word.PROVED for c in proofs if c.claimed):
        return {}
    why = "it assumes the invariants, and not all of them are proved"
    return {
        key: replace(c, word=Word.OPEN, because=why)
        for key, c in cells.items()
        if c.assumes and c.word.shown
    }


def _aged(cell: Cell) -> Cell:
    why = f"{cell.words} of an earlier text: it has changed since"
    return replace(cell, word=Word.STALE, because=why)


def _shortfalls(records: dict[str, Any], stale: list[str], cells: Iterable[Cell]) -> Iterator[str]:
    for name in SOURCES:
        if name not in records:
            yield f"no evidence of {name} is recorded: nullblock ledger --refresh"
    for name in filter(lambda name: SOURCES[name].claimed, stale):
        again = "nullblock ledger --refresh"
        if SOURCES[name].again:
            again = f"{SOURCES[name].again}, then {again}"
        yield f"the evidence of {name} is of an earlier text: {again}"
    for name, found in records.items():
        yield from SOURCES[name].broken(found)
    for cell in cells:
        if cell.claimed and not cell.word.shown and cell.word != Word.STALE:
            yield f"{cell.row}, {cell.engine}: {cell.word.value}: {cell.because}"


def statements() -> Iterator[Row]:
    """A row for every statement of the catalogue."""
    for s in everything():
        place = f"{'/'.join(Path(s.file).parts[-3:])}:{s.line}"
        yield Row(s.id, s.kind, s.sentence, place)
