"""The most that each kernel may need, and what is said of one that needs more."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from nullblock.kernels.checks.compiling import SHARED_MEMORY, Compiled, Needs

FILE = Path(__file__).with_name("budget.json")

Budget = dict[str, Needs]
"""By `Compiled.key`."""
FIELDS = ("registers", "spills", "shared", "matrix")
"""The columns of a row; a digest follows."""


def read(triton_version: str, file: Path = FILE) -> Budget | None:
    """The budget for a release of Triton; None: it was never written."""
    found = _content(file).get(triton_version)
    return None if found is None else {key: _needs(row) for key, row in found.items()}


def measured(triton_version: str, file: Path = FILE) -> Budget:
    """What the budget knows of code, by its digest."""
    rows = _content(file).get(triton_version, {}).values()
    return {row[-1]: _needs(row) for row in rows}


def _content(file: Path) -> dict[str, Any]:
    return json.loads(file.read_text()) if file.exists() else {}


def _needs(row: list[Any]) -> Needs:
    return Needs(**dict(zip(FIELDS, row[:-1], strict=True)))


def write(triton_version: str, results: Iterable[Compiled], file: Path = FILE) -> None:
    """Make what was measured the budget of a release; the other releases keep theirs.

    One line a kernel, so that a change is read as one.
    """
    content = _content(file)
    content[triton_version] = {
        result.key: [*(asdict(result.needs)[name] for name in FIELDS), result.digest]
        for result in sorted(results, key=lambda result: result.key)
        if result.needs is not None
    }
    blocks = []
    for version, rows in sorted(content.items()):
        lines = [f"  {json.dumps(key)}: {json.dumps(row)}" for key, row in rows.items()]
        blocks.append(f" {json.dumps(version)}: {{\n" + ",\n".join(lines) + "\n }")
    file.write_text("{\n" + ",\n".join(blocks) + "\n}\n")


def complaints(
    results: Iterable[Compiled],
    budget: Budget | None,
    undeclared: Iterable[str],
    targets: Iterable[str],
) -> list[str]:
    """One line for each thing that is wrong; empty if all is within the budget.

    Without a budget (another release of Triton) only compiling and shared memory count.
    """
    said = [f"{name}: no example in a module called shipped launches it" for name in undeclared]
    seen, wanted = set(), tuple(targets)
    for result in results:
        seen.add(result.key)
        if result.needs is None:
            said.append(f"{result.key}: does not compile: {result.error}")
        elif result.needs.shared > SHARED_MEMORY[result.target]:
            most = SHARED_MEMORY[result.target]
            said.append(f"{result.key}: {result.needs.shared} bytes shared, the GPU has {most}")
        elif budget is not None and result.key not in budget:
            said.append(f"{result.key}: not in the budget; --write adds it")
        elif budget is not None:
            said += [f"{result.key}: {w}" for w in result.needs.worse_than(budget[result.key])]
    gone = [k for k in budget or {} if k not in seen and k.rpartition(" | ")[2] in wanted]
    return said + [f"{key}: in the budget and not compiled; --write drops it" for key in gone]
