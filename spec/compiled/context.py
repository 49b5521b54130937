"""What every part of the translator knows: the scope, the fields, the function being written."""

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nullblock.spec.carriers import CARRIERS, Zero
from nullblock.spec.compiled.text import place
from nullblock.spec.compiled.values import (
    NONE,
    Bits,
    Const,
    Items,
    Num,
    Scope,
    Untranslatable,
    Value,
    Vec,
    encode,
)
from nullblock.spec.explorer.model import ModelEnv
from nullblock.spec.fields import FIELDS


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the state: its keys and its values."""

    name: str
    keys: str
    value: str
    default: int

    @property
    def is_map(self) -> bool:
        """Whether it is a map."""
        return bool(self.keys)

    @property
    def is_set(self) -> bool:
        """Whether its values are sets."""
        return self.value.startswith("{")

    @property
    def opt(self) -> bool:
        """Whether its values may be None."""
        return self.value in ("B", "R", "H")


def fields_of(env: ModelEnv) -> dict[str, Field]:
    """Every field, as declared."""
    found = {}
    for name, sort in FIELDS.items():
        keys, arrow, value = sort.rpartition(">")
        missing = CARRIERS.get(name, Zero)()[object()] if arrow else 0
        default = 0 if value.startswith("{") else encode(missing, tuple(env.requests))
        found[name] = Field(name, keys, value, default)
    return found


@dataclass(eq=False, slots=True)
class Frame:
    """A C function that is being written."""

    name: str
    declared: list[str] = field(default_factory=list)
    fails: bool = False
    kinds: set[str] = field(default_factory=set)
    opt: bool = False


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much room maps get; what does not fit is noticed, and room is made."""

    indices: int
    """Room for keys that are integers."""
    cell: str = "int8_t"
    scale: int = 1
    """How much more is asked of the environment beforehand than requests may need."""

    def more(self) -> "Sizes":
        """The next larger."""
        return Sizes(self.indices * 2, "int16_t", self.scale * 2)


class Context(ABC):
    """State of a translation, and what its parts ask of each other."""

    def __init__(self, env: ModelEnv, sizes: Sizes) -> None:
        self.env, self.sizes = env, sizes
        self.fields = fields_of(env)
        self.requests = tuple(env.requests)
        self.frames: list[Frame] = []
        self.tables: dict[str, str] = {}
        """C tables by their text, and their names."""
        self.code: list[str] = []
        """Finished C functions."""
        self.prototypes: list[str] = []
        self.codes: dict[type, int] = {}
        """Kinds of actions, numbered."""
        self.watched: dict[str, int] = {}
        """Witnesses, numbered."""
        self.rules: dict[str, int] = {}
        """IDs of rules, numbered."""
        self.counter = 0

    def fresh(self, stem: str) -> str:
        """A C name that nothing else has."""
        self.counter += 1
        return f"{stem}_{self.counter}"

    def table(self, rows: list[int]) -> str:
        """The C name of a constant table."""
        text = ", ".join(map(str, rows))
        return self.tables.setdefault(text, f"table_{len(self.tables)}")

    def refuse(self, node: ast.AST, scope: Scope, why: str) -> Untranslatable:
        """A refusal that names the place."""
        return Untranslatable(f"{place(scope.file, node)}: {why}: {ast.unparse(node)[:70]}")

    def mark(self, fails: bool) -> bool:
        """Remember that the function being written may fail."""
        if fails and self.frames:
            self.frames[-1].fails = True
        return fails

    def enter(self) -> bool:
        """Begin a part of the function being written, of which is asked whether it may fail."""
        before, self.frames[-1].fails = self.frames[-1].fails, False
        return before

    def leave(self, before: bool) -> bool:
        """Whether the part that ends here may fail."""
        fails = self.frames[-1].fails
        self.frames[-1].fails = fails or before
        return fails

    def declare(self, stem: str, kind: str) -> str:
        """A new local variable of the C function being written."""
        name = self.fresh(stem)
        self.frames[-1].declared.append(f"{kind} {name};")
        return name

    def num(self, value: Value, node: ast.AST, scope: Scope) -> Num:
        """A value as a number."""
        if isinstance(value, Num):
            return value
        if isinstance(value, Const):
            try:
                code = encode(value.value, self.requests)
            except Untranslatable as e:
                raise self.refuse(node, scope, str(e)) from None
            return Num(f"({code})" if code < 0 else str(code), opt=code == NONE)
        if isinstance(value, Bits):
            return Num(f"({value.c} != 0)", fails=value.fails)
        raise self.refuse(node, scope, f"{type(value).__name__} is no number")

    def known(self, value: Num) -> Num:
        """The number where it must not be None."""
        if not value.opt:
            return value
        return Num(f"not_none({value.c})", fails=self.mark(True))

    def truth(self, value: Value, node: ast.AST, scope: Scope) -> Num | Const:
        """A value as a condition."""
        if isinstance(value, Const):
            return Const(bool(value.value))
        if isinstance(value, Items):
            return Const(bool(value.values))
        if isinstance(value, Vec):
            return Num(f"(({value.c}).n > 0)", fails=value.fails)
        n = self.num(value, node, scope)
        return Num(f"truthy({n.c})", fails=n.fails) if n.opt else n

    @abstractmethod
    def expr(self, node: ast.expr, scope: Scope) -> Value:
        """Translate an expression."""

    @abstractmethod
    def apply(self, f: Value, arguments: list[Value], node: ast.expr, scope: Scope) -> Value:
        """Apply a function that is given as a value."""

    @abstractmethod
    def call(
        self, f: Callable[..., Any], arguments: list[Value], node: ast.expr, scope: Scope
    ) -> Value:
        """Call a function of the text."""

    @abstractmethod
    def word(self, name: str, node: ast.Call, scope: Scope) -> Value | None:
        """A word of the kernel, or a built-in; None if it is neither."""

    @abstractmethod
    def ask(self, name: str, node: ast.Call, scope: Scope) -> Value:
        """Something asked of the environment, `s.k.name(…)`."""

    @abstractmethod
    def each(
        self,
        over: Value,
        target: ast.expr | None,
        scope: Scope,
        body: Callable[[Scope, Value], str],
        go: str,
        node: ast.AST,
    ) -> str:
        """C that goes over `over` while `go` holds, `target` being bound to each member."""

    @abstractmethod
    def materialise(self, value: Value, node: ast.AST, scope: Scope) -> Value:
        """A comprehension evaluated; other values as they are."""

    @abstractmethod
    def elements(
        self, over: Value, node: ast.AST, scope: Scope, body: Callable[[Value], str], go: str
    ) -> str:
        """C that goes over the members of `over` while `go` holds."""
