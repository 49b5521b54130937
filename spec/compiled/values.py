"""What an expression of the specification's text is while it is translated."""

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

NONE, ROOT = -100, -101
"""Codes of None and of the empty chain, in C. Other values are below, and a state in which a
number gets as low as these is not packed.
"""


class Untranslatable(Exception):
    """A construct of the text, or a value of a scope, that has no C form; the place is named."""


@dataclass(frozen=True, slots=True)
class Num:
    """A C expression for a number, truth value, block, request or hash."""

    c: str
    opt: bool = False
    """Whether it may be None, which neither orders nor adds."""
    fails: bool = False
    """Whether evaluating it may fail, so that it must be evaluated where Python does."""


@dataclass(frozen=True, slots=True)
class Bits:
    """A C expression for a set: a bit a member."""

    c: str
    fails: bool = False


@dataclass(frozen=True, slots=True)
class Vec:
    """A C expression for a sequence of numbers."""

    c: str
    fails: bool = False


@dataclass(frozen=True, slots=True)
class Dic:
    """A C expression for a dictionary of numbers."""

    c: str
    fails: bool = False


@dataclass(frozen=True, slots=True)
class Const:
    """A value known now."""

    value: Any


@dataclass(frozen=True, slots=True)
class StateRef:
    """A state: the name of a C variable."""

    name: str


@dataclass(frozen=True, slots=True)
class Map:
    """A field that is a map, of a state."""

    state: str
    field: str


@dataclass(eq=False, slots=True)
class Scope:
    """Names and what they are bound to: the locals so far, and the globals of the module."""

    names: dict[str, "Value"]
    globals: dict[str, Any]
    file: str
    stored: dict[str, int] = field(default_factory=dict)
    """How often a function sets each of its names."""

    def inner(self, names: dict[str, "Value"]) -> "Scope":
        """A scope within this one."""
        return Scope({**self.names, **names}, self.globals, self.file)


@dataclass(frozen=True, eq=False, slots=True)
class Closure:
    """A lambda, or a local function of one expression, some names being given before."""

    parameters: tuple[str, ...]
    body: ast.expr
    scope: Scope
    given: tuple[ast.Assign, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Gen:
    """A comprehension, not yet evaluated."""

    node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
    scope: Scope


@dataclass(frozen=True, eq=False, slots=True)
class Over:
    """Something to go over: `items`, `keys` or `values` of a map or dictionary, `map(f, …)`,
    `range(…)`, `enumerate(…)`.
    """

    kind: str
    parts: tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class Items:
    """A display of values: a tuple or list."""

    values: tuple["Value", ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A fact about a request: the i-th of some objects known now."""

    rows: tuple[Any, ...]
    at: Num


@dataclass(frozen=True, slots=True)
class Bound:
    """A method, and what it is of."""

    of: "Value"
    name: str


@dataclass(frozen=True, slots=True)
class Done:
    """The action that has just happened."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A C function without parameters, called for its effect."""

    c: str


@dataclass(frozen=True, eq=False, slots=True)
class Record:
    """A dataclass whose fields are evaluated where they are read."""

    fields: dict[str, tuple[ast.expr, Scope]]


Value = (
    Num
    | Bits
    | Vec
    | Dic
    | Const
    | StateRef
    | Map
    | Closure
    | Gen
    | Over
    | Items
    | Row
    | Bound
    | Done
    | Hook
    | Record
)
Emit = Callable[[Scope], str]


def encode(value: Any, requests: tuple[Any, ...]) -> int:
    """The C code of a concrete value. Raises Untranslatable."""
    if value is None:
        return NONE
    if value == ():
        return ROOT
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, str) and value in requests:
        return requests.index(value)
    raise Untranslatable(f"the value {value!r} has no code")
