"""The count of divergences: on twins and in the interpreter it finds none, and what is planted."""

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import pytest

pytest.importorskip("torch", reason="torch is not installed: pip install 'nullblock[gpu]'")

import agreement
import bench_gpu
import floors
import planting
from agreement import CONFIGURATIONS, Divergence, Game, compare
from divergences import STEPS, Divergences, count
from figures import Floors
from page import Report, as_page

from nullblock.impl.step import Step
from nullblock.kernels.control.faults import Fault
from nullblock.kernels.control.state import State

CONTROL = "nullblock.kernels.control"
FLOORS = Floors(copy_bandwidth=4e12, matmul_rate=8e14, launch=1e-6, eager_launch=5e-6)
RARE = {"preempted", "resumed", "hit", "ended by tokens", "ended from outside"}


def report(divergences: Divergences | None, is_gpu: bool = True) -> Report:
    """A run in which nothing else was measured."""
    return Report("today", "a GPU", is_gpu, "run", {}, "", FLOORS, [], divergences=divergences)


@pytest.mark.parametrize("number", range(len(CONFIGURATIONS)))
def test_games_reach_what_is_rare(number: int) -> None:
    """The twins decide as the NumPy engine does, in games of every configuration; arrays stay as
    large as they were, so that no kernel is compiled a second time."""
    game = Game("twins", CONFIGURATIONS[number], seed=1)
    sizes = game.device.resident.sizes
    game.play(250)
    assert {what for what in RARE if game.seen[what]} == RARE
    assert game.device.resident.sizes == sizes


def test_steps_are_counted() -> None:
    """Of each configuration as many, in games of a certain length."""
    found = count("twins", 90, CONFIGURATIONS[:2], length=20)
    assert found == Divergences(90, 2, ())
    assert str(found) == "0 in 90 steps of 2 configurations, beside the NumPy engine"
    assert STEPS == 1_000_000


@contextmanager
def defect(device: str, folder: Path) -> Iterator[None]:
    """The first one of all is preempted, not the last; a last chunk samples nothing."""
    if device == "interpreter":
        with planting.defect(folder, "control/decision.py", "(after >= num", "(after > num"):
            yield
    else:
        with patch(f"{CONTROL}.running_phase.victim_torch", lambda state: 0):
            yield


@pytest.mark.parametrize(("device", "steps"), [("twins", 60), ("interpreter", 4)])
def test_a_planted_difference_is_counted(device: str, steps: int, tmp_path: Path) -> None:
    """In the kernels and in their twins; the game ends there, and others are played all the same.
    Without it there is none."""
    assert count(device, steps, CONFIGURATIONS[:1]).found == ()
    with defect(device, tmp_path):
        found = count(device, 2 * steps, CONFIGURATIONS[:1], length=steps)
    assert len(found.found) == 2 and found.steps <= 2 * steps
    assert all("Divergence: seed" in line for line in found.found)
    assert str(found).startswith("2 in ") and "configuration 0, seed 0, step" in str(found)


def test_a_kernel_that_reports_a_fault_is_counted() -> None:
    """So is whatever else ends a game."""

    def reports(state: State) -> int:
        state.report(Fault.COUNT)
        return 0

    with patch(f"{CONTROL}.update.num_scheduled_torch", reports):
        found = count("twins", 60, CONFIGURATIONS[:1])
    assert found.steps == 1
    assert found.found[0].startswith("configuration 0, seed 0, step 0: RuntimeError: ")
    assert "COUNT" in found.found[0]


def test_states_are_compared_too() -> None:
    """What no step has told yet: here one block that only one of the two has forgotten."""
    game = Game("twins", CONFIGURATIONS[0])
    game.play(30)
    pool = game.numpy.picture().pool
    assert pool is not None
    game.device.evict_blocks(list(pool.content)[:1])
    with pytest.raises(Divergence, match="step 30"):
        game.compare_states()


def test_a_scheduler_that_decides_otherwise_is_not_timed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The table of steps plays before it measures; the first decision that differs is an error
    that says which field."""
    assert compare("twins", 40)["preempted"]
    true = agreement.told
    calls: list[Step] = []

    def lies(step: Step) -> dict[str, object]:
        calls.append(step)
        return true(step) | ({"running": -1} if len(calls) == 21 else {})

    monkeypatch.setattr(agreement, "told", lies)
    with pytest.raises(Divergence, match=r"seed 0, step 10: running is -1 instead of \d+$"):
        compare("twins", 40)


def test_the_page_has_the_row() -> None:
    """How many in how many steps, and the first of them; it stays empty if nobody counted."""
    row = "| 0 in 1,000,000 random steps | and on every bundled trace |"
    said = "3 in 9 steps of 2 configurations, beside the NumPy engine; first"
    wrong = Divergences(9, 2, ("first", "second", "third"))
    assert f"{row} {said} |" in as_page(report(wrong))
    assert f"{row}  |" in as_page(report(None))
    assert report(wrong).has_failed and not report(Divergences(9, 2, ())).has_failed
    assert not report(None).has_failed


@pytest.mark.parametrize(("found", "code"), [((), 0), (("there",), 1)])
def test_a_difference_is_an_exit_code(
    found: tuple[str, ...], code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """1, and the page is written all the same."""
    made = report(Divergences(9, 2, found))
    monkeypatch.setenv("TRITON_INTERPRET", os.environ.get("TRITON_INTERPRET", "0"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", ["bench_gpu.py", "--no-tests", "--out", str(tmp_path)])
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr(bench_gpu, "measure_all", lambda *arguments: iter([made]))
    assert bench_gpu.main() == code
    assert f"{len(found)} in 9 steps" in (tmp_path / "RESULTS.md").read_text()


@pytest.mark.parametrize(("is_gpu", "quick"), [(True, True), (True, False), (False, False)])
def test_divergences_are_counted_on_a_gpu_alone(
    is_gpu: bool, quick: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On it, a million of steps or a quick few; elsewhere nobody counts, and nothing is said."""
    asked: list[tuple[str, int]] = []

    def noted(device: str, steps: int) -> Divergences:
        asked.append((device, steps))
        return Divergences(steps, 4, ())

    monkeypatch.setattr("divergences.count", noted)
    monkeypatch.setattr(floors, "measure_floors", lambda *arguments: FLOORS)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "a GPU")
    monkeypatch.setattr("torch.cuda.empty_cache", lambda: None)
    monkeypatch.setattr("timing.CudaClock", lambda: None)
    options = Namespace(quick=quick, only=["divergences"])
    (made,) = bench_gpu.measure_all(options, is_gpu, "", "")
    assert asked == ([("cuda", 20_000 if quick else 1_000_000)] if is_gpu else [])
    assert (made.divergences is None) is not is_gpu
    assert ("divergences from" in as_page(made)) is is_gpu
