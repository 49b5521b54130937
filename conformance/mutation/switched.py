"""Mutants of text that no scope of the explorer runs, because all have some switch the other way:
there they change nothing.
"""

import ast
from collections.abc import Iterator, Sequence
from functools import cache

from nullblock.conformance.strength.same import settled
from nullblock.spec.mutation.exploring import LATER
from nullblock.spec.mutation.generate import Mutant, source
from nullblock.spec.mutation.operators import Change
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.switches import switches

SETTLED = {
    name: bool(on) for name, on in switches(NORMATIVE).items() if switches(LATER)[name] == on
}
"""Switches that are the same in every scope of the explorer."""


def never_explored(m: Mutant) -> bool:
    """Whether all that a mutant changes is never run wherever the explorer looks, or a switch that
    is what it becomes.
    """
    return all(id(c.node) in _behind(m.file) or _is_as_it_was(c) for c in m.changes)


def _is_as_it_was(c: Change) -> bool:
    return isinstance(c.node, ast.expr) and c.new == str(settled(c.node, SETTLED))


@cache
def _behind(file: str) -> frozenset[int]:
    """The pieces of a file's text that no switch lets run."""
    return frozenset(id(n) for n in _pieces(source(file).tree))


def _pieces(tree: ast.AST) -> Iterator[ast.AST]:
    for n in ast.walk(tree):
        dead: Sequence[ast.AST] = ()
        match n:
            case ast.If(test=test, body=then, orelse=other):
                dead = _other_way(settled(test, SETTLED), then, other)
            case ast.IfExp(test=test, body=a, orelse=b):
                dead = _other_way(settled(test, SETTLED), [a], [b])
            case ast.FunctionDef(body=body):
                dead = _unreached(body)
        for piece in dead:
            yield from ast.walk(piece)


def _other_way(
    on: bool | None, then: Sequence[ast.AST], other: Sequence[ast.AST]
) -> Sequence[ast.AST]:
    """The branch that is not taken."""
    return () if on is None else other if on else then


def _unreached(body: list[ast.stmt]) -> Sequence[ast.AST]:
    """What follows, in a function, after a switch that is settled has made it return."""
    for i, n in enumerate(body):
        if isinstance(n, ast.If):
            on = settled(n.test, SETTLED)
            taken = n.body if on else n.orelse if on is False else []
            if taken and isinstance(taken[-1], ast.Return):
                return body[i + 1 :]
    return ()
