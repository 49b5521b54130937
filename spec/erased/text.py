"""The syntax trees of functions, from the files they were loaded from."""

import ast
import linecache
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

from nullblock.spec import kernel


class Unsupported(Exception):
    """A construct that the eraser does not know. The text is then run as it is."""


_FILES: dict[str, dict[int, ast.FunctionDef]] = {}


def definition(f: Callable[..., Any]) -> ast.FunctionDef:
    """The definition of a function. Raises Unsupported where its text is not to be had."""
    code = f.__code__
    if code.co_filename not in _FILES:
        source = "".join(linecache.getlines(code.co_filename))
        if not source:
            raise Unsupported(f"{code.co_qualname}: no source")
        _FILES[code.co_filename] = {
            min([d.lineno, *(x.lineno for x in d.decorator_list)]): d
            for d in ast.walk(ast.parse(source))
            if isinstance(d, ast.FunctionDef)
        }
    found = _FILES[code.co_filename].get(code.co_firstlineno)
    if found is None or found.name != code.co_name:
        raise Unsupported(f"{code.co_qualname}: not where its code says it is")
    return found


_TAILED: dict[int, list[ast.stmt]] = {}


def body(d: ast.FunctionDef) -> list[ast.stmt]:
    """The statements of a function, every return last on its path."""
    if id(d) not in _TAILED:
        _TAILED[id(d)] = tailed([s for s in d.body if not _is_docstring(s)])
    return _TAILED[id(d)]


def _is_docstring(s: ast.stmt) -> bool:
    return isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)


def tailed(block: list[ast.stmt]) -> list[ast.stmt]:
    """The block with what follows a branch that returns moved into the other branch."""
    out: list[ast.stmt] = []
    for i, s in enumerate(block):
        rest = block[i + 1 :]
        match s:
            case ast.If() if _returns(s.body) or _returns(s.orelse):
                if rest and not (always_returns(s.body) or always_returns(s.orelse)):
                    raise Unsupported(f"line {s.lineno}: a branch that may return")
                then = s.body if always_returns(s.body) else [*s.body, *rest]
                other = s.orelse if always_returns(s.orelse) else [*s.orelse, *rest]
                new = ast.If(s.test, tailed(then), tailed(other))
                return [*out, ast.copy_location(new, s)]
            case ast.For() if _returns(s.body):
                if rest:
                    raise Unsupported(f"line {s.lineno}: a return from a loop that is not last")
                return [*out, s]
            case ast.Return():
                return [*out, s]
            case _:
                out.append(s)
    return out


def _returns(block: list[ast.stmt]) -> bool:
    return any(map(returns, block))


@cache
def returns(s: ast.stmt) -> bool:
    """Whether a statement may return."""
    return any(isinstance(n, ast.Return) for n in ast.walk(s))


def always_returns(block: list[ast.stmt]) -> bool:
    """Whether a block returns on every path."""
    if not block:
        return False
    last = block[-1]
    match last:
        case ast.Return() | ast.Raise():
            return True
        case ast.If():
            return always_returns(last.body) and always_returns(last.orelse)
        case _:
            return False


@cache
def decides(d: ast.FunctionDef) -> bool:
    """Whether a function returns on every path, and only constants."""
    returned = [n.value for n in ast.walk(d) if isinstance(n, ast.Return)]
    return always_returns(body(d)) and all(isinstance(v, ast.Constant) for v in returned)


_CHANGES: dict[FunctionType, bool] = {}


def changes_state(f: FunctionType) -> bool:
    """Whether a function of the specification writes a field, or calls what does: it is inlined,
    or nothing is erased. Any other may be called as it is.
    """
    if not f.__module__.startswith("nullblock.spec.") or f.__module__ == kernel.__name__:
        return False
    if f not in _CHANGES:
        _CHANGES[f] = False  # for those that call each other
        inside = [n for s in definition(f).body for n in ast.walk(s)]
        names = {n.id for n in inside if isinstance(n, ast.Name)}
        called = [f.__globals__[name] for name in names if name in f.__globals__]
        _CHANGES[f] = any(
            isinstance(n, (ast.Attribute, ast.Subscript)) and isinstance(n.ctx, ast.Store)
            for n in inside
        ) or any(
            isinstance(g, kernel.Rule) or (isinstance(g, FunctionType) and changes_state(g))
            for g in called
        )
    return _CHANGES[f]
