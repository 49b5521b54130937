"""Functions: one of the text becomes one of C for each kind of arguments it is called with."""

import ast
from collections.abc import Callable
from dataclasses import fields as fields_of_class
from dataclasses import is_dataclass
from types import FunctionType
from typing import Any

from nullblock.spec.compiled.context import Frame, Sizes
from nullblock.spec.compiled.statements import KINDS, Statements
from nullblock.spec.compiled.text import body, definition, stored
from nullblock.spec.compiled.values import (
    Bits,
    Bound,
    Closure,
    Const,
    Dic,
    Done,
    Gen,
    Hook,
    Items,
    Map,
    Num,
    Over,
    Record,
    Scope,
    StateRef,
    Value,
    Vec,
)
from nullblock.spec.explorer.model import ModelEnv
from nullblock.spec.kernel import Rule

Result = tuple[str, str, bool, bool]
"""C name, C type, whether it may be None, whether it may fail."""


class Functions(Statements):
    """Calls of functions, and their translation on first use."""

    def __init__(self, env: ModelEnv, sizes: Sizes) -> None:
        super().__init__(env, sizes)
        self.known_functions: dict[Any, Result | None] = {}

    def apply(self, f: Value, arguments: list[Value], node: ast.expr, scope: Scope) -> Value:
        match f:
            case Closure(parameters, text, outer, given):
                if len(parameters) != len(arguments):
                    raise self.refuse(node, scope, "not as many arguments as parameters")
                inner = outer.inner(dict(zip(parameters, arguments, strict=True)))
                for n in given:
                    inner = self.bind(n.targets[0], self.expr(n.value, inner), inner)
                return self.expr(text, inner)
            case Const(value=Rule() as rule):
                return self._fire(rule, arguments, node, scope)
            case Const(value=FunctionType() as function):
                return self.call(function, arguments, node, scope)
            case Bound(of=of, name="__class__"):
                (only,) = arguments
                return only if isinstance(only, Map) else Over("mapping", (only,))
            case Bound(of=of, name="__contains__"):
                return self.contains(of, arguments[0], node, scope)
            case Bound(of=Const(value) as of, name=name):
                method = getattr(type(value), name, None)
                if isinstance(method, FunctionType):
                    return self.call(method, [of, *arguments], node, scope)
            case Hook(c):
                return Num(f"({c}(), 0)", fails=self.mark(True))
        raise self.refuse(node, scope, "what is called is unknown")

    def _complete(
        self, f: FunctionType, arguments: list[Value], node: ast.expr, scope: Scope
    ) -> dict[str, Value]:
        """Parameters and their values."""
        d = definition(f)
        names = [a.arg for a in d.args.args]
        defaults = f.__defaults__ or ()
        given: dict[str, Value] = dict(zip(names, arguments, strict=False))
        for k in getattr(node, "keywords", ()):
            if k.arg in names:
                given.setdefault(k.arg, self.expr(k.value, scope))
        for name, value in zip(names[len(names) - len(defaults) :], defaults, strict=True):
            given.setdefault(name, Const(value))
        if list(given) != names and set(given) != set(names):
            raise self.refuse(node, scope, f"{f.__name__} gets other parameters than it has")
        return {name: given[name] for name in names}

    def call(
        self, f: Callable[..., Any], arguments: list[Value], node: ast.expr, scope: Scope
    ) -> Value:
        assert isinstance(f, FunctionType)
        statements = body(definition(f))
        if not statements:
            return Const(None)
        given = self._complete(f, arguments, node, scope)
        record = self._record(f, statements, given)
        if record is not None:
            return record
        short = len(statements) == 1 and isinstance(statements[0], ast.Return)
        value = statements[0].value if isinstance(statements[0], ast.Return) else None
        of_environment = f.__module__.endswith((".concrete", ".carriers", ".model"))
        if short and (of_environment or isinstance(value, ast.Tuple) or self._lazy(given)):
            if value is None:
                return Const(None)
            return self.expr(value, Scope(given, f.__globals__, f.__code__.co_filename))
        return self._called(self._function(f, given, node, scope), given)

    def _lazy(self, given: dict[str, Value]) -> bool:
        return any(isinstance(v, Gen | Over | Closure) for v in given.values())

    def _record(
        self, f: FunctionType, statements: list[ast.stmt], given: dict[str, Value]
    ) -> Record | None:
        """What a function returns that only makes an object of a dataclass."""
        last = statements[-1]
        if not (isinstance(last, ast.Return) and isinstance(last.value, ast.Call)):
            return None
        made = last.value.func
        kind = f.__globals__.get(made.id) if isinstance(made, ast.Name) else None
        if not (isinstance(kind, type) and is_dataclass(kind)):
            return None
        scope = Scope(dict(given), f.__globals__, f.__code__.co_filename)
        for n in statements[:-1]:
            if not (isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name)):
                raise self.refuse(n, scope, "too much for making an object")
            scope.names[n.targets[0].id] = self.expr(n.value, scope)
        names = [x.name for x in fields_of_class(kind)]
        values = dict(zip(names, last.value.args, strict=False))
        values |= {k.arg: k.value for k in last.value.keywords if k.arg}
        return Record({name: (value, scope) for name, value in values.items()})

    def _key(self, value: Value) -> Any:
        """What of an argument a C function depends on."""
        match value:
            case Num():
                return ("int", value.opt)
            case Bits() | Vec() | Dic():
                return type(value).__name__
            case Const(v):
                if v is None:
                    return ("int", True)
                return ("int", False) if isinstance(v, int) else ("const", id(v))
            case StateRef() | Map() | Hook() | Done():
                return value
            case _:
                return ("object", id(value))

    def _function(
        self, f: FunctionType, given: dict[str, Value], node: ast.expr, scope: Scope
    ) -> Result:
        for name, value in given.items():
            if isinstance(value, Gen | Items):
                given[name] = self.materialise(value, node, scope)
        key = (f, tuple(map(self._key, given.values())))
        if key in self.known_functions:
            found = self.known_functions[key]
            if found is None:
                raise self.refuse(node, scope, "a function that calls itself")
            return found
        self.known_functions[key] = None
        result = self.known_functions[key] = self._translate(f, given)
        return result

    def _parameters(self, given: dict[str, Value]) -> tuple[dict[str, Value], list[str]]:
        inside: dict[str, Value] = {}
        parameters = []
        for name, value in given.items():
            if isinstance(value, Const) and (value.value is None or isinstance(value.value, int)):
                value = Num("", opt=value.value is None)
            if isinstance(value, Num | Bits | Vec | Dic):
                c = self.fresh(f"a_{name}")
                kind = KINDS[type(value)]
                parameters.append(f"{kind} {c}")
                inside[name] = Num(c, value.opt) if isinstance(value, Num) else type(value)(c)
            else:
                inside[name] = value
        return inside, parameters

    def _translate(self, f: FunctionType, given: dict[str, Value]) -> Result:
        d = definition(f)
        inside, parameters = self._parameters(given)
        scope = Scope(inside, f.__globals__, f.__code__.co_filename, stored(d))
        frame = Frame(self.fresh(f"f_{f.__name__}"))
        self.frames.append(frame)
        try:
            text, ended = self.block(body(d), scope)
        finally:
            self.frames.pop()
        kinds = frame.kinds - {"none"} or {"none"}
        if len(kinds) > 1:
            raise self.refuse(d, scope, "returns different things")
        (kind,) = kinds
        nothing = kind == "none"
        if not ended and not nothing and kind == "int":
            frame.opt = True
        end = (
            ""
            if ended
            else ("V none; none.n = 0; return none;" if kind == "V" else "return NONE;")
        )
        ctype = "int" if nothing else kind
        head = f"static {ctype} {frame.name}({', '.join(parameters) or 'void'})"
        self.prototypes.append(f"{head};")
        declared = "\n".join(frame.declared)
        self.code.append(f"{head} {{\n{declared}\n{text}\n{end}\n}}")
        return frame.name, kind, frame.opt, frame.fails

    def _called(self, result: Result, given: dict[str, Value]) -> Value:
        name, kind, opt, fails = result
        passed = []
        broken = fails
        for value in given.values():
            if isinstance(value, Const) and (value.value is None or isinstance(value.value, int)):
                value = Num("NONE" if value.value is None else str(int(value.value)))
            if isinstance(value, Num | Bits | Vec | Dic):
                passed.append(value.c)
                broken |= value.fails
        self.mark(broken)
        text = f"{name}({', '.join(passed)})"
        match kind:
            case "bits":
                return Bits(text, broken)
            case "V":
                return Vec(text, broken)
            case "M":
                return Dic(text, broken)
            case _:
                return Num(text, opt, broken)

    def _fire(self, rule: Rule, arguments: list[Value], node: ast.expr, scope: Scope) -> Value:
        """A rule: its body, and then whoever observes rules."""
        f = rule.body
        assert isinstance(f, FunctionType)
        given = self._complete(f, arguments, node, scope)
        fired = self._called(self._function(f, given, node, scope), given)
        assert isinstance(fired, Num)
        return Num(f"({fired.c}, after_{self.rules[rule.id]}(), 0)", fails=True)
