"""Plants a mutant: a copy of the specification with its edits, in front of the real one on the
import path of another process.

The parts of ``nullblock`` share a name and no ``__init__``: a folder that holds ``nullblock/spec``
alone stands in for that part, and the rest is found where it always is.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import nullblock.spec
from nullblock.conformance.strength.mutants import Mutant

SPEC = Path(nullblock.spec.__file__).parent
"""The text that is changed."""
IGNORED = shutil.ignore_patterns("__pycache__")


class Stale(Exception):
    """The text that a mutant changes is no longer in the specification."""


def edited(mutant: Mutant) -> dict[str, str]:
    """What the files become that a mutant changes. Raises Stale."""
    found: dict[str, str] = {}
    for file, old, new in mutant.edits:
        text = found.get(file) or (SPEC / file).read_text()
        if old not in text:
            raise Stale(f"{mutant.name}: {file} no longer contains {old!r}")
        found[file] = text.replace(old, new, 1)
    return found


@contextmanager
def planted(mutant: Mutant) -> Iterator[Path]:
    """A folder to put on PYTHONPATH. Raises Stale."""
    with TemporaryDirectory(prefix="mutant-") as folder:
        spec = Path(folder) / "nullblock" / "spec"
        shutil.copytree(SPEC, spec, ignore=IGNORED)
        for file, text in edited(mutant).items():
            (spec / file).write_text(text)
        yield Path(folder)


def ask(
    folder: Path | None, *arguments: str, seconds: float = 300, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a Python command line with the mutant in front.

    Raises ``subprocess.TimeoutExpired`` after that many seconds.
    """
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    if folder is not None:
        before = [str(folder), *filter(None, [env.get("PYTHONPATH")])]
        env["PYTHONPATH"] = os.pathsep.join(before)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
