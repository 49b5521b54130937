"""Makes the recordings anew that tests keep, with the real vLLM 0.22.1.

    python tests/conformance/record_again.py

needs the real engine (``make oracle``), and writes data/recorded: the recordings of its
scenarios.json, and digests of those of tests/oracle's scenarios, in ``digests.json``; and
data/begun: recordings that begin in the middle of a scenario.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
KEPT = HERE / "data" / "recorded"
BEGUN = HERE / "data" / "begun"
DIGESTS = KEPT / "digests.json"
GOLDEN = HERE.parent / "oracle" / "data" / "scenarios.json"
SECONDS = 240
EVERY_THIRD = "3"
"""Kept recordings have the whole state after every third step."""


def record(python: Path, scenarios: Path, folder: Path, *every: str) -> None:
    """Record scenarios on the real engine, whose Python this is: see ``record_engine.py``."""
    subprocess.run(
        [python, "-B", HERE / "record_engine.py", scenarios, folder, *every],
        env={**os.environ, "PYTHONHASHSEED": "0"},
        check=True,
        timeout=SECONDS,
    )


def record_all(python: Path, documents: dict[str, Any], folder: Path, *every: str) -> None:
    """Record scenarios, by name, in a folder: see :func:`record`."""
    asked = folder / "scenarios.json"
    asked.write_text(json.dumps(documents))
    record(python, asked, folder, *every)


def decided_otherwise(folder: Path) -> list[str]:
    """The recordings of a folder beside whose decisions, but for where an exception came from,
    those of the plain engine are others. Raises ValueError where there is no recording.
    """
    every = sorted(folder.glob("*.jsonl"))
    if not every:
        raise ValueError(f"no recording in {folder}")
    return [path.name for path in every if _decided(path, "plain") != _decided(path, "recorded")]


def _decided(path: Path, how: str) -> list[Any]:
    lines = [json.loads(one) for one in path.with_suffix(f".{how}").read_text().splitlines()]
    lines.pop()
    lines[-1].pop("where", None)
    return lines


def digests(folder: Path) -> dict[str, str]:
    """Of each recording of a folder, all its bytes."""
    found = sorted(folder.glob("*.jsonl"))
    return {path.stem: hashlib.sha256(path.read_bytes()).hexdigest() for path in found}


def main() -> None:
    """Record all."""
    python = HERE.parents[1] / ".oracle" / "bin" / "python"
    if not python.exists():
        sys.exit(f"no real vLLM at {python}: make oracle")
    for kept in (KEPT, BEGUN):
        with tempfile.TemporaryDirectory() as made:
            record(python, kept / "scenarios.json", Path(made), EVERY_THIRD)
            for path in Path(made).glob("*.jsonl"):
                (kept / path.name).write_bytes(path.read_bytes())
    with tempfile.TemporaryDirectory() as made:
        record(python, GOLDEN, Path(made))
        DIGESTS.write_text(json.dumps(digests(Path(made)), indent=1) + "\n")


if __name__ == "__main__":
    main()
