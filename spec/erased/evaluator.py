"""Evaluates the expressions of the text on a path: what is known now, and code for the rest."""

import ast
import builtins
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from nullblock.spec import kernel
from nullblock.spec.concrete import Env
from nullblock.spec.erased.code import Let
from nullblock.spec.erased.paths import Path
from nullblock.spec.erased.records import Blocks, View
from nullblock.spec.erased.text import Unsupported
from nullblock.spec.erased.values import PLAIN, Value, Values, root, written
from nullblock.spec.erased.windows import Window
from nullblock.spec.fields import FIELDS, GHOSTS
from nullblock.spec.indexes import Hashes, Stamps


@dataclass(slots=True)
class Frame:
    """A function while it is being inlined."""

    globals: dict[str, Any]
    rule: str
    """The rule whose text this is, or nothing."""
    place: tuple[int, ...]
    """The calls and loops that lead here."""
    breaks: list[Path] | None = None
    """Inside a loop: the paths that return."""
    again: tuple[Any, list[Any], dict[str, Any]] | None = None
    """The call that is being inlined: where it raises, it is made as it is."""
    then: Callable[[Value], bool] | None = None
    """What to do with the result, on the path that returns it; whether that path goes on."""


@dataclass(frozen=True, slots=True)
class Known:
    """An object that is at hand: the state, the environment, a function, a lambda."""

    object: Any
    locals: dict[str, Any] | None = None
    """Of a lambda: what it may name."""


STATE = object()
GHOST = Known("what a ghost field says")
"""It may go into ghost fields, which are not written, and nowhere else."""
OPERATORS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
    ast.Mod: "%",
}
READ_ONLY = frozenset({"get", "values", "items", "keys", "index", "count", "embedded"})
"""Methods of carriers, and of an item, that change nothing."""
BUILT_IN = frozenset({"next", "iter", "len", "min", "max", "list", "tuple", "sorted", "frozenset"})
CLEARED: dict[type, tuple[Any, str]] = {
    Stamps: (0, "{0}.pop({1}, 0)"),
    Hashes: (None, "if {1} in {0}: {0}[{1}] = None"),
}
"""Of some carriers: the value that removes a key, and how that is written."""
FRESHLY_MADE = frozenset({"set", "dict", "list", "frozenset"})


