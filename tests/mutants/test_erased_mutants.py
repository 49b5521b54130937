"""A defect planted in the text is in the erased form as well: the eraser hides nothing."""

from pathlib import Path

import pytest

from nullblock.conformance.strength.mutants import MUTANTS, Mutant
from nullblock.conformance.strength.plant import ask, planted

ROOT = Path(__file__).resolve().parents[2]
LOCKSTEP = ROOT / "tests" / "spec" / "erased_lockstep.py"
SEEDS = 8


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_the_erased_mutant_behaves_as_the_mutant(mutant: Mutant) -> None:
    """Both forms of the changed text go the same way, or the eraser refuses it by name."""
    with planted(mutant) as folder:
        done = ask(folder, str(LOCKSTEP), str(SEEDS))
    refused = done.returncode == 2 and done.stdout.startswith("refused: ")
    assert done.returncode == 0 or refused, done.stdout + done.stderr
    assert "RUN-5" in done.stdout or refused
