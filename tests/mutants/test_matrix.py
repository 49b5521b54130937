"""The committed table of who notices which defect is true, and leaves nobody out."""

import json
from hashlib import sha256

import pytest
import table
from test_prover_canaries import NOTICED

from nullblock.conformance.strength.mutants import MUTANTS, Mutant
from nullblock.conformance.strength.plant import planted

FEW = 8
ROWS: dict[str, table.Verdicts] = json.loads(table.MATRIX.read_text())


def killers(name: str) -> list[str]:
    """The checkers that notice a mutant, by the matrix."""
    return [checker for checker, said in ROWS[name].items() if said == "killed"]


def test_the_page_is_the_matrix() -> None:
    """`spec/MUTANTS.md` was generated from the matrix, for these mutants and these checkers."""
    assert table.TABLE.read_text() == table.markdown(ROWS)
    assert list(ROWS) == [m.name for m in MUTANTS]
    checkers = {*(f"explorer {name}" for name in table.scopes()), *table.others()}
    assert all(set(row) == checkers for row in ROWS.values())
    assert {said for row in ROWS.values() for said in row.values()} == {"killed", "survived"}


def test_every_checker_notices_something_and_every_defect_is_noticed() -> None:
    """No checker is idle, and no defect passes all of them."""
    for checker in next(iter(ROWS.values())):
        assert any(row[checker] == "killed" for row in ROWS.values()), checker
    for name in ROWS:
        assert killers(name), name
    assert sum(len(killers(name)) > 1 for name in ROWS) > len(ROWS) / 2


def drawn(mutant: Mutant) -> list[str]:
    """A few of the scopes in which the explorer notices it by the matrix, drawn by their names."""
    claimed = [c.removeprefix("explorer ") for c in killers(mutant.name) if "explorer" in c]
    claimed.sort(key=lambda name: sha256(f"{mutant.name} {name}".encode()).digest())
    return claimed[:FEW]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_explorer_notices_what_the_table_says(mutant: Mutant) -> None:
    """A few ticks of each row of the explorer, run again with the defect planted; `table.py` runs
    all of them: each is a program to translate.
    """
    claimed = drawn(mutant)
    with planted(mutant) as folder:
        said = table.explored(folder, claimed)
    assert said == {f"explorer {name}": "killed" for name in claimed}


def test_the_prover_notices_what_the_table_says() -> None:
    """Its ticks are the canaries of `test_prover_canaries.py`, which runs them, each where it is
    noticed.
    """
    assert {name for name in ROWS if "Z3" in killers(name)} == set(NOTICED)


OTHERS = [(m, c) for m in MUTANTS for c in killers(m.name) if c in ("trace", "lockstep")]


@pytest.mark.parametrize(("mutant", "checker"), OTHERS, ids=lambda x: getattr(x, "name", x))
def test_the_others_notice_what_the_table_says(mutant: Mutant, checker: str) -> None:
    """Each tick of the trace checker and of the lockstep, run again."""
    with planted(mutant) as folder:
        assert table.verdict(folder, table.others()[checker]) == "killed"
