"""The golden refusals: each file comes from its recipe and gets the verdict of the table."""

import json
from pathlib import Path
from typing import Any

import pytest
from refusals import FOLDER, TABLE, Refusal, entry, refusals

from nullblock.conformance.checker import check
from nullblock.conformance.cli import main

ROWS: list[dict[str, Any]] = json.loads(TABLE.read_text())


def test_the_files_come_from_the_recipe() -> None:
    """Byte for byte, and the table says what each is."""
    made = refusals()
    assert {r.name for r in made} == {p.name for p in FOLDER.glob("*.jsonl*")}
    for refusal in made:
        assert (FOLDER / refusal.name).read_bytes() == refusal.data, refusal.name
    assert {r.name: r.what for r in made} == {row["file"]: row["what"] for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["file"])
def test_every_file_is_refused_as_the_table_says(row: dict[str, Any]) -> None:
    """None conforms; a violation names its rule and line, damage its line, the rest what lacks."""
    refusal = Refusal(row["file"], row["what"], (FOLDER / row["file"]).read_bytes())
    assert entry(refusal) == row
    assert check(FOLDER / row["file"], deep=False).verdict == row["verdict"]
    assert row["verdict"] != "CONFORMS" and row["said"]
    assert (row["line"] is None) == (row["verdict"] == "INCONCLUSIVE")


def test_there_is_every_kind_of_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    """Violations of many rules, damage of many kinds, gaps; the command agrees on the code."""
    rules = {row["rule"] for row in ROWS if row["rule"]}
    assert len(rules) > 25
    for verdict, least in (("VIOLATION", 60), ("MALFORMED", 25), ("INCONCLUSIVE", 8)):
        some = [row for row in ROWS if row["verdict"] == verdict]
        assert len(some) >= least
        assert main(["check", str(FOLDER / some[0]["file"])]) == some[0]["exit_code"]
    assert Path(TABLE).read_text().count("\n") == len(ROWS)
