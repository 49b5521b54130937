"""The real engine's recordings come out as they are kept, byte for byte: what a recorder does to
be quicker changes none of them.
"""

import json
from pathlib import Path

import pytest
from altered import judge
from bases import begun_later
from record_again import BEGUN, EVERY_THIRD, KEPT, record

from nullblock.conformance.checker import check
from nullblock.conformance.trace.reader import TraceReader
from nullblock.conformance.trace.records import State

NOT_KNOWN = {
    "again": "what a step in flight owes to an earlier owner of request number 0",
}


@pytest.mark.oracle
@pytest.mark.parametrize("kept", [KEPT, BEGUN], ids=lambda folder: folder.name)
def test_kept_recordings_come_out_the_same(
    kept: Path, oracle_python: Path, tmp_path: Path
) -> None:
    """Those that tests read, and those that begin in the middle of a scenario."""
    scenarios, paths = kept / "scenarios.json", sorted(kept.glob("*.jsonl"))
    assert json.loads(scenarios.read_text()).keys() == {path.stem for path in paths}
    record(oracle_python, scenarios, tmp_path, EVERY_THIRD)
    for path in paths:
        made = (tmp_path / path.name).read_text().splitlines()
        assert made == path.read_text().splitlines(), path.stem


@pytest.mark.parametrize("path", sorted(BEGUN.glob("*.jsonl")), ids=lambda path: path.stem)
def test_what_began_in_the_middle_is_explained(path: Path) -> None:
    """It begins with a state, and all that follows conforms; what is not known is named."""
    _, first, *_ = (located.record for located in TraceReader(path))
    assert isinstance(first, State)
    verdict = check(path)
    assert verdict.missing == ([NOT_KNOWN[path.stem]] if path.stem in NOT_KNOWN else [])
    assert verdict.verdict == ("INCONCLUSIVE" if verdict.missing else "CONFORMS"), verdict.first


def test_items_of_chunks_are_told_in_the_states_to_come() -> None:
    """So that what follows the last one is judged: both sessions have them by then."""
    path = BEGUN / "items-of-chunks.jsonl"
    lines = begun_later(path, sum('"ev":"state"' in line for line in path.open()) - 1)
    told = {request["id"]: request for request in lines[1]["requests"]}
    assert [len(told[r]["items"]) for r in (0, 1)] == [3, 1]
    assert all("multimodal" in told[r]["features"] for r in (0, 1))
    assert judge(lines).verdict == "CONFORMS"
