"""Runs pytest in a process of its own, as a user does."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PYTEST = Path(sys.executable).with_name("pytest")


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit code and the output of pytest in a folder, where these schedulers are found."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "COV"))}
    environment["PYTHONPATH"] = str(HERE)
    done = subprocess.run(
        [str(PYTEST), "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr
