"""What the benchmarks have the real vLLM do runs, as `make bench` calls it: from no folder in
particular, with nothing told of where things are. How long it takes nobody asks here.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
sys.path.insert(0, str(BENCHMARKS))

from bench_checker import OPTIONS  # noqa: E402  (found through the line above)

pytestmark = pytest.mark.oracle


def printed(python: Path, folder: Path, *arguments: object) -> dict[str, Any]:
    """What a program of the benchmarks prints, played by the real engine's interpreter."""
    program, *others = map(str, arguments)
    bare = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(python), "-B", str(BENCHMARKS / program), *others],
        capture_output=True,
        text=True,
        cwd=folder,
        env=bare,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_messages_to_workers_are_pickled(oracle_python: Path, tmp_path: Path) -> None:
    """Bytes and two times, in either way, and the pickle is left behind."""
    (told,) = printed(oracle_python, tmp_path, "pickles.py", 4, 3, tmp_path).values()
    assert told.keys() == {"pickle", "msgspec"}
    assert all(len(row) == 3 and min(row) > 0 for row in told.values())
    assert (tmp_path / "4.pickle").stat().st_size


def test_the_fast_engines_workloads_are_played(oracle_python: Path, tmp_path: Path) -> None:
    """Each step's time, and a digest of what was decided."""
    found = printed(oracle_python, tmp_path, "players.py", "vllm", 4, 3)
    assert found
    assert all(row for row in found.values())


@pytest.mark.parametrize("option", ["", *OPTIONS])
def test_what_is_recorded_for_the_checker_is_played(
    oracle_python: Path, tmp_path: Path, option: str
) -> None:
    """And the recorder writes along."""
    trace = tmp_path / "trace.jsonl"
    assert printed(oracle_python, tmp_path, "decodes.py", 4, 8, 2, trace, *option.split())
    lines = trace.read_text().splitlines()
    assert sum(line.startswith('{"ev":"schedule') for line in lines) >= 8
    assert json.loads(lines[-1])["ev"] == "end"
