"""What is tested before anything is timed: the kernels, and the engine that launches them."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNELS = ("tests/kernels",)
ENGINE = (
    "tests/impl/device",
    "tests/impl/decoder",
    "tests/impl/workers/test_workers_device.py",
)
"""Decisions beside the NumPy engine, the loop without the host, tokens in both types, and the
mirror of the running list in a worker."""
ENGINE_NEEDS = ("hypothesis", "msgspec", "typer", "rich", "zstandard", "cbor2")
"""What these tests import besides torch, Triton, NumPy and pytest: the whole project's."""


def run_tests(folders: Sequence[str], needs: Sequence[str], quick: bool) -> tuple[bool, str]:
    """The tests of these folders, compiled; whether none failed, and pytest's last line, or why
    they were not run.
    """
    lacking = [name for name in ("pytest", *needs) if importlib.util.find_spec(name) is None]
    if lacking:
        return True, f"not run, for lack of {', '.join(lacking)}"
    command = [sys.executable, "-c", "import pytest; raise SystemExit(pytest.main())"]
    command += [*folders, "-q", "--no-header", "-p", "no:cacheprovider"]
    if quick:
        command += ["-m", "not slow"]
    if importlib.util.find_spec("xdist") is not None:
        command += ["-n", str(min(8, os.cpu_count() or 1))]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines = done.stdout.strip().splitlines() or ["no output"]
    if done.returncode:
        print("\n".join(lines[-60:]), file=sys.stderr)
    return done.returncode == 0, lines[-1].strip("= ")
