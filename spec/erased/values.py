"""Values of the partial evaluator: expressions over residual variables, equal ones shared."""

from collections.abc import Callable
from typing import Any, Final

from nullblock.spec.erased.code import ANYTHING, LASTING

PLAIN = (bool, int, float, str, type(None))

COMMUTES = frozenset({"+", "*"})
FOLDED: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "==": lambda a, b: a == b,
    "<": lambda a, b: a < b,
    "is": lambda a, b: a is b,
}
BOOLEAN = frozenset({"==", "<", "is", "in", "not", "and", "or"})


class Value:
    """One expression. Equal expressions over equal memory are one object: compare with `is`."""

    __slots__ = ("args", "negation", "op", "total")

    def __init__(self, op: str, args: tuple[Any, ...], total: bool) -> None:
        self.op, self.args = op, args
        self.negation: Value | None = None
        """Its negation, once somebody has made that."""
        self.total = total
        """Whether the operation cannot fail, and may be left out or postponed."""

    def __repr__(self) -> str:
        return f"{self.op}({', '.join(map(repr, self.args))})"

    @property
    def constant(self) -> bool:
        """Whether it is known now."""
        return self.op == "const"


class Values:
    """Makes values, shares equal ones, and folds what is known."""

    def __init__(self) -> None:
        self._shared: dict[tuple[Any, ...], Value] = {}

    def make(self, op: str, *args: Any, total: bool = True) -> Value:
        """An operation, unfolded."""
        key = (op, *(id(a) if isinstance(a, Value) else (type(a), a) for a in args))
        found = self._shared.get(key)
        if found is None:
            found = self._shared[key] = Value(op, args, total)
            if op == "not":
                args[0].negation = found
        return found

    def const(self, c: Any) -> Value:
        """A constant."""
        return self.make("const", c)

    def var(self, name: str) -> Value:
        """The value that a residual variable has."""
        return self.make("var", name)

    def binary(self, op: str, a: Value, b: Value) -> Value:
        """Arithmetic and comparison."""
        if a.constant and b.constant:
            return self.const(FOLDED[op](a.args[0], b.args[0]))
        if op in ("==", "is"):
            if a is b:
                return self.const(True)
            if {a.op, b.op} == {"tuple", "const"}:
                return self.const(False)
            if a.constant:
                a, b = b, a
        if op == "<" and a is b:
            return self.const(False)
        if op in ("+", "-") and b.constant and b.args[0] == 0:
            return a
        if op == "+" and a.constant and a.args[0] == 0:
            return b
        if op in ("*", "//") and b is self.const(1):
            return a
        if op == "%" and b is self.const(1):
            return self.const(0)
        if op == "//" and a.op == "*" and a.args[1] is b and b.constant and b.args[0]:
            inner: Value = a.args[0]
            return inner
        return self.make(op, a, b)

    def negated(self, a: Value) -> Value:
        """Not."""
        if a.constant:
            return self.const(not a.args[0])
        if a.op == "not" and a.args[0].op in BOOLEAN:
            inner: Value = a.args[0]
            return inner
        return self.make("not", a)

    def all(self, *parts: Value) -> Value:
        """And."""
        left: list[Value] = []
        for part in parts:
            if part.constant:
                if not part.args[0]:
                    return self.const(False)
            elif part not in left:
                left.append(part)
        if not left:
            return self.const(True)
        return self.truth(left[0]) if len(left) == 1 else self.make("and", *left)

    def any(self, *parts: Value) -> Value:
        """Or."""
        left: list[Value] = []
        for part in parts:
            if part.constant:
                if part.args[0]:
                    return self.const(True)
            elif part not in left:
                left.append(part)
        if not left:
            return self.const(False)
        return self.truth(left[0]) if len(left) == 1 else self.make("or", *left)

    def truth(self, a: Value) -> Value:
        """The truth of a value, as True or False."""
        if a.constant:
            return self.const(bool(a.args[0]))
        return a if a.op in BOOLEAN else self.make("not", self.make("not", a))

    def ite(self, c: Value, a: Value, b: Value) -> Value:
        """One of two values."""
        if c.constant:
            return a if c.args[0] else b
        return a if a is b else self.make("ite", c, a, b)


TEMPLATES: Final = {
    "+": "{} + {}",
    "-": "{} - {}",
    "*": "{} * {}",
    "//": "{} // {}",
    "%": "{} % {}",
    "==": "{} == {}",
    "<": "{} < {}",
    "is": "{} is {}",
    "in": "{} in {}",
    "not": "not {}",
    "neg": "-{}",
    "!=": "{} != {}",
    ">=": "{} >= {}",
    "is not": "{} is not {}",
    "ite": "{1} if {0} else {2}",
}


NEGATED: Final = {"==": "!=", "<": ">=", "is": "is not"}


def written(value: Value) -> tuple[str, list[Value]]:
    """How an operation is written, and the values that go into its places."""
    if value.op == "not" and value.args[0].op in NEGATED:
        inner: Value = value.args[0]
        return TEMPLATES[NEGATED[inner.op]], list(inner.args)
    return template(value), [a for a in value.args if isinstance(a, Value)]


def template(value: Value) -> str:
    """How an operation is written, with a place for each argument that is a value."""
    if value.op in TEMPLATES:
        return TEMPLATES[value.op]
    values = [a for a in value.args if isinstance(a, Value)]
    match value.op:
        case "and" | "or":
            return f" {value.op} ".join("{}" for _ in values)
        case "tuple":
            return "(" + "".join("{}, " for _ in values) + ")"
        case "get" | "item" | "cell":
            return "{}[{}]"
        case "slot":
            return f"{{}}.{value.args[0]}"
        case "attr":
            return f"{{}}.{value.args[1]}"
        case "call":
            return str(value.args[0])
        case _:
            raise AssertionError(value.op)


def root(value: Value) -> str:
    """What an operation reads of what a store may change."""
    match value.op:
        case "get" | "slot" | "cell":
            return f"*{value.args[0]}"
        case "item" | "attr" if value.args[-1] == LASTING:
            return LASTING
        case "item" | "attr" | "call" | "in":
            return ANYTHING
        case _:
            return ""
