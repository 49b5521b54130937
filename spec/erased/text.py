"""The syntax trees of functions, from the files they were loaded from."""

import ast
import linecache
from collections.abc import Callable, Iterator
from functools import cache
from types import CodeType, FunctionType, ModuleType
from typing import Any

from nullblock.spec import kernel
from nullblock.spec.fields import FIELDS, GHOSTS
from nullblock.spec.fills import FILLS


class Unsupported(Exception):
    """A construct that the eraser does not know. The text is then run as it is."""


_DEFINITIONS: dict[CodeType, ast.FunctionDef] = {}


def definition(f: Callable[..., Any]) -> ast.FunctionDef:
    """The definition of a function. Raises Unsupported where its text is not to be had."""
    code = f.__code__
    if code not in _DEFINITIONS:
        found = _parsed(linecache.getlines(code.co_filename), code.co_firstlineno - 1)
        if found is None or found.name != code.co_name:
            raise Unsupported(f"{code.co_qualname}: not where its code says it is")
        _DEFINITIONS[code] = found
    return _DEFINITIONS[code]


def _parsed(lines: list[str], first: int) -> ast.FunctionDef | None:
    """The function whose text starts at a line, counted from 0. A file is not parsed as a whole:
    that would take longer than all else does.
    """
    if first >= len(lines):
        return None
    margin, begun, end = _indented(lines[first]), False, first
    while end < len(lines):
        words = lines[end].strip()
        if begun and words and _indented(lines[end]) <= margin and words[0] != ")":
            break
        begun |= words.startswith("def ")
        end += 1
    text = "".join(lines[first:end])
    before = "\n" * (first - 1) + "if 1:\n" if margin else "\n" * first
    try:
        found = ast.parse(before + text).body[0]
    except SyntaxError:
        return None
    found = found.body[0] if isinstance(found, ast.If) else found
    return found if isinstance(found, ast.FunctionDef) else None


def _indented(line: str) -> int:
    return len(line) - len(line.lstrip())


_TAILED: dict[int, list[ast.stmt]] = {}


def body(d: ast.FunctionDef) -> list[ast.stmt]:
    """The statements of a function, every return last on its path."""
    if id(d) not in _TAILED:
        _TAILED[id(d)] = tailed([s for s in d.body if not _is_docstring(s)])
    return _TAILED[id(d)]


def _is_docstring(s: ast.stmt) -> bool:
    return isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)


def tailed(block: list[ast.stmt]) -> list[ast.stmt]:
    """The block with what follows a branch that returns moved into the ways that go on: into both
    of them, where each may.
    """
    out: list[ast.stmt] = []
    for i, s in enumerate(block):
        rest = block[i + 1 :]
        match s:
            case ast.If() if _returns(s.body) or _returns(s.orelse):
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


def is_super(node: ast.expr) -> bool:
    """Whether an expression is `super()`."""
    match node:
        case ast.Call(func=ast.Name(id="super"), args=[], keywords=[]):
            return True
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
        _CHANGES[f] = any(_changes(n, f.__globals__) for n in _inside(definition(f)))
    return _CHANGES[f]


def _inside(d: ast.FunctionDef) -> Iterator[ast.AST]:
    return (n for s in d.body for n in ast.walk(s))


def _changes(n: ast.AST, names: dict[str, Any]) -> bool:
    """Whether something in a text writes, or names what does."""
    match n:
        case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store()):
            return True
        case ast.Attribute(attr=attribute) if attribute in FILLS:
            return True
        case ast.Name(id=name):
            named = names.get(name)
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            named = getattr(names.get(name), attribute, None)
        case _:
            return False
    changes = isinstance(named, FunctionType) and changes_state(named)
    return changes or isinstance(named, kernel.Rule)


def reads_of(f: Callable[..., Any], owner: type) -> frozenset[str]:
    """The fields that a method of the environment may look at, with what it calls: other methods,
    and readings of the text.
    """
    seen: set[Any] = set()
    names: set[str] = set()
    left: list[Any] = [f]
    while left:
        one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        for code in _codes(one.__code__):
            names.update(name for name in code.co_names if name in FIELDS)
            methods = [getattr(owner, name, None) for name in code.co_names]
            if "super" in code.co_names:
                methods += [vars(c).get(name) for c in owner.__mro__ for name in code.co_names]
            left += [g for g in methods if isinstance(g, FunctionType)]
        readings = named(one.__code__, one.__globals__)
        left += [g for g in readings if isinstance(g, FunctionType) and _is_ours(g)]
    return frozenset(names) - GHOSTS


def named(code: CodeType, names: dict[str, Any]) -> Iterator[Any]:
    """What the code of a function names, in its module and in modules that it names."""
    for one in _codes(code):
        found = [names[name] for name in one.co_names if name in names]
        yield from found
        for module in (m for m in found if isinstance(m, ModuleType)):
            yield from (vars(module)[name] for name in one.co_names if name in vars(module))


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of those inside it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _is_ours(f: FunctionType) -> bool:
    return f.__module__.startswith("nullblock.")
