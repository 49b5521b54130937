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
    # A method that says `super` finds its class in a variable of this name around it.
    inner = textwrap.indent(text.replace(old, new), "    ")
    outer = f"def made(__class__):\n{inner}\n    return {name}"
    found: dict[str, Any] = {}
    flags = function.__code__.co_flags & __future__.annotations.compiler_flag
    exec(
        compile(outer, f"<{name} with a defect>", "exec", flags=flags),
        function.__globals__,
        found,
    )
    setattr(owner, name, found["made"](owner))
    try:
        yield
    finally:
        setattr(owner, name, real)
