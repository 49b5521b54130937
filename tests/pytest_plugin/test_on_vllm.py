"""The plugin on the real vLLM 0.22.1, in vLLM's own environment."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.oracle

HERE = Path(__file__).parent
# What vLLM's environment lacks (pytest, this project) is taken from ours, behind its own packages.
START = """
import sys
sys.path += {paths!r}
import pytest
sys.exit(pytest.main(sys.argv[1:]))
"""


def run(python: Path, folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit code and the output of pytest under vLLM's interpreter."""
    paths = [str(HERE), str(HERE.parent / "oracle"), *(p for p in sys.path if "packages" in p)]
    paths += [p for p in sys.path if p.endswith(".src")]
    done = subprocess.run(
        [str(python), "-B", "-c", START.format(paths=paths), "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST")},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_real_scheduler_is_not_refuted(tmp_path: Path, oracle_python: Path) -> None:
    """vLLM's classes, fed with vLLM's own requests, follow the rules of their profile: in every
    family, in every vector that the rules cover, what a front end refuses included.
    """
    code, said = run(
        oracle_python,
        tmp_path,
        *("--nullblock-scheduler", "real_vllm:Scheduler", "--nullblock-steps", "60"),
        *("--nullblock-async-scheduler", "real_vllm:AsyncScheduler"),
        *("--nullblock-features", "all", "--nullblock-seed", "4"),
    )
    assert code == 0, said
    assert "compared are decisions and state" in said and "not asked for" not in said
    assert re.search(r"kv-events: not refuted in \d+ scenarios", said)
    vectors = re.search(r"golden vectors: (\d+) passed(.*)", said)
    assert vectors is not None and int(vectors[1]) >= 76
    assert "skipped" not in vectors[2], "the rules cover every one of them"


def test_a_defect_on_top_of_the_real_scheduler_is_explained(
    tmp_path: Path, oracle_python: Path
) -> None:
    """A subclass with one line that is wrong is told so (PREEMPT-4, WAIT-1 or WAIT-12)."""
    options = ("--nullblock-scheduler", "real_vllm:OldestFirst", "-k", "several-victims")
    code, said = run(oracle_python, tmp_path, *options)
    assert code == 1, said
    assert re.search(
        r"OldestFirst departs from vllm-0.22.1 at (PREEMPT-4|WAIT-1|WAIT-12)\b", said
    ), said
