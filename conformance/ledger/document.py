"""The ledger as JSON."""

from typing import Any

import msgspec

from nullblock.conformance.ledger.judge import Ledger
from nullblock.conformance.ledger.rows import Cell, Row
from nullblock.conformance.ledger.summary import sentences
from nullblock.conformance.ledger.words import MEANING


def document(ledger: Ledger) -> dict[str, Any]:
    """Everything: words, engines, cells with what is behind them, departures, mutants."""
    found: dict[str, Any] = msgspec.to_builtins(
        {
            "summary": list(sentences(ledger)),
            "stale": ledger.stale,
            "shortfalls": ledger.shortfalls,
            "words": {w.value: meaning for w, meaning in MEANING.items()},
            "engines": ledger.engines,
            "statements": [_row(ledger, r) for r in ledger.rows],
            "evidence": ledger.records,
        }
    )
    return found


def _row(ledger: Ledger, row: Row) -> dict[str, Any]:
    cells = [c for c in ledger.of(row) if c is not None]
    return {
        "id": row.id,
        "kind": row.group,
        "sentence": row.sentence,
        "place": row.place,
        "falls_under": [f.by for f in ledger.falling(row)],
        "shown": {c.engine: _cell(c) for c in cells},
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "word": cell.word.value,
        "words": cell.words,
        "extent": cell.extent,
        "shown": cell.word.shown,
        "claimed": cell.claimed,
        "because": cell.because,
        "command": cell.command,
    }
