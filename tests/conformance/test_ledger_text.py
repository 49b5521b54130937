"""Evidence is of a text: a file that takes part in a decision is part of it."""

import ast

from nullblock.conformance.ledger.digest import ROOT, TEXT, files

TELLS_NOTHING = {"catalogue", "departures", "names"}
"""Modules of the specification that list or spell, and decide nothing."""


def imported(path: str) -> set[str]:
    """The modules of the specification that a file of it imports, as paths."""
    found = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nullblock.spec"):
            module = (node.module or "").removeprefix("nullblock.").replace(".", "/")
            names = {module, *(f"{module}/{alias.name}" for alias in node.names)}
            found |= {f"{n}.py" for n in names if (ROOT / f"{n}.py").is_file()}
    return found


def test_whatever_the_rule_text_imports_is_part_of_it() -> None:
    """Else that could change, and what is recorded of the text would still be called current."""
    text = {path.relative_to(ROOT).as_posix() for path in files(TEXT)}
    needed = {name for path in text for name in imported(path)}
    assert needed - text <= {f"spec/{name}.py" for name in TELLS_NOTHING}
