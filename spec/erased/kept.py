"""Erased forms that are kept from one run to the next: erasing takes longer than a short trace.

A form is kept under a digest of all that it was made of: the code of every function and class of
this project that the text and the environment can reach by name, the constants that they name, the
configuration, and the eraser itself. A change of any of them, in a file or in a running program,
is another digest, and the text is erased anew. What cannot be read is erased anew as well.
"""

import hashlib
import marshal
import os
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

from nullblock.spec.cache_folder import cache, forget_old
from nullblock.spec.erased.program import OWN, Erased, code_of, compiled, residual
from nullblock.spec.erased.text import named
from nullblock.spec.erased.values import PLAIN
from nullblock.spec.kernel import Rule

_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, ImportError, EOFError)
"""What reading a file that this module did not write may raise."""
_SUM = 32
"""Bytes of the digest with which a file begins: what was cut or changed is not looked at."""


def kept(f: Callable[..., Any], k: Any, made: str = "", *, each: bool = False) -> Erased:
    """`erased(f, k, each=each)`, from an earlier run if it is there. Raises Unsupported.

    `made`: what `made_of` says of `k` and functions of which this is one, if that is known.
    """
    path = _path(f, k, made, each)
    try:
        if path is not None:
            return _read(path, k)
    except _DAMAGED:
        pass
    name, text, names = residual(f, k, each=each)
    code = code_of(name, text)
    if path is not None:
        _keep(path, name, code, names, k)
    return compiled(name, code, names)


def is_kept(f: Callable[..., Any], k: Any, made: str) -> bool:
    """Whether an earlier run has kept `erased(f, k)`; `made` as of `kept`."""
    path = _path(f, k, made, each=False)
    return path is not None and path.exists()


def _path(f: Callable[..., Any], k: Any, made: str, each: bool) -> Path | None:
    """Where a form is kept; None where nothing can be."""
    folder = cache()
    if folder is None:
        return None
    kind = "each-" if each else ""
    return folder / f"erased-{kind}{f.__name__}-{made or made_of(f, k)}"


def _read(path: Path, k: Any) -> Erased:
    """The form in a file. Raises what damage makes it raise."""
    content = path.read_bytes()
    if hashlib.sha256(content[_SUM:]).digest() != content[:_SUM]:
        raise ValueError("damaged")
    name, code, outside, rules = marshal.loads(content[_SUM:])
    names = {n: _found(module, name, k) for n, (module, name) in outside.items()}
    os.utime(path)
    return compiled(name, code, names | _own(rules, k))


def _own(rules: list[str], k: Any) -> dict[str, Any]:
    return {**OWN, "k": k, "rules_by_line": rules}


def _keep(path: Path, name: str, code: CodeType, names: dict[str, Any], k: Any) -> None:
    """Write a form down, if all that it names can be found again."""
    outside = {n: _where(thing, k) for n, thing in names.items() if n not in _own([], k)}
    if None in outside.values():
        return
    form = marshal.dumps((name, code, outside, names["rules_by_line"]))
    unfinished = path.with_suffix(f".{os.getpid()}")
    try:
        unfinished.write_bytes(hashlib.sha256(form).digest() + form)
        os.replace(unfinished, path)
    except OSError:
        return
    forget_old(path.parent, "erased-*")


def _where(thing: Any, k: Any) -> tuple[str, str] | None:
    """Where something from outside is found: module, or nothing for the environment; and name."""
    if isinstance(thing, MethodType) and thing.__self__ is k:
        return "", thing.__name__
    try:
        place: tuple[str, str] = (thing.__module__, thing.__qualname__)
        return place if _found(*place, k) is thing else None
    except _DAMAGED:
        return None


def _found(module: str, name: str, k: Any) -> Any:
    return attrgetter(name)(import_module(module) if module else k)


def made_of(f: Callable[..., Any] | tuple[Callable[..., Any], ...], k: Any) -> str:
    """The digest of what `erased(f, k)` is made of; of several functions, of all that they are."""
    digest = hashlib.sha256(repr((sys.version, k.config, k.loads_items, k.checks)).encode())
    for file in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    modules = {one.__module__ for one in type(k).__mro__} - {"builtins"}
    functions = f if isinstance(f, tuple) else (f,)
    for part in _parts([*functions, type(k)], modules):
        digest.update(part + b"\0")
    return digest.hexdigest()[:32]


def _parts(left: list[Any], modules: set[str]) -> Iterator[bytes]:
    """What is said of everything that can be reached, each thing once, in the order of finding:
    the code of this project and of the modules.
    """
    seen: set[int] = set()
    while left:
        thing = left.pop()
        if id(thing) in seen and not isinstance(thing, PLAIN):
            continue
        seen.add(id(thing))
        module = str(getattr(thing, "__module__", ""))
        ours = module.startswith("nullblock.") or module in modules
        match thing:
            case Rule():
                yield thing.id.encode()
                left.append(thing.body)
            case FunctionType() if ours:
                yield marshal.dumps(thing.__code__, 2)
                yield repr(thing.__defaults__).encode()
                left += named(thing.__code__, thing.__globals__)
                left += [cell.cell_contents for cell in thing.__closure__ or ()]
            case type() if ours:
                yield thing.__qualname__.encode()
                left += [*thing.__bases__, *vars(thing).values()]
            case property():
                left.append(thing.fget)
            case MethodType():
                left.append(thing.__func__)
            case str() | bool() | int() | float() | None:
                yield repr(thing).encode()
            case tuple() | list():
                left += thing
            case dict():
                left += [*thing, *thing.values()]
            case set() | frozenset():
                yield repr(sorted(map(repr, thing))).encode()
            case _:
                yield f"{type(thing)} {getattr(thing, '__qualname__', '')}".encode()
                left += [thing.__wrapped__] if hasattr(thing, "__wrapped__") else []
