"""Expressions: names, fields, arithmetic, comparisons, conditions."""

import ast
import builtins
import operator
from collections.abc import Callable
from dataclasses import is_dataclass
from enum import Enum
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

from nullblock.spec.compiled.context import Context
from nullblock.spec.compiled.values import (
    NONE,
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
    Row,
    Scope,
    StateRef,
    Untranslatable,
    Value,
    Vec,
    encode,
)
from nullblock.spec.kernel import Rule

ARITHMETIC: dict[type[ast.operator], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("({} + {})", operator.add),
    ast.Sub: ("({} - {})", operator.sub),
    ast.Mult: ("({} * {})", operator.mul),
    ast.FloorDiv: ("floor_div({}, {})", operator.floordiv),
    ast.Mod: ("floor_mod({}, {})", operator.mod),
}
ORDER: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Lt: ("<", operator.lt),
    ast.LtE: ("<=", operator.le),
    ast.Gt: (">", operator.gt),
    ast.GtE: (">=", operator.ge),
}


class Expressions(Context):
    """Expressions that are no calls."""

    def expr(self, node: ast.expr, scope: Scope) -> Value:
        match node:
            case ast.Constant(value=value):
                return Const(value)
            case ast.Name(id=name):
                return self._name(name, node, scope)
            case ast.Attribute(value=of, attr=name):
                return self.attribute(self.expr(of, scope), name, node, scope)
            case ast.Subscript():
                return self._subscript(node, scope)
            case ast.BinOp(left=left, op=op, right=right):
                return self.arithmetic(
                    op, self.expr(left, scope), self.expr(right, scope), node, scope
                )
            case ast.UnaryOp():
                return self._unary(node, scope)
            case ast.BoolOp():
                return self._bool(node, scope)
            case ast.Compare():
                return self._compare(node, scope)
            case ast.IfExp():
                return self._if(node, scope)
            case ast.Lambda(args=args, body=body):
                return Closure(tuple(a.arg for a in args.args), body, scope)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return Items(tuple(self.expr(e, scope) for e in elts))
            case ast.Dict(keys=[]):
                return Dic("((M){0})")
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                return Gen(node, scope)
            case ast.Call():
                return self._call(node, scope)
        raise self.refuse(node, scope, f"{type(node).__name__} has no C form")

    def _name(self, name: str, node: ast.expr, scope: Scope) -> Value:
        if name in scope.names:
            return scope.names[name]
        if name in scope.globals:
            return Const(scope.globals[name])
        if hasattr(builtins, name):
            return Const(getattr(builtins, name))
        raise self.refuse(node, scope, "an unknown name")

    def attribute(self, of: Value, name: str, node: ast.AST, scope: Scope) -> Value:
        """`of.name`."""
        match of:
            case StateRef(state):
                if name == "k":
                    return Const(self.env)
                if name not in self.fields:
                    raise self.refuse(node, scope, "no field")
                f = self.fields[name]
                if f.is_map:
                    return Map(state, name)
                return Bits(f"{state}.{name}") if f.is_set else Num(f"{state}.{name}", opt=f.opt)
            case Record(fields):
                if name in fields:
                    return self.expr(*fields[name])
            case Row(rows, at):
                return self.fact(Row(tuple(getattr(row, name) for row in rows), at))
            case Const(value):
                if not hasattr(value, name):
                    return Bound(of, name)
                found = getattr(value, name)
                if isinstance(found, MethodType | BuiltinMethodType):
                    return Bound(of, name)
                return found if isinstance(found, Bits) else Const(found)
            case Map() | Bits() | Vec() | Dic() | Gen() | Items():
                return Bound(of, name)
            case Done():
                return Num("done_argument", opt=True)
        raise self.refuse(node, scope, f"no {name} of {type(of).__name__}")

    def fact(self, row: Row) -> Value:
        """One of some facts: a number from a table, if they are numbers."""
        if any(isinstance(value, tuple) for value in row.rows):
            return row
        try:
            codes = [encode(value, self.requests) for value in row.rows]
        except Untranslatable:
            return row
        text = f"{self.table(codes)}[{row.at.c}]"
        return Num(text, opt=NONE in codes, fails=row.at.fails)

    def _subscript(self, node: ast.Subscript, scope: Scope) -> Value:
        of, at = self.expr(node.value, scope), node.slice
        if isinstance(of, Map):
            keys = at.elts if isinstance(at, ast.Tuple) else [at]
            key = self.expr(at, scope) if len(keys) == 1 else None
            values = list(key.values) if isinstance(key, Items) else []
            values = values or [self.expr(k, scope) for k in keys]
            return self.read(of, [self.num(v, node, scope) for v in values])
        if isinstance(of, Const) and isinstance(of.value, dict):
            rows = tuple(of.value[r] for r in self.requests)
            return Row(rows, self.request(self.num(self.expr(at, scope), node, scope)))
        if isinstance(of, Gen) and isinstance(of.node, ast.DictComp):
            of = self.materialise(of, node, scope)
        if isinstance(of, Dic):
            key = self.num(self.expr(at, scope), node, scope)
            return Num(f"got({of.c}, {key.c}, NONE)", opt=True, fails=of.fails or key.fails)
        if isinstance(of, Items):
            index = self.expr(at, scope)
            if isinstance(index, Const) and isinstance(index.value, int):
                return of.values[index.value]
        if isinstance(of, Vec) or isinstance(of := self.materialise(of, node, scope), Vec):
            return self._of_sequence(of, at, node, scope)
        raise self.refuse(node, scope, "what is subscribed is unknown")

    def _of_sequence(self, of: Vec, at: ast.expr, node: ast.AST, scope: Scope) -> Value:
        if isinstance(at, ast.Slice) and at.step is None:
            ends = [
                Num(otherwise) if end is None else self.num(self.expr(end, scope), node, scope)
                for end, otherwise in ((at.lower, "0"), (at.upper, "VECTOR"))
            ]
            return Vec(f"slice({of.c}, {ends[0].c}, {ends[1].c})", fails=of.fails)
        n = self.num(self.expr(at, scope), node, scope)
        return Num(f"element({of.c}, {n.c})", opt=True, fails=self.mark(True))

    def request(self, r: Num) -> Num:
        """A request that there must be."""
        return Num(f"some_request({r.c})", fails=self.mark(True)) if r.opt else r

    def read(self, of: Map, keys: list[Num]) -> Value:
        """An entry of a map."""
        f = self.fields[of.field]
        text = f"read_{of.field}(&{of.state}, {', '.join(k.c for k in keys)})"
        fails = any(k.fails for k in keys)
        return Bits(text, fails) if f.is_set else Num(text, f.opt, fails)

    def arithmetic(
        self, op: ast.operator, left: Value, right: Value, node: ast.AST, scope: Scope
    ) -> Value:
        """`left op right`."""
        if isinstance(left, Const) and isinstance(right, Const) and type(op) in ARITHMETIC:
            return Const(ARITHMETIC[type(op)][1](left.value, right.value))
        if isinstance(left, Bits) and isinstance(right, Bits):
            signs = {ast.BitAnd: "&", ast.BitOr: "|", ast.Sub: "& ~"}
            if type(op) in signs:
                return Bits(f"({left.c} {signs[type(op)]}{right.c})", left.fails or right.fails)
        if type(op) not in ARITHMETIC:
            raise self.refuse(node, scope, "an unknown operator")
        a = self.known(self.num(left, node, scope))
        b = self.known(self.num(right, node, scope))
        return Num(ARITHMETIC[type(op)][0].format(a.c, b.c), fails=a.fails or b.fails)

    def _unary(self, node: ast.UnaryOp, scope: Scope) -> Value:
        value = self.expr(node.operand, scope)
        if isinstance(node.op, ast.Not):
            t = self.truth(value, node, scope)
            return Const(not t.value) if isinstance(t, Const) else Num(f"(!{t.c})", fails=t.fails)
        if isinstance(node.op, ast.USub):
            if isinstance(value, Const):
                return Const(-value.value)
            n = self.known(self.num(value, node, scope))
            return Num(f"(-{n.c})", fails=n.fails)
        raise self.refuse(node, scope, "an unknown operator")

    def _bool(self, node: ast.BoolOp, scope: Scope) -> Value:
        """`and` and `or`: as conditions, which is all that the text uses them for."""
        stop = isinstance(node.op, ast.Or)
        parts: list[Num] = []
        for operand in node.values:
            t = self.truth(self.expr(operand, scope), node, scope)
            if isinstance(t, Num):
                parts.append(t)
            elif t.value is stop:
                parts.append(Num(str(int(stop))))
                break
        if not parts:
            return Const(not stop)
        if len(parts) == 1 and parts[0].c in "01":
            return Const(stop)
        sign = " || " if stop else " && "
        return Num(f"({sign.join(p.c for p in parts)})", fails=any(p.fails for p in parts))

    def _compare(self, node: ast.Compare, scope: Scope) -> Value:
        values = [self.expr(e, scope) for e in (node.left, *node.comparators)]
        parts = [
            self.comparison(op, a, b, node, scope)
            for op, a, b in zip(node.ops, values, values[1:], strict=False)
        ]
        if all(isinstance(p, Const) for p in parts):
            return Const(all(p.value for p in parts if isinstance(p, Const)))
        nums = [self.num(p, node, scope) for p in parts]
        return Num(f"({' && '.join(n.c for n in nums)})", fails=any(n.fails for n in nums))

    def comparison(self, op: ast.cmpop, a: Value, b: Value, node: ast.AST, scope: Scope) -> Value:
        """`a op b`."""
        if isinstance(op, ast.In | ast.NotIn):
            found = self.contains(b, a, node, scope)
            return found if isinstance(op, ast.In) else Num(f"(!{found.c})", fails=found.fails)
        same = isinstance(op, ast.Eq | ast.Is)
        if isinstance(a, Const) and isinstance(b, Const):
            if type(op) in ORDER:
                return Const(ORDER[type(op)][1](a.value, b.value))
            return Const((a.value == b.value) is same)
        if type(op) in ORDER:
            x, y = (self.known(self.num(v, node, scope)) for v in (a, b))
            return Num(f"({x.c} {ORDER[type(op)][0]} {y.c})", fails=x.fails or y.fails)
        if isinstance(a, Const | Num) and isinstance(b, Const | Num):
            x, y = (self.num(v, node, scope) for v in (a, b))
            return Num(f"({x.c} {'==' if same else '!='} {y.c})", fails=x.fails or y.fails)
        if isinstance(a, Bits) and isinstance(b, Bits):
            return Num(f"({a.c} {'==' if same else '!='} {b.c})", fails=a.fails or b.fails)
        if any(isinstance(v, Bound | Closure | Record | Row | Done | Hook) for v in (a, b)):
            if isinstance(op, ast.Is | ast.IsNot):
                return Const(not same)
            raise self.refuse(node, scope, "these do not compare")
        u, v = (self.materialise(x, node, scope) for x in (a, b))
        if isinstance(u, Vec) and isinstance(v, Vec):
            sign = "" if same else "!"
            return Num(f"({sign}same({u.c}, {v.c}))", fails=u.fails or v.fails)
        if isinstance(u, Bits) and isinstance(v, Bits):
            return self.comparison(op, u, v, node, scope)
        raise self.refuse(node, scope, "these do not compare")

    def contains(self, of: Value, x: Value, node: ast.AST, scope: Scope) -> Num:
        """`x in of`."""
        n = self.num(x, node, scope)
        if isinstance(of, Map):
            default = self.fields[of.field].default
            read = self.num(self.read(of, [n]), node, scope)
            return Num(f"({read.c} != {default})", fails=read.fails)
        of = self.materialise(of, node, scope)
        if isinstance(of, Bits):
            return Num(f"has({of.c}, {n.c})", fails=of.fails or n.fails)
        if isinstance(of, Dic):
            return Num(f"knows({of.c}, {n.c})", fails=of.fails or n.fails)
        if isinstance(of, Vec):
            return Num(f"among({of.c}, {n.c})", fails=of.fails or n.fails)
        if isinstance(of, Const):
            of = Items(tuple(Const(v) for v in of.value))
        if isinstance(of, Items):
            equal = [self.num(v, node, scope).c for v in of.values]
            return Num(f"({' || '.join(f'{n.c} == {c}' for c in equal) or 0})", fails=n.fails)
        raise self.refuse(node, scope, "no collection")

    def _if(self, node: ast.IfExp, scope: Scope) -> Value:
        test = self.truth(self.expr(node.test, scope), node, scope)
        if isinstance(test, Const):
            return self.expr(node.body if test.value else node.orelse, scope)
        a, b = self.expr(node.body, scope), self.expr(node.orelse, scope)
        return self.choose(test, a, b, node, scope)

    def choose(self, test: Num, a: Value, b: Value, node: ast.AST, scope: Scope) -> Value:
        """`a if test else b`, evaluating one of them."""
        a, b = self.materialise(a, node, scope), self.materialise(b, node, scope)
        for kind in (Bits, Vec, Dic):
            if isinstance(a, kind) and isinstance(b, kind):
                fails = test.fails or a.fails or b.fails
                return kind(f"({test.c} ? {a.c} : {b.c})", fails)
        x, y = self.num(a, node, scope), self.num(b, node, scope)
        fails = test.fails or x.fails or y.fails
        return Num(f"({test.c} ? {x.c} : {y.c})", x.opt or y.opt, fails)

    def _call(self, node: ast.Call, scope: Scope) -> Value:
        f = self.expr(node.func, scope)
        if isinstance(f, Bound):
            if f.of == Const(self.env):
                return self.ask(f.name, node, scope)
            return self.method(f, node, scope)
        if isinstance(f, Const):
            name = getattr(f.value, "__name__", "")
            found = self.word(name, node, scope)
            if found is not None:
                return found
        return self.apply(f, [self.expr(a, scope) for a in node.args], node, scope)

    def method(self, f: Bound, node: ast.Call, scope: Scope) -> Value:
        """A method of a map, set or sequence."""
        arguments = [self.expr(a, scope) for a in node.args]
        if f.name in ("items", "keys", "values") and isinstance(f.of, Map | Gen | Dic):
            return Over(f.name, (f.of,))
        of = self.materialise(f.of, node, scope) if f.name == "get" else f.of
        if isinstance(of, Dic) and f.name == "get":
            key, other = (self.num(v, node, scope) for v in (*arguments, Const(None))[:2])
            return Num(f"got({of.c}, {key.c}, {other.c})", opt=True, fails=of.fails)
        if f.name == "__contains__":
            return self.contains(f.of, arguments[0], node, scope)
        if isinstance(f.of, Const) and not arguments:
            found = getattr(f.of.value, f.name, None)
            if callable(found) and isinstance(f.of.value, dict | Enum):
                return Const(found())
        return self.apply(f, arguments, node, scope)

    def is_text(self, value: object) -> bool:
        """Whether a value is a function of the text, or a dataclass of it."""
        return isinstance(value, FunctionType | Rule) or is_dataclass(value)
