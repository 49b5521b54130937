"""Long runs that are recorded: what is counted, what is not any more, and how a run goes on."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from fuzz import bulk, record
from fuzz.families import FAMILIES
from fuzz.lockstep import Scenario
from fuzz.source_defects import planted

from nullblock.conformance.engine import Feature
from nullblock.conformance.ledger.sums import REAL, Sum, add, gather, present, totals
from nullblock.reference.sched.running_phase import RunningPhase
from nullblock.spec.profiles import NORMATIVE

BOTH = ("spec", "reference")


def unanswered(sums: list[Sum]) -> list[Sum]:
    """Runs that showed a difference, of texts that stand as they stood.

    A difference of a text that changed stays on record: the change is the answer to it.
    """
    return [s for s in sums if s.differences and all(map(s.is_present, s.engines))]


def test_no_run_of_this_text_showed_a_difference() -> None:
    """And each that is recorded has its text, its scenarios and its steps."""
    sums = gather()
    assert unanswered(sums) == []
    assert all(one.of and one.scenarios > 0 and one.steps > 0 for one in sums)


def test_a_difference_is_answered_by_a_change_of_text_alone() -> None:
    """Of the text that is there, it stands whichever the engines and the family."""
    now = {e: present(e) for e in BOTH}
    shown = Sum("core", now, REAL, {"1": 1}, steps=9, differences=1)
    assert unanswered([shown]) == [shown]
    assert unanswered([msgspec.structs.replace(shown, of=now | {"spec": "0" * 64})]) == []


def test_runs_add_up_and_those_of_another_text_do_not_count(tmp_path: Path) -> None:
    """A total is of the text that is there: runs of an earlier one stay, and add nothing."""
    path, now = tmp_path / "runs.json", {e: present(e) for e in BOTH}
    earlier = now | {"spec": "0" * 64}
    add(Sum("core", now, REAL, {"1": 10}, steps=500, watched=1, reached={"abort": 1}), path)
    whole = add(Sum("core", now, REAL, {"1": 2, "2": 3}, steps=70, reached={"abort": 2}), path)
    assert (whole.seeds, whole.scenarios, whole.steps) == ({"1": 12, "2": 3}, 15, 570)
    assert whole.reached == {"abort": 3}
    add(Sum("waits", {"reference": now["reference"]}, REAL, {"5": 1}, steps=30), path)
    add(Sum("core", earlier, REAL, {"3": 1}, steps=9, differences=4), path)
    assert len(gather(path)) == 3
    said = totals(gather(path))
    assert f"spec, {REAL}: 570 steps, 15 scenarios, 0 differences" in said
    # What was the text of the reference then is its text now.
    assert f"reference, {REAL}: 609 steps, 17 scenarios, 4 differences" in said


def bulk_of(seed: int, made: list[str]) -> bulk.Bulk:
    """A run of both engines, without a real one, that notes which scenarios it makes."""
    core = FAMILIES["core"]

    def make(key: str, size: int, features: frozenset[Feature]) -> Scenario:
        made.append(key)
        return core.make(key, size, features)

    family = replace(core, make=make, every=10**9)
    return bulk.Bulk(None, BOTH, seed, 8, NORMATIVE, family)


def test_a_seed_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """No scenario is counted twice, by whichever program it is gone on with."""
    path, made = tmp_path / "runs.json", list[str]()
    for _ in range(2):
        run = bulk_of(7, made)
        record.go_on(run, record.start(run, "normative"), 40, path)
    assert made == [f"7:{number}" for number in range(len(made))]
    (whole,) = gather(path)
    assert whole.seeds == {"7": len(made)} and whole.steps >= 80


def test_a_difference_is_recorded_and_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is for people to explain: nothing is added to it."""
    monkeypatch.setattr(bulk, "FOUND", tmp_path / "found")
    monkeypatch.setattr(bulk, "MOST_DIFFERENCES", 1)
    path, run = tmp_path / "runs.json", bulk_of(3, [])
    with planted(RunningPhase, "_schedule_running", "0, None, lookahead", "0, None, 9"):
        record.go_on(run, record.start(run, "normative"), 5000, path)
    (whole,) = gather(path)
    assert whole.differences == 1 and "a difference; shrinking" in capsys.readouterr().out