class Evaluator:
    """Expressions. `nullblock.spec.erased.walker` has the statements."""

    def __init__(self, k: Any) -> None:
        self.k = k
        by_configuration = vars(Env) | vars(Env(k.config))  # what else k has may change
        self.constants = {
            name: getattr(k, name)
            for name, value in by_configuration.items()
            if (isinstance(value, PLAIN) and not name.startswith("_")) or name == "sem"
        }
        self.carriers = {f: type(getattr(k.state, f)) for f in FIELDS}
        self.slotted = frozenset(f for f in FIELDS if self.carriers[f] is View)
        """Fields that are slots of a request's object."""
        self.makes_room = False
        """Whether entries are added to a window."""
        self.values = Values()
        self.path = Path()
        self.names: dict[str, Any] = {}
        """What the residual program names from outside."""
        self.loaded: dict[str, str] = {}
        """Objects of the environment that it loads at its start: name and expression."""
        self.fresh = 0
        self.rule = ""
        """The rule whose text is being followed."""
        self.reads: list[set[str]] = [set()]
        """What each function that is being inlined has depended on."""

    # emission -----
    def computed(self, value: Value) -> Value:
        """The value, once it has a name; raises Unsupported where it cannot be had any more."""
        if self.path.has(value):
            return value
        if (
            value.op in ("get", "slot", "cell")
            and self.path.versions[value.args[0]] != value.args[1]
        ):
            raise Unsupported(f"{value} is lost")
        form, parts = written(value)
        for part in parts:
            self.computed(part)
        self.fresh += 1
        name = f"t{self.fresh}"
        atoms = tuple(map(self.path.atom, parts))
        self.path.block.append(Let(name, form, atoms, value.total, root(value), self.rule))
        self.path.names[value] = name
        return value

    def condition(self, value: Value) -> Value:
        """A truth value, constant where the path knows it."""
        known = self.path.truth(value)
        return self.values.const(known) if known is not None else value

    def outside(self, name: str, thing: Any) -> str:
        """A name for something from outside, which may have none itself."""
        name = name.replace("<lambda>", "nameless")
        while self.names.setdefault(name, thing) != thing:
            name += "_"
        return name

    # expressions -----
    def value(self, node: ast.expr, frame: Frame) -> Value:
        """An expression that is a value."""
        found = self.evaluate(node, frame)
        if not isinstance(found, Value):
            what = "decides by a ghost" if found is GHOST else "is no value"
            raise Unsupported(f"line {node.lineno}: {ast.unparse(node)} {what}")
        return found

    def evaluate(self, node: ast.expr, frame: Frame) -> Any:
        """Any expression. Raises Unsupported."""
        v = self.values
        match node:
            case ast.Constant():
                return v.const(node.value)
            case ast.Name():
                return self.named(node.id, frame)
            case ast.Attribute():
                return self.attribute(self.evaluate(node.value, frame), node.attr)
            case ast.Subscript():
                if self.evaluate(node.value, frame) is GHOST:
                    return GHOST
                return self.subscript(node, frame)
            case ast.Call():
                return self.call(node, frame)
            case ast.Tuple():
                parts = [self.value(e, frame) for e in node.elts]
                return self.computed(v.make("tuple", *parts))
            case ast.BinOp() if type(node.op) in OPERATORS:
                a, b = self.evaluate(node.left, frame), self.evaluate(node.right, frame)
                if a is GHOST or b is GHOST:
                    return GHOST
                if not (isinstance(a, Value) and isinstance(b, Value)):
                    raise Unsupported(f"line {node.lineno}: {ast.unparse(node)} is no value")
                return self.computed(v.binary(OPERATORS[type(node.op)], a, b))
            case ast.UnaryOp(op=ast.USub()):
                inner = self.value(node.operand, frame)
                minus = v.const(-inner.args[0]) if inner.constant else v.make("neg", inner)
                return self.computed(minus)
            case ast.UnaryOp(op=ast.Not()):
                return self.negated(self.value(node.operand, frame))
            case ast.Compare() if len(node.ops) == 1:
                return self.compared(node, frame)
            case ast.BoolOp():
                return self.short(node, frame)
            case ast.IfExp():
                return self.chosen(node, frame)
            case ast.Lambda():
                return Known(node, {**self.path.locals, "": frame})
            case ast.GeneratorExp():
                return self.comprehension(node, frame)
            case ast.ListComp():
                return self.of_kind(list, self.comprehension(node, frame))
        raise Unsupported(f"line {node.lineno}: {ast.unparse(node)}")

    def comprehension(self, node: ast.GeneratorExp | ast.ListComp, frame: Frame) -> Any:
        """A comprehension; `nullblock.spec.erased.columns` writes them as lists."""
        raise NotImplementedError

    def of_kind(self, kind: type, made: Any) -> Any:
        """What a comprehension has listed, as a tuple or a list; `columns` knows which it is."""
        raise NotImplementedError

    def named(self, name: str, frame: Frame) -> Any:
        """A name: a local, or something of the module."""
        if name in self.path.locals:
            return self.path.settled(self.path.locals[name])
        return self.of_module(frame.globals, name)

    def of_module(self, module: dict[str, Any], name: str) -> Any:
        """A name of a module."""
        if name in module:
            thing = module[name]
        elif hasattr(builtins, name):
            thing = getattr(builtins, name)
        else:
            raise Unsupported(f"unknown name {name}")
        return self.values.const(thing) if isinstance(thing, PLAIN) else Known(thing)

    def attribute(self, base: Any, name: str) -> Any:
        """An attribute of the state, of the environment, or of a value."""
        if isinstance(base, Value):
            return self.computed(self.values.make("attr", base, name, self.version(base)))
        if base.object is STATE:
            if name == "k":
                return Known(self.k)
            if name in GHOSTS:
                return GHOST
            self.reads[-1].add(name)
            return self.path.settled(self.path.fields[name])
        if base.object is self.k:
            if name == "state":
                return Known(STATE)
            if name in self.constants:
                thing = self.constants[name]
                return self.values.const(thing) if isinstance(thing, PLAIN) else Known(thing)
            if callable(getattr(type(self.k), name, None)):
                return Known(getattr(self.k, name))
            self.loaded[f"k_{name}"] = f"k.{name}"
            return self.values.var(f"k_{name}")
        if base.object is self.k.sem:
            return self.values.const(getattr(self.k.sem, name))
        if isinstance(base.object, ModuleType):
            return self.of_module(vars(base.object), name)
        raise Unsupported(f"attribute {name} of {base.object}")

    def subscript(self, node: ast.Subscript, frame: Frame) -> Value:
        """A map at a key."""
        v = self.values
        base, key = self.value(node.value, frame), self.value(node.slice, frame)
        if base.op == "tuple" and key.constant:
            member: Value = base.args[key.args[0]]
            return member
        if base.constant and isinstance(base.args[0], str) and key.constant:
            return v.const(base.args[0][key.args[0]])
        field = self.field_of(node.value, frame)
        if field is None:
            return self.computed(v.make("item", base, key, self.version(base), total=False))
        self.reads[-1].add(f"*{field}")
        known = self.path.known[field].get(key)
        if known is not None and self.path.has(known):
            return known
        version = self.path.versions[field]
        if field in self.slotted:
            return self.computed(v.make("slot", field, version, self.record(key)))
        if self.windowed(field):
            cells, place = self.cell(field, key)
            return self.computed(v.make("cell", field, version, cells, place))
        if self.carriers[field] is Blocks:
            base, key = self.blocks(key)
        return self.computed(v.make("get", field, version, base, key))

    def windowed(self, field: str) -> bool:
        """Whether a field still is the window that it was at the start."""
        here = self.path.fields[field] is self.values.var(field)
        return here and self.carriers[field] is Window

    def cell(self, field: str, key: Value) -> tuple[Value, Value]:
        """A list and the place in it where a window has a key."""
        self.loaded["k_base"] = "k.windows.base"
        self.loaded[f"cells_{field}"] = f"s.{field}.cells"
        place = self.values.binary("-", key, self.values.var("k_base"))
        return self.values.var(f"cells_{field}"), self.computed(place)

    def record(self, key: Value) -> Value:
        """The object that has the slots of a request, or of a table; `members` knows where."""
        raise NotImplementedError

    def blocks(self, key: Value) -> tuple[Value, Value]:
        """Where a block table has its blocks, and the place; `members` knows."""
        raise NotImplementedError

    def version(self, base: Value) -> Any:
        """The state of an object's content, which the text now depends on."""
        dependency, now = self.path.version(base)
        self.reads[-1].add(dependency)
        return now

    def field_of(self, node: ast.expr, frame: Frame) -> str | None:
        """The field that an expression names: `s.comp`."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            base = self.path.locals.get(node.value.id)
            if isinstance(base, Known) and base.object is STATE and node.attr in FIELDS:
                return node.attr
        return None

    def compared(self, node: ast.Compare, frame: Frame) -> Value:
        """A comparison, in terms of `==`, `<`, `is` and `in`."""
        a = self.evaluate(node.left, frame)
        b = self.evaluate(node.comparators[0], frame)
        if not (isinstance(a, Value) and isinstance(b, Value)):
            raise Unsupported(f"line {node.lineno}: {ast.unparse(node)}")
        v = self.values
        match node.ops[0]:
            case ast.Eq():
                found = v.binary("==", a, b)
            case ast.NotEq():
                return self.negated(self.computed(v.binary("==", a, b)))
            case ast.Lt():
                found = v.binary("<", a, b)
            case ast.Gt():
                found = v.binary("<", b, a)
            case ast.GtE():
                return self.negated(self.computed(v.binary("<", a, b)))
            case ast.LtE():
                return self.negated(self.computed(v.binary("<", b, a)))
            case ast.Is():
                found = v.binary("is", a, b)
            case ast.IsNot():
                return self.negated(self.computed(v.binary("is", a, b)))
            case ast.In() if b.op == "tuple":
                found = v.any(*(self.computed(v.binary("==", a, member)) for member in b.args))
            case ast.In():
                found = v.make("in", a, b, self.version(b))
            case _:
                raise Unsupported(f"line {node.lineno}: {ast.unparse(node)}")
        return self.computed(self.condition(found))

    def negated(self, a: Value) -> Value:
        """Not."""
        found = self.values.negated(self.condition(a))
        if not self.path.has(found) and not all(
            self.path.has(x) for x in found.args if isinstance(x, Value)
        ):
            found = self.values.make("not", a)
        return self.computed(found)

    def short(self, node: ast.BoolOp, frame: Frame) -> Value:
        """`and` and `or`: what is decided early leaves the rest unevaluated."""
        conjunction = isinstance(node.op, ast.And)
        parts: list[Value] = []
        for operand in node.values:
            start = len(self.path.block)
            part = self.condition(self.value(operand, frame))
            if not all(before.constant for before in parts):
                self.harmless(start, node)
            if part.constant and bool(part.args[0]) != conjunction:
                return self.values.const(not conjunction)
            parts.append(part)
        made = self.values.all(*parts) if conjunction else self.values.any(*parts)
        return self.computed(made)

    def chosen(self, node: ast.IfExp, frame: Frame) -> Any:
        """`a if c else b`."""
        c = self.condition(self.value(node.test, frame))
        if c.constant:
            return self.evaluate(node.body if c.args[0] else node.orelse, frame)
        start = len(self.path.block)
        a, b = self.value(node.body, frame), self.value(node.orelse, frame)
        self.harmless(start, node)
        return self.computed(self.values.ite(c, a, b))

    def harmless(self, start: int, node: ast.expr) -> None:
        """What was evaluated early may not fail."""
        for s in self.path.block[start:]:
            if not (isinstance(s, Let) and s.total):
                raise Unsupported(f"line {node.lineno}: {ast.unparse(node)} may fail")

    def call(self, node: ast.Call, frame: Frame) -> Any:
        """A call; `nullblock.spec.erased.walker` inlines."""
        raise NotImplementedError

    # words -----
    def word(self, name: str, args: list[Value]) -> Value:
        """One of the kernel's words."""
        v = self.values
        conditions = [self.condition(a) for a in args] if name != "least" else args
        match name:
            case "both":
                found = v.all(*conditions)
            case "either":
                found = v.any(*conditions)
            case "neg":
                return self.negated(args[0])
            case "implies":
                a = self.negated(args[0])
                found = v.any(self.condition(a), conditions[1])
            case "ite":
                found = v.ite(conditions[0], args[1], args[2])
            case "least":
                a, b = args
                less = self.condition(self.computed(v.binary("<", a, b)))
                found = v.ite(less, a, b)
            case _:
                raise Unsupported(f"the word {name}")
        return self.computed(found)


WORDS: dict[Any, str] = {
    getattr(kernel, w): w for w in ("both", "either", "neg", "implies", "ite", "least")
}
