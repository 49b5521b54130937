"""The syntax trees of functions, as they stand in their files."""

import ast
import inspect
import textwrap
from collections import Counter
from collections.abc import Callable
from functools import cache
from types import CodeType
from typing import Any

from nullblock.spec.compiled.values import Untranslatable


def definition(f: Callable[..., Any]) -> ast.FunctionDef:
    """The definition of a function or method, with the line numbers of its file."""
    code = getattr(inspect.unwrap(f), "__code__", None)
    if code is None:
        raise Untranslatable(f"{f!r} has no text")
    return _defined(code)


@cache
def _defined(code: CodeType) -> ast.FunctionDef:
    """Read once for each code: a function that is given other code has another text."""
    try:
        lines, first = inspect.getsourcelines(code)
    except OSError as e:
        raise Untranslatable(f"{code.co_name} has no text: {e}") from None
    tree = ast.parse(textwrap.dedent("".join(lines)))
    ast.increment_lineno(tree, first - 1)
    found = tree.body[0]
    if not isinstance(found, ast.FunctionDef):
        raise Untranslatable(f"{code.co_name} is not defined with def")
    return found


def body(f: ast.FunctionDef) -> list[ast.stmt]:
    """The statements of a function but for its docstring."""
    first = f.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return f.body[1:] if documented else f.body


def stored(f: ast.FunctionDef) -> dict[str, int]:
    """How often a function sets each of its own names."""
    return dict(
        Counter(
            n.id for n in ast.walk(f) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
    )


def place(file: str, node: ast.AST) -> str:
    """Where a construct stands."""
    _, found, inside = file.rpartition("/nullblock/")
    return f"{inside if found else file}:{getattr(node, 'lineno', '?')}"
