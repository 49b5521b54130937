"""A command loads what it needs: a verdict on a short trace waits for no prover and no fuzzer."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nullblock.conformance import trace

FORMAT = Path(trace.__file__).parents[1] / "FORMAT.md"
HEAVY = ("z3", "hypothesis", "numpy", "torch")
SCRIPT = f"""
import sys
from nullblock.conformance.cli import main
code = main(sys.argv[1:])
print("loaded:", *(name for name in {HEAVY} if name in sys.modules))
sys.exit(code)
"""


def loaded(*arguments: str) -> list[str]:
    """Which of the heavy packages a command has loaded when it is done."""
    command = [sys.executable, "-c", SCRIPT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()[-1].split()[1:]


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """The trace that the format's page shows."""
    (lines,) = re.findall(r"```json\n(.*?)```", FORMAT.read_text(), re.DOTALL)
    path = tmp_path / "example.jsonl"
    path.write_text(lines)
    return path


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_verdict_loads_no_prover_and_no_fuzzer(example: Path, form: tuple[str, ...]) -> None:
    """`nullblock check` on a short trace that conforms, as text and as JSON."""
    assert loaded("check", *form, str(example)) == []


def test_a_page_loads_no_prover(example: Path, tmp_path: Path) -> None:
    """The page with everything on it needs nothing more."""
    page = tmp_path / "page.html"
    assert loaded("check", "--page", str(page), str(example)) == []
    assert page.stat().st_size


def test_theorems_are_loaded_where_they_are_asked_for() -> None:
    """A family of rules is listed without the prover; a theorem is one of its texts."""
    assert loaded("rules", "QUEUE") == []
    assert loaded("rules", "THEOREM-1") == ["z3"]
