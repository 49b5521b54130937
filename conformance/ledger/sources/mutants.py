"""Planted defects: which checker notices which. A long run, read from what it left."""

import json
from collections.abc import Iterator
from pathlib import Path

from nullblock.conformance.ledger.digest import ROOT
from nullblock.conformance.ledger.sources.base import Record, Source
from nullblock.conformance.strength.mutants import MUTANTS

MATRIX = "tests/mutants/matrix.json"


class Planted(Record, frozen=True):
    """Who noticed one mutant."""

    name: str
    defect: str
    rule: str
    noticed: tuple[str, ...]
    """By these checkers."""

    @property
    def command(self) -> str:
        """Plants it again and asks each checker that noticed it."""
        return f'make pytest T="tests/mutants/test_matrix.py -k {self.name}"'


class Mutants(Record, frozen=True):
    """Who noticed what."""

    checkers: tuple[str, ...]
    mutants: tuple[Planted, ...]


def gather() -> Mutants:
    """Read the matrix that `tests/mutants/table.py` wrote; a test runs each tick again."""
    rows: dict[str, dict[str, str]] = json.loads(Path(ROOT / MATRIX).read_text())
    checkers = tuple(next(iter(rows.values())))
    return Mutants(
        checkers,
        tuple(
            Planted(
                *(m.name, m.defect, m.rule),
                tuple(c for c in checkers if rows.get(m.name, {}).get(c) == "killed"),
            )
            for m in MUTANTS
        ),
    )


def broken(found: Mutants) -> Iterator[str]:
    """Mutants that nobody noticed."""
    there = {m.name for m in found.mutants}
    yield from (f"mutant {m.name} is not recorded" for m in MUTANTS if m.name not in there)
    yield from (f"mutant {m.name}: nobody notices it" for m in found.mutants if not m.noticed)


SOURCE = Source("mutants", Mutants, ("conformance/strength/mutants.py",), gather, broken=broken)
