"""Mutants of text that only a switch lets run: where the switch is off they change nothing."""

import ast
from collections.abc import Iterator
from functools import cache

from nullblock.spec.mutation.exploring import LATER
from nullblock.spec.mutation.generate import Mutant, source
from nullblock.spec.profiles import NORMATIVE, switches

OFF = frozenset(
    name for name, on in switches(NORMATIVE).items() if not on and not switches(LATER)[name]
)
"""Switches that are off in every scope of the explorer."""


def never_explored(m: Mutant) -> bool:
    """Whether all that a mutant changes stands behind a switch that is off wherever the explorer
    looks.
    """
    return all(id(change.node) in _behind(m.file) for change in m.changes)


@cache
def _behind(file: str) -> frozenset[int]:
    """The pieces of a file's text that run only where some such switch is on."""
    return frozenset(id(n) for n in _pieces(source(file).tree))


def _pieces(tree: ast.AST) -> Iterator[ast.AST]:
    for n in ast.walk(tree):
        if isinstance(n, ast.If) and _is_off(n.test):
            for statement in n.body:
                yield from ast.walk(statement)
        elif isinstance(n, ast.IfExp) and _is_off(n.test):
            yield from ast.walk(n.body)


def _is_off(test: ast.expr) -> bool:
    return ast.unparse(test).startswith("s.k.sem.") and ast.unparse(test)[8:] in OFF
