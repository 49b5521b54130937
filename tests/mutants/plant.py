"""Plants a mutant: a copy of `spec/` with its edits, in front of the real one on the import
path.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from catalogue import Mutant

ROOT = Path(__file__).resolve().parents[2]
IGNORED = shutil.ignore_patterns("__pycache__")


class Stale(Exception):
    """The text that a mutant changes is no longer in the specification."""


@contextmanager
def planted(mutant: Mutant) -> Iterator[Path]:
    """A folder to put on PYTHONPATH. Raises Stale."""
    with TemporaryDirectory(prefix="mutant-") as folder:
        spec = Path(folder) / "nullblock" / "spec"
        shutil.copytree(ROOT / "spec", spec, ignore=IGNORED)
        for file, old, new in mutant.edits:
            path = spec / file
            text = path.read_text()
            if old not in text:
                raise Stale(f"{mutant.name}: {file} no longer contains {old!r}")
            path.write_text(text.replace(old, new, 1))
        yield Path(folder)


def ask(
    folder: Path | None, *arguments: str, seconds: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a Python command line with the mutant in front."""
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if folder is not None:
        env["PYTHONPATH"] = str(folder)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
