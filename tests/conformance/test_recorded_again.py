"""The real engine's recordings come out as they are kept, byte for byte: what a recorder does to
be quicker changes none of them.
"""

import json
from pathlib import Path

import pytest
from bases import RECORDED
from record_again import EVERY_THIRD, SCENARIOS, record

pytestmark = pytest.mark.oracle


def test_kept_recordings_come_out_the_same(oracle_python: Path, tmp_path: Path) -> None:
    """Those that tests read."""
    assert sorted(json.loads(SCENARIOS.read_text())) == sorted(path.stem for path in RECORDED)
    record(oracle_python, SCENARIOS, tmp_path, EVERY_THIRD)
    for path in RECORDED:
        made = (tmp_path / path.name).read_text().splitlines()
        assert made == path.read_text().splitlines(), path.stem
