"""Defects planted in the reference: one function, with another text in one place."""

import __future__

import inspect
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def planted(owner: Any, name: str, old: str, new: str) -> Iterator[None]:
    """Inside, a function of a class or module has ``new`` where ``old`` stood, exactly once."""
    real = inspect.getattr_static(owner, name)
    function = real.fget if isinstance(real, property) else getattr(real, "__func__", real)
    text = textwrap.dedent(inspect.getsource(function))
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {name}"
    made: dict[str, Any] = {}
    flags = function.__code__.co_flags & __future__.annotations.compiler_flag
    code = compile(text.replace(old, new), f"<{name} with a defect>", "exec", flags=flags)
    exec(code, function.__globals__, made)
    setattr(owner, name, made[name])
    try:
        yield
    finally:
        setattr(owner, name, real)
