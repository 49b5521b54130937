"""Going over things: comprehensions, ranges, maps, sets and sequences, and what consumes them."""

import ast
from collections.abc import Callable

from nullblock.spec.compiled.context import Context
from nullblock.spec.compiled.values import (
    Bits,
    Const,
    Dic,
    Gen,
    Items,
    Map,
    Num,
    Over,
    Row,
    Scope,
    Value,
    Vec,
)

Body = Callable[[Value], str]
DOMAIN = {"R": (0, "NR"), "T": (0, "NT"), "B": (0, "NB + 1"), "I": (0, "NI")}
"""The keys that a map has room for, by sort."""


class Loops(Context):
    """Iteration."""

    def bind(self, target: ast.expr, value: Value, scope: Scope) -> Scope:
        """The scope in which `target` is `value`."""
        if isinstance(target, ast.Name):
            return scope.inner({target.id: value})
        if isinstance(target, ast.Tuple) and isinstance(value, Items):
            for t, v in zip(target.elts, value.values, strict=True):
                scope = self.bind(t, v, scope)
            return scope
        raise self.refuse(target, scope, "no name to bind")

    def each(
        self,
        over: Value,
        target: ast.expr | None,
        scope: Scope,
        body: Callable[[Scope, Value], str],
        go: str,
        node: ast.AST,
    ) -> str:
        def inside(value: Value) -> str:
            bound = scope if target is None else self.bind(target, value, scope)
            return body(bound, value)

        return self.elements(over, node, scope, inside, go)

    def elements(self, over: Value, node: ast.AST, scope: Scope, body: Body, go: str) -> str:
        match over:
            case Over(kind="range", parts=(Num(c=low), Num(c=high))):
                i, end = self.fresh("i"), self.fresh("end")
                return (
                    f"{{int {end} = {high}; for (int {i} = {low}; ({go}) && {i} < {end}; {i}++) "
                    f"{{{body(Num(i))}}}}}"
                )
            case Over(kind="map", parts=(f, xs)):
                arg = ast.copy_location(ast.Constant(None), node)
                inner: Body = lambda x: body(self.apply(f, [x], arg, scope))  # noqa: E731
                return self.elements(xs, node, scope, inner, go)
            case Over(kind=kind, parts=(Dic(c=text),)):
                return self._dic(text, kind, body, go)
            case Dic(c=text):
                return self._dic(text, "keys", body, go)
            case Over(kind=kind, parts=(Gen() as gen,)):
                return self._gen(gen, kind, body, go)
            case Over(kind=kind, parts=(Map() as entries,)):
                return self._map(entries, kind, body, go)
            case Map():
                return self._map(over, "keys", body, go)
            case Gen():
                return self._gen(over, "values", body, go)
            case Vec(c=text):
                v, i = self.fresh("v"), self.fresh("i")
                return (
                    f"{{V {v} = {text}; for (int {i} = 0; ({go}) && {i} < {v}.n; {i}++) "
                    f"{{{body(Num(f'{v}.a[{i}]', opt=True))}}}}}"
                )
            case Bits(c=text):
                m, e = self.fresh("m"), self.fresh("e")
                return (
                    f"{{bits {m} = {text}; while (({go}) && {m}) {{int {e} = lowest({m}); "
                    f"{m} &= {m} - 1; {body(Num(e))}}}}}"
                )
            case Items(values):
                return "".join(f"if ({go}) {{{body(v)}}}" for v in values)
            case Const(value):
                return self._known(value, node, scope, body, go)
        raise self.refuse(node, scope, f"cannot go over {type(over).__name__}")

    def _known(self, value: object, node: ast.AST, scope: Scope, body: Body, go: str) -> str:
        if isinstance(value, dict) and tuple(value) == self.requests:
            r = self.fresh("r")
            return f"for (int {r} = 0; ({go}) && {r} < NR; {r}++) {{{body(Num(r))}}}"
        if isinstance(value, tuple | list | range):
            return "".join(f"if ({go}) {{{body(Const(v))}}}" for v in value)
        raise self.refuse(node, scope, "cannot go over this")

    def _map(self, m: Map, kind: str, body: Body, go: str) -> str:
        """Over the entries of a map that differ from its default."""
        f = self.fields[m.field]
        names = [self.fresh("k") for _ in f.keys]
        keys: list[Value] = [Num(n) for n in names]
        text = f"{m.state}.{m.field}" + "".join(f"[{n}]" for n in names)
        value: Value = Bits(text) if f.is_set else Num(text, f.opt)
        key = keys[0] if len(keys) == 1 else Items(tuple(keys))
        member = {"keys": key, "values": value, "items": Items((key, value))}[kind]
        inside = f"if ({text} != {f.default}) {{{body(member)}}}"
        for name, sort in zip(reversed(names), reversed(f.keys), strict=True):
            low, high = DOMAIN[sort]
            inside = f"for (int {name} = {low}; ({go}) && {name} < {high}; {name}++) {{{inside}}}"
        return inside

    def _dic(self, text: str, kind: str, body: Body, go: str) -> str:
        """Over a dictionary that has been evaluated."""
        d, i = self.fresh("d"), self.fresh("i")
        key, value = (Num(f"{d}.{part}[{i}]", opt=True) for part in ("key", "value"))
        members: dict[str, Value] = {"keys": key, "values": value, "items": Items((key, value))}
        member = members[kind]
        return (
            f"{{M {d} = {text}; for (int {i} = 0; ({go}) && {i} < {d}.n; {i}++) "
            f"{{{body(member)}}}}}"
        )

    def _gen(self, gen: Gen, kind: str, body: Body, go: str) -> str:
        """Over the members of a comprehension; those of a dictionary are its keys' in turn."""
        node = gen.node

        def level(depth: int, scope: Scope) -> str:
            if depth == len(node.generators):
                if not isinstance(node, ast.DictComp):
                    return body(self.expr(node.elt, scope))
                key = self.expr(node.key, scope)
                if kind == "keys":
                    return body(key)
                value = self.expr(node.value, scope)
                return body(value if kind == "values" else Items((key, value)))
            clause = node.generators[depth]

            def inside(bound: Scope, _: Value) -> str:
                tests = [self.truth(self.expr(t, bound), t, bound) for t in clause.ifs]
                if any(isinstance(t, Const) and not t.value for t in tests):
                    return ""
                text = level(depth + 1, bound)
                conditions = " && ".join(t.c for t in tests if isinstance(t, Num))
                return f"if ({conditions}) {{{text}}}" if conditions else text

            over = self.expr(clause.iter, scope)
            return self.each(over, clause.target, scope, inside, go, node)

        return level(0, gen.scope)

    # consumers -----
    def decided(
        self, over: Value, node: ast.AST, scope: Scope, otherwise: int, test: Body | None = None
    ) -> Num:
        """`all` (otherwise 1) or `any` (otherwise 0)."""
        before = self.enter()
        ok = self.fresh("ok")
        go = ok if otherwise else f"!{ok}"

        def inside(value: Value) -> str:
            return f"{ok} = {test(value) if test else self._condition(value, node, scope)};"

        text = self.elements(over, node, scope, inside, go)
        return Num(f"({{int {ok} = {otherwise}; {text} {ok};}})", fails=self.leave(before))

    def _condition(self, value: Value, node: ast.AST, scope: Scope) -> str:
        t = self.truth(value, node, scope)
        return f"!!{t.c}" if isinstance(t, Num) else str(int(t.value))

    def total(self, over: Value, node: ast.AST, scope: Scope) -> Num:
        """`sum`."""
        before = self.enter()
        n = self.fresh("n")

        def inside(value: Value) -> str:
            return f"{n} += {self.known(self.num(value, node, scope)).c};"

        text = self.elements(over, node, scope, inside, "1")
        return Num(f"({{int {n} = 0; {text} {n};}})", fails=self.leave(before))

    def extreme(
        self,
        over: Value,
        sign: str,
        key: Value | None,
        default: Value | None,
        node: ast.expr,
        scope: Scope,
    ) -> Num:
        """`min` (sign <) or `max` (sign >): the first of the best; `default` or an error if
        there is none.
        """
        before = self.enter()
        best, found, least = self.fresh("best"), self.fresh("found"), self.fresh("least")

        def inside(value: Value) -> str:
            x = self.num(value, node, scope)
            k = x if key is None else self.num(self.apply(key, [x], node, scope), node, scope)
            it = self.fresh("it")
            return (
                f"int {it} = {self.known(k).c}; if (!{found} || {it} {sign} {least}) "
                f"{{{found} = 1; {least} = {it}; {best} = {x.c};}}"
            )

        text = self.elements(over, node, scope, inside, "1")
        other = "confused()" if default is None else self.num(default, node, scope).c
        self.mark(default is None)
        return Num(
            f"({{int {best} = 0, {found} = 0, {least} = 0; {text} {found} ? {best} : {other};}})",
            opt=default is not None,
            fails=self.leave(before),
        )

    def materialise(self, value: Value, node: ast.AST, scope: Scope) -> Value:
        if isinstance(value, Gen) and isinstance(value.node, ast.SetComp):
            return self.as_set(value, node, scope)
        if isinstance(value, Gen) and isinstance(value.node, ast.DictComp):
            return self.as_dictionary(value, node, scope)
        if isinstance(value, Gen) or (isinstance(value, Over) and value.kind in ("range", "map")):
            return self.as_sequence(value, node, scope)
        if isinstance(value, Items) and not any(isinstance(v, Row | Items) for v in value.values):
            return self.as_sequence(value, node, scope)
        return value

    def as_set(self, over: Value, node: ast.AST, scope: Scope) -> Bits:
        """`set(…)`."""
        if isinstance(over, Bits):
            return over
        before = self.enter()
        m = self.fresh("set")

        def inside(value: Value) -> str:
            return f"{m} = with({m}, {self.num(value, node, scope).c});"

        text = self.elements(over, node, scope, inside, "1")
        return Bits(f"({{bits {m} = 0; {text} {m};}})", fails=self.leave(before))

    def as_sequence(self, over: Value, node: ast.AST, scope: Scope) -> Vec:
        """`list(…)`, `tuple(…)`."""
        if isinstance(over, Vec):
            return over
        before = self.enter()
        v = self.fresh("seq")

        def inside(value: Value) -> str:
            return f"push(&{v}, {self.num(value, node, scope).c});"

        text = self.elements(over, node, scope, inside, "1")
        return Vec(f"({{V {v}; {v}.n = 0; {text} {v};}})", fails=self.leave(before))

    def as_dictionary(self, over: Gen, node: ast.AST, scope: Scope) -> Dic:
        """A dictionary of numbers."""
        d = self.fresh("dic")
        before = self.enter()

        def inside(pair: Value) -> str:
            assert isinstance(pair, Items)
            key, value = (self.num(v, node, scope).c for v in pair.values)
            return f"put(&{d}, {key}, {value});"

        text = self._gen(over, "items", inside, "1")
        return Dic(f"({{M {d}; {d}.n = 0; {text} {d};}})", fails=self.leave(before))

    def size(self, over: Value, node: ast.AST, scope: Scope) -> Num:
        """`len`."""
        over = self.materialise(over, node, scope)
        if isinstance(over, Vec):
            return Num(f"({over.c}).n", fails=over.fails)
        if isinstance(over, Bits):
            return Num(f"count({over.c})", fails=over.fails)
        before = self.enter()
        n = self.fresh("n")
        text = self.elements(over, node, scope, lambda _: f"{n}++;", "1")
        return Num(f"({{int {n} = 0; {text} {n};}})", fails=self.leave(before))
