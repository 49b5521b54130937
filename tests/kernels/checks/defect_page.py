"""All defects that tests plant in kernels: `python tests/kernels/checks/defect_page.py --write`.

The lists stand beside the tests that plant them, and each is a test that the defect is noticed.
The page that this writes, kernels/DEFECTS.md, is made of their text; nothing is run.
"""

import argparse
import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "kernels" / "DEFECTS.md"
LISTS = {
    "control/": ("tests/kernels/control/pool_mutants.py", "tests/kernels/control/step_mutants.py"),
    "control/ in the loop": ("tests/impl/device/test_device_planted.py",),
    "batch/, cache/, sampling/": ("tests/kernels/checks/defects.py",),
    "attention/": ("tests/kernels/attention/test_mutants.py",),
}
HEAD = """# Defects that are noticed

{total} defects are planted in the kernels, one at a time, each by a test that fails unless it is
noticed. Missing barriers have a [page of their own](BARRIERS.md). Written by
`python tests/kernels/checks/defect_page.py --write`.
"""


class Row(NamedTuple):
    """One planted defect."""

    name: str
    file: str
    noticed: str


def rows_of(file: str) -> Iterator[Row]:
    """The defects that a file lists: as calls of `Mutant` or `Defect`, or in a dictionary."""
    tree = ast.parse((ROOT / file).read_text())
    constants = _constants(tree)
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Name(id="Mutant" | "Defect"),
                args=[ast.Constant(value=str(name)), ast.Constant(value=str(where)), _, _, by, *_],
            ):
                yield Row(name, _stem(where), _words(by, constants))
            case ast.AnnAssign(target=ast.Name(id="IN_KERNELS"), value=ast.Dict() as listed):
                yield from _of_dictionary(listed, "steps beside NumPy")
            case ast.Assign(targets=[ast.Name(id="MUTANTS")], value=ast.Dict() as listed):
                yield from _of_dictionary(listed)


def _of_dictionary(listed: ast.Dict, noticed: str = "") -> Iterator[Row]:
    for key, value in zip(listed.keys, listed.values, strict=True):
        match key, value:
            case (
                ast.Constant(value=str(name)),
                ast.Tuple(elts=[ast.Constant(value=str(where)), *_, last]),
            ):
                yield Row(name, _stem(where), noticed or ast.unparse(last))


def _constants(tree: ast.Module) -> dict[str, str]:
    return {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def _words(by: ast.expr, constants: dict[str, str]) -> str:
    text = by.value if isinstance(by, ast.Constant) else constants.get(ast.unparse(by), "")
    return str(text).rpartition("::")[2]


def _stem(where: str) -> str:
    return where.rpartition("/")[2].removesuffix(".py")


def page() -> str:
    """The page, from the lists."""
    sections, total = [], 0
    for package, files in LISTS.items():
        rows = [row for file in files for row in rows_of(file)]
        total += len(rows)
        lists = ", ".join(f"[{file.rpartition('/')[2]}](../{file})" for file in files)
        lines = [f"| {row.name} | {row.file} | {row.noticed} |" for row in rows]
        table = ["| defect | in | noticed by |", "|---|---|---|", *lines]
        sections.append(f"\n## {package}\n\n{lists}\n\n" + "\n".join(table) + "\n")
    return HEAD.format(total=total) + "".join(sections)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    if parser.parse_args().write:
        PAGE.write_text(page())
    else:
        print(page(), end="")
