"""Defects planted in the control kernels: each has to be noticed by the scene named with it."""

from importlib import import_module
from pathlib import Path

import pytest
import scenes
import torch
from control_defects import Mutant, planted
from pool_mutants import POOL
from step_mutants import STEP

from nullblock.kernels.checks import KernelDefects, checked
from nullblock.kernels.checks.shipped import allowed

POOL_SCENES = sorted({mutant.scene for mutant in POOL})
SCENES = sorted({mutant.scene for mutant in STEP if " " not in mutant.scene})


def run(scene: str) -> None:
    """A scene, or the game of a number, with the kernels that are loaded now."""
    name, _, number = scene.partition(" ")
    if number:
        import_module("play").play(int(number), "triton", turns=25)
    else:
        getattr(import_module("scenes"), name)()


@pytest.mark.parametrize("scene", POOL_SCENES)
def test_scenes_of_a_pool_are_quiet_without_a_defect(scene: str, device: torch.device) -> None:
    """No scene fails by itself."""
    getattr(scenes, scene)(device)


@pytest.mark.parametrize("scene", SCENES)
def test_scenes_are_quiet_without_a_defect(scene: str) -> None:
    """Nor do those of whole steps; that the games do not is a test of its own."""
    getattr(scenes, scene)()


@pytest.mark.parametrize("mutant", POOL, ids=lambda mutant: mutant.name)
def test_defects_of_a_pool_are_noticed(
    mutant: Mutant, tmp_path: Path, device: torch.device
) -> None:
    """The scene fails: a comparison does, or a bit of the error word is set. None of them writes
    outside its tensors, so that they can be compiled too."""
    with (
        planted(tmp_path, mutant.file, mutant.old, mutant.new),
        pytest.raises((AssertionError, RuntimeError)),
    ):
        getattr(import_module("scenes"), mutant.scene)(device)


@pytest.mark.parametrize("mutant", STEP, ids=lambda mutant: mutant.name)
def test_defects_are_noticed(mutant: Mutant, tmp_path: Path) -> None:
    """So does the scene, or the game, of a defect in whole steps."""
    with (
        planted(tmp_path, mutant.file, mutant.old, mutant.new),
        pytest.raises((AssertionError, RuntimeError)),
    ):
        run(mutant.scene)


def test_turns_are_bounded(tmp_path: Path) -> None:
    """A running phase that gets nowhere stops and says so: TURNS."""
    old, new = "(tl.cumsum(lacking, 0) > free)", "(tl.cumsum(lacking, 0) >= free)"
    with (
        planted(tmp_path, "grant.py", old, new),
        pytest.raises(RuntimeError, match="TURNS"),
    ):
        run("game 61")


BARRIERS = {
    "popped blocks": ("ring.py", "got)\n        tl.debug_barrier()", "got)", "taken"),
    "the queue's ends": (
        "ring.py",
        "    tl.debug_barrier()  # all threads have",
        "    #",
        "taken",
    ),
    "groups in front": ("release.py", "    tl.debug_barrier()\n    size", "    size", "shared"),
    "a new index": (
        "cache.py",
        "    tl.debug_barrier()\n    return used",
        "    return used",
        "rebuilt",
    ),
    "who runs": (
        "queues.py",
        "    tl.debug_barrier()\n    return count",
        "    return count",
        "withdrawn",
    ),
}
"""Barriers that are left out: who reads what before whom wrote it; a file, two texts, a scene."""


@pytest.mark.parametrize("what", BARRIERS)
def test_missing_barriers_are_noticed(what: str, tmp_path: Path) -> None:
    """Comparing results shows nothing in the interpreter; looking at its accesses does."""
    file, old, new, scene = BARRIERS[what]
    with planted(tmp_path, file, old, new), pytest.raises(KernelDefects, match="defects in"):
        with checked(allow=allowed()):
            run(scene)
