"""Mutants of guards that ask for less, and of statements that say less.

Z3 proves that the machine fires a rule only where every guard of it holds. So a guard that asks
for less rejects nothing that the machine does: only a proof of the rule by itself may need what it
asked. Such a mutant is put before the prover alone. A statement that says less holds wherever it
held before.
"""

import ast

from nullblock.spec.mutation.generate import Mutant, source
from nullblock.spec.mutation.operators import Change, called


def asks_less(m: Mutant) -> bool:
    """Whether a mutant only makes guards ask for less."""
    if m.is_statement:
        return False
    (f,) = (f for f in source(m.file).functions() if f.name == m.function)
    return all(any(_eases(c, guard) for guard in _guards(f)) for c in m.changes)


def says_less(m: Mutant) -> bool:
    """Whether a mutant only makes a statement true more often."""
    (f,) = (f for f in source(m.file).functions() if f.name == m.function)
    last = f.body[-1]
    if not (m.is_statement and f.decorator_list and isinstance(last, ast.Return) and last.value):
        return False
    whole = last.value
    return all(_stands_positively(c.node, whole) and _is_weaker(c) for c in m.changes)


def _guards(f: ast.FunctionDef) -> list[ast.stmt]:
    return [n for n in ast.walk(f) if isinstance(n, ast.Expr) and called(n.value) == "require"]


def _eases(c: Change, guard: ast.stmt) -> bool:
    """Whether a change of a guard makes it true more often."""
    if c.kind == "guard":
        return c.node is guard
    assert isinstance(guard, ast.Expr) and isinstance(guard.value, ast.Call)
    return _stands_positively(c.node, guard.value.args[0]) and _is_weaker(c)


def _stands_positively(node: ast.AST, condition: ast.expr) -> bool:
    """Whether a condition is true more often wherever the node is: whether it is made of it by
    both, either, quantifiers and what is implied.
    """
    if node is condition:
        return True
    match called(condition), condition:
        case "both" | "either", ast.Call(args=parts):
            return any(_stands_positively(node, part) for part in parts)
        case "implies", ast.Call(args=[_, part]):
            return _stands_positively(node, part)
        case "k.forall" | "k.exists", ast.Call(args=[_, ast.Lambda(body=part)]):
            return _stands_positively(node, part)
    return False


def _is_weaker(c: Change) -> bool:
    match c:
        case Change(kind="conjunct" | "true", new="True") | Change(kind="weaken"):
            return True
        case Change(kind="boundary", node=ast.Compare(ops=[ast.Lt() | ast.Gt()])):
            return True
    return False
