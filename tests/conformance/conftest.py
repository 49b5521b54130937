"""Shared by the tests of conformance/."""

import sys
from pathlib import Path

# With import-mode=importlib a test does not find its neighbours by itself.
sys.path.insert(0, str(Path(__file__).parent))

import pytest  # noqa: E402
from recorded_engine import Recorded  # noqa: E402  (a module beside this one)

from nullblock.conformance.adapters import reference as adapter  # noqa: E402


@pytest.fixture
def where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where recordings go, from now on."""
    path = tmp_path / "t.jsonl"
    monkeypatch.setenv("NULLBLOCK_TRACE", str(path))
    monkeypatch.setattr(adapter, "Scheduler", Recorded)
    return path
