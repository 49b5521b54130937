"""The text that holds every mutant at once: each piece that some mutant changes asks whether that
mutant is chosen.

    require(True if mutated(3) else s.na < s.nhit, "a hit is pending")

A program compiled from it is compiled once for all mutants, and is told on its way which it is.
"""

import ast
import copy
from collections import defaultdict
from collections.abc import Iterable

from nullblock.spec.mutation.generate import Mutant, numbers, source

ASKED = "mutated"
Chosen = list[tuple[int, str]]
"""Numbers of mutants, and what the piece of text becomes."""


def texts(some: Iterable[Mutant]) -> dict[str, str]:
    """Every file that some mutant changes, with all of these in it."""
    by_file: dict[str, list[Mutant]] = defaultdict(list)
    for m in some:
        by_file[m.file].append(m)
    return {file: _text(file, found) for file, found in by_file.items()}


def _text(file: str, some: list[Mutant]) -> str:
    number = numbers()
    tree = copy.deepcopy(source(file).tree)
    place = {id(a): b for a, b in zip(ast.walk(source(file).tree), ast.walk(tree), strict=True)}
    chosen: dict[int, Chosen] = defaultdict(list)
    for m in some:
        for change in m.changes:
            chosen[id(place[id(change.node)])].append((number[m.id], change.new))
    return ast.unparse(ast.fix_missing_locations(_Schema(chosen).visit(tree)))


class _Schema(ast.NodeTransformer):
    def __init__(self, chosen: dict[int, Chosen]) -> None:
        self.chosen = chosen

    def visit(self, node: ast.AST) -> ast.AST:
        """The node, what is in it visited before, behind a choice for each mutant of it."""
        choices = self.chosen.get(id(node), [])
        found: ast.AST = self.generic_visit(node)
        for number, new in reversed(choices):
            asked = ast.Call(ast.Name(ASKED, ast.Load()), [ast.Constant(number)], [])
            if isinstance(found, ast.stmt):
                found = ast.If(asked, ast.parse(new).body, [found])
            else:
                assert isinstance(found, ast.expr)
                found = ast.IfExp(asked, ast.parse(new, mode="eval").body, found)
        return found
