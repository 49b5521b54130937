"""Mutants that change nothing under a profile: it settles switches, and what it never runs may be
anything.
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace

from nullblock.conformance.strength.mutants import Mutant
from nullblock.conformance.strength.plant import SPEC, edited
from nullblock.spec.profiles import Semantics
from nullblock.spec.switches import switches

SWITCH = "s.k.sem"
"""What the text reads a switch from."""


def unrun(mutant: Mutant, semantics: Semantics) -> tuple[str, ...]:
    """The switches for which all that a mutant changes is never run; none where some of it may
    be. Raises Stale.
    """
    texts = [((SPEC / file).read_text(), new) for file, new in edited(mutant).items()]
    if not _alike(texts, semantics):
        return ()
    turned = {
        name: replace(semantics, **{name: not on})
        for name, on in switches(semantics).items()
        if any(f"{SWITCH}.{name}" in old for old, _ in texts)
    }
    return tuple(name for name, other in turned.items() if not _alike(texts, other))


def settled(test: ast.expr, values: Mapping[str, bool]) -> bool | None:
    """What a condition is where switches have these values; None if it is no such switch."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            inner = settled(operand, values)
            return None if inner is None else not inner
        case ast.Attribute(value=of, attr=name) if ast.unparse(of) == SWITCH:
            return values.get(name)
    return None


def _alike(texts: Iterable[tuple[str, str]], semantics: Semantics) -> bool:
    values = switches(semantics)
    return all(_run(old, values) == _run(new, values) for old, new in texts)


def _run(text: str, values: Mapping[str, bool]) -> str:
    """What these switches let run of a text."""
    return ast.dump(_Folded(values).visit(ast.parse(text)))


class _Folded(ast.NodeTransformer):
    """Puts the branch that is taken in the place of a switch."""

    def __init__(self, values: Mapping[str, bool]) -> None:
        self.values = values

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """The branch that is taken, without the question."""
        self.generic_visit(node)
        on = self._is(node.test)
        return node if on is None else node.body if on else node.orelse

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        """The same in an expression."""
        self.generic_visit(node)
        on = self._is(node.test)
        return node if on is None else node.body if on else node.orelse

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Nothing follows a return."""
        self.generic_visit(node)
        ends = [i for i, statement in enumerate(node.body) if isinstance(statement, ast.Return)]
        if ends:
            del node.body[ends[0] + 1 :]
        return node

    def _is(self, test: ast.expr) -> bool | None:
        """A mutant may say it outright."""
        if isinstance(test, ast.Constant):
            return bool(test.value)
        return settled(test, self.values)
