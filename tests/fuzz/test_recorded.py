"""Recordings of random scenarios: a part of what `tests/fuzz/recorded.py` does by command."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fuzz import recorded
from fuzz.families import FAMILIES
from fuzz.recorded import Recorder

from nullblock.conformance.checker.verdict import Verdict

FEW = ("core", "drafts-groups", "sessions", "remote")
KEPT = Path(__file__).parents[1] / "conformance" / "data" / "recorded"
HYBRID = KEPT / "hybrid.jsonl"
LOST = {"ev": "lost", "reason": "KeyError"}


@pytest.mark.oracle
@pytest.mark.parametrize("profile", ["vllm-0.22.1", "vllm-0.32.0"])
def test_what_the_real_engine_does_is_explained(profile: str, pythons: dict[str, Path]) -> None:
    """No recording is at fault, whatever its recorder is told, and some conform."""
    recorder = Recorder(pythons[profile], profile)
    for name in FEW:
        total = recorder.run(FAMILIES[name], 7, 6, 12)
        assert total.verdicts["CONFORMS"] >= 1 and total.steps > 20, name
    assert recorder.faults == []


def test_what_a_recorder_is_told_is_drawn() -> None:
    """And is the same for the same key."""
    scenario: dict[str, Any] = {"events": [{"op": "step"}] * 9}
    drawn = [recorded.recording(str(n), dict(scenario)) for n in range(60)]
    assert drawn == [recorded.recording(str(n), dict(scenario)) for n in range(60)]
    assert {one["observe"] for one in drawn} == set(recorded.OBSERVED)
    assert {one["state_every"] for one in drawn} == {0, 1, 3, 10}
    begun = [one["recorded_from"] for one in drawn if "recorded_from" in one]
    assert 5 < len(begun) < 30 and set(begun) <= set(range(1, 9))


def test_a_wrong_decision_is_a_fault(tmp_path: Path) -> None:
    """So is a damaged recording; one that is right is none, nor is one that was never begun."""
    recorder = Recorder(Path("python"), "vllm-0.22.1")
    assert recorder.found(HYBRID).fault == ""
    lines = [json.loads(line) for line in HYBRID.read_text().splitlines()]
    for line in lines[0], lines[-1]:
        line.pop("config_sha256", None)
    lines = [lines[0] | {"sealed": False}, *lines[1:-1]]
    step = next(line for line in lines if line["ev"] == "schedule" and line["ids"])
    path = tmp_path / "wrong.jsonl"
    for change, said in ((1, "VIOLATION"), (-(2**70), "MALFORMED")):
        step["tokens"][0] += change
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        assert recorder.found(path).fault.startswith(said)
    path.write_text("".join(json.dumps(line) + "\n" for line in [lines[0], LOST]))
    assert recorder.found(path).fault == "anything after the recorder gave up (KeyError)"
    assert recorder.found(tmp_path / "none.jsonl") == recorded.Found(None, "")


def test_forms_that_say_different_things_are_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though both may be right."""
    judged = recorded._verdict

    def verdict(path: Path, after: float) -> Verdict:
        found = judged(path, after)
        return found if after else replace(found, decisions=found.decisions + 1)

    monkeypatch.setattr(recorded, "_verdict", verdict)
    found = Recorder(Path("python"), "vllm-0.22.1").found(HYBRID)
    assert "the forms of the text" in found.fault


def test_a_recorder_that_changes_what_is_decided_is_at_fault(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The scenario is shrunk and kept, and one line says how to see it again."""

    def record(python: Path, scenarios: dict[str, Any], folder: Path) -> None:
        for name in scenarios:
            (folder / f"{name}.jsonl").write_bytes(HYBRID.read_bytes())

    def otherwise(folder: Path) -> list[str]:
        return [path.name for path in folder.glob("*.jsonl")]

    monkeypatch.setattr(recorded, "record_all", record)
    monkeypatch.setattr(recorded, "decided_otherwise", otherwise)
    monkeypatch.setattr(recorded, "shrink", lambda scenario, fails, budget: scenario)
    monkeypatch.setattr(recorded.bulk, "FOUND", tmp_path / "found")
    recorder = Recorder(Path("python"), "vllm-0.22.1")
    recorder.run(FAMILIES["core"], 7, 2, 8)
    assert recorder.faults == ["recorded-core-7-0", "recorded-core-7-1"]
    told = capsys.readouterr().out
    assert "decides otherwise when it is recorded" in told and "--replay" in told
    assert (tmp_path / "found" / "recorded-core-7-1.json").exists()
