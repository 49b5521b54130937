"""Other text for the functions of a running process.

Every function keeps its identity, so that whoever imported it runs the new text, and whoever reads
its source reads it. There is no way back: let a process of its own do it.
"""

import linecache
import sys
from collections.abc import Mapping
from types import CodeType, FunctionType
from typing import Any

from nullblock.spec import fields, kernel
from nullblock.spec.kernel import Rule
from nullblock.spec.mutation.operators import ENUMERATIONS


def transplant(texts: Mapping[str, str], names: Mapping[str, Any] | None = None) -> None:
    """Give the functions of some files, below `spec/`, the bodies that they have in these texts,
    in which `names` may be used, and the words and enumerations of the specification.
    """
    known = {name: getattr(fields, name) for row in ENUMERATIONS for name in row}
    known |= {"ite": kernel.ite, "neg": kernel.neg} | dict(names or {})
    for file, text in texts.items():
        module = sys.modules[f"nullblock.spec.{file.removesuffix('.py').replace('/', '.')}"]
        vars(module).update({n: v for n, v in known.items() if n not in vars(module)})
        path = str(module.__file__)
        linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
        _replace(compile(text, path, "exec"), vars(module))


def _replace(code: CodeType, names: Mapping[str, Any]) -> None:
    """The functions and classes that a module or class defines."""
    for inner in code.co_consts:
        if not isinstance(inner, CodeType):
            continue
        found = names.get(inner.co_name)
        if isinstance(found, type):
            _replace(inner, vars(found))
        function = found.body if isinstance(found, Rule) else found
        if isinstance(function, FunctionType):
            function.__code__ = inner
