"""What each barrier of the kernels is for: `python tests/kernels/checks/barriers.py --write`.

Leaving a barrier out changes nothing in the interpreter but when the race detector believes all
threads to have waited. So one run of the tests tells of each barrier what would be found without
it. The page that this writes, kernels/BARRIERS.md, has a row for every barrier in the source.
"""

import argparse
import ast
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
KERNELS = ROOT / "kernels"
PAGE = KERNELS / "BARRIERS.md"
CONTROL = (
    "tests/kernels/control/test_control_pool.py",
    "tests/kernels/control/test_control_lockstep.py",
    *("-k", "triton or kernels or phases"),
)
RUNS = (
    CONTROL,
    ("tests/kernels/batch", "-k", "not defect"),
    ("tests/kernels/cache", "-k", "not float8 and not defect"),
    ("tests/impl/device/test_device_loop.py", "tests/impl/device/test_device_stop.py"),
)
"""The tests whose kernels pass barriers."""
HEAD = """# What each barrier is for

Within a program, Triton does not order a store before a later load of the same address;
`tl.debug_barrier()` does. Each of the {total} barriers was left out in turn, under the race
detector of [checks](checks/README.md) and the tests of the kernels: {flagged} are missed at once,
and the table says by which pair of accesses. The interpreter by itself misses none. Written by
`python tests/kernels/checks/barriers.py --write`; a test sees that no barrier is without a row.

| barrier | without it |
|---|---|
"""
REDUNDANT = "whatever it parts, another barrier parts too"
NARROW = "only where blocks are narrower than the program: "
IDLE = "nothing that these runs touch"
UNSEEN = "no test passes it"


@dataclass(frozen=True, slots=True, order=True)
class Barrier:
    """A barrier in the source, by what does not change with the lines above it."""

    file: str
    function: str
    nth: int
    """From 1, in its function."""

    def __str__(self) -> str:
        return f"`{self.file}` {self.function} {self.nth}"


def barriers() -> dict[tuple[str, int], Barrier]:
    """Every barrier of the kernels, by file and line."""
    return {
        (str(path), line): Barrier(path.relative_to(KERNELS).as_posix(), function, nth)
        for path in sorted(KERNELS.rglob("*.py"))
        for function, nth, line in _barriers_of(ast.parse(path.read_text()))
    }


def _barriers_of(tree: ast.Module) -> Iterator[tuple[str, int, int]]:
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            lines = sorted(
                node.lineno
                for node in ast.walk(function)
                if isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "debug_barrier"
            )
            yield from ((function.name, nth, line) for nth, line in enumerate(lines, start=1))


def noted(*runs: tuple[str, ...], narrow: bool = False) -> dict[str, dict[tuple[str, int], str]]:
    """What the tests note of barriers: those passed, shared, and needed, these with what for."""
    found: dict[str, dict[tuple[str, int], str]] = {"needed": {}, "passed": {}, "shared": {}}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "barriers"
        for tests in runs:
            _run(tests, file, narrow)
        for line in file.read_text().splitlines():
            for kind, places in json.loads(line).items():
                for path, number, *words in places:
                    place = (str(Path(path).resolve()), number)
                    found[kind].setdefault(place, words[0] if words else "")
    return found


def _run(tests: tuple[str, ...], file: Path, narrow: bool) -> None:
    variables = {
        **os.environ,
        "TRITON_INTERPRET": "1",
        "NULLBLOCK_BARRIERS": str(file),
        "PYTHONPATH": str(Path(__file__).parent),
        **({"NULLBLOCK_NARROW": "1"} if narrow else {}),
    }
    command = [str(Path(sys.executable).with_name("pytest")), "-n", "0", "-q", "-x"]
    command += ["-p", "barrier_plugin", *tests]
    subprocess.run(command, cwd=ROOT, env=variables, check=True)


def page() -> str:
    """The page, from runs of the tests."""
    wide, narrow = noted(*RUNS), noted(CONTROL, narrow=True)
    rows, flagged = [], 0
    for place, barrier in sorted(barriers().items(), key=lambda item: item[1]):
        if place in wide["needed"]:
            flagged += 1
            words = wide["needed"][place]
        elif place in narrow["needed"]:
            words = NARROW + narrow["needed"][place]
        elif place in wide["shared"]:
            words = REDUNDANT
        else:
            words = IDLE if place in wide["passed"] else UNSEEN
        rows.append(f"| {barrier} | {words} |")
    return HEAD.format(total=len(rows), flagged=flagged) + "\n".join(rows) + "\n"


def rows_of(text: str) -> dict[str, str]:
    """The rows of a page: what it says of each barrier."""
    cells = (line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `"))
    return {barrier: words for barrier, words in cells}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    wanted = parser.parse_args()
    made = page()
    if wanted.write:
        PAGE.write_text(made)
    else:
        print(made, end="")
