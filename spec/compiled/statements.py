"""Statements: assignments, branches, loops, guards."""

import ast
from typing import Any

from nullblock.spec import kernel
from nullblock.spec.compiled.text import place
from nullblock.spec.compiled.values import (
    Bits,
    Bound,
    Closure,
    Const,
    Dic,
    Hook,
    Items,
    Map,
    Num,
    Over,
    Record,
    Row,
    Scope,
    StateRef,
    Value,
    Vec,
)
from nullblock.spec.compiled.words import Words

SURPRISES = (LookupError, TypeError, ValueError, AttributeError, AssertionError, RecursionError)
"""What a text that nobody foresaw may raise here."""
KINDS: dict[type, str] = {Num: "int", Bits: "bits", Vec: "V", Dic: "M"}


def quoted(text: str) -> str:
    """A C string."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") + '"'


class Statements(Words):
    """Bodies of functions."""

    def block(self, statements: list[ast.stmt], scope: Scope) -> tuple[str, bool]:
        """C for some statements, and whether they end the function in any case."""
        out: list[str] = []
        for n in statements:
            text, ended = self.statement(n, scope)
            out.append(text)
            if ended:
                return "\n".join(out), True
        return "\n".join(out), False

    def statement(self, n: ast.stmt, scope: Scope) -> tuple[str, bool]:
        """C for one statement, and whether it ends the function."""
        try:
            return self._statement(n, scope)
        except SURPRISES as e:
            raise self.refuse(n, scope, f"has no C form ({type(e).__name__} {e})") from e

    def _statement(self, n: ast.stmt, scope: Scope) -> tuple[str, bool]:
        match n:
            case ast.Return(value=value):
                return self._return(value, n, scope), True
            case ast.If():
                return self._branch(n, scope)
            case ast.Assign(targets=[target], value=value):
                return self._assign(target, self.expr(value, scope), n, scope), False
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                return self._assign(target, self.expr(value, scope), n, scope), False
            case ast.AugAssign(target=target, op=op, value=value):
                old = self.expr(_loaded(target), scope)
                new = self.arithmetic(op, old, self.expr(value, scope), n, scope)
                return self._assign(target, new, n, scope), False
            case ast.Expr(value=ast.Constant()) | ast.Pass():
                return "", False
            case ast.Expr(value=ast.Call() as call):
                return self._effect(call, scope), False
            case ast.Expr(value=ast.Yield(value=ast.expr() as value)):
                return self.yielded(value, scope), False
            case ast.For():
                return self._for(n, scope), False
            case ast.FunctionDef(body=[*given, ast.Return(value=ast.expr() as value)]):
                names = [x for x in given if isinstance(x, ast.Assign)]
                if len(names) == len(given):
                    parameters = tuple(a.arg for a in n.args.args)
                    scope.names[n.name] = Closure(parameters, value, scope, tuple(names))
                    return "", False
        raise self.refuse(n, scope, f"{type(n).__name__} has no C form")

    def yielded(self, value: ast.expr, scope: Scope) -> str:
        """`yield Action(argument)`."""
        if isinstance(value, ast.IfExp):
            test = self.truth(self.expr(value.test, scope), value, scope)
            a, b = self.yielded(value.body, scope), self.yielded(value.orelse, scope)
            if isinstance(test, Const):
                return a if test.value else b
            return f"if ({test.c}) {{{a}}} else {{{b}}}"
        kind = self.expr(value.func, scope) if isinstance(value, ast.Call) else None
        if not isinstance(kind, Const) or kind.value not in self.codes:
            raise self.refuse(value, scope, "no action")
        assert isinstance(value, ast.Call)
        given = [self.num(self.expr(a, scope), a, scope).c for a in value.args]
        return f"may_happen({self.codes[kind.value]}, {(given or ['0'])[0]});"

    def _return(self, value: ast.expr | None, n: ast.stmt, scope: Scope) -> str:
        frame = self.frames[-1]
        found = Const(None) if value is None else self.expr(value, scope)
        found = self.materialise(found, n, scope)
        if isinstance(found, Bits | Vec | Dic):
            frame.kinds.add(KINDS[type(found)])
            return f"return {found.c};"
        if isinstance(found, Const) and found.value is None:
            frame.kinds.add("none")
            frame.opt = True
            return "return NONE;"
        result = self.num(found, n, scope)
        frame.kinds.add("int")
        frame.opt |= result.opt
        return f"return {result.c};"

    def _branch(self, n: ast.If, scope: Scope) -> tuple[str, bool]:
        test = self.truth(self.expr(n.test, scope), n.test, scope)
        if isinstance(test, Const):
            return self.block(n.body if test.value else n.orelse, scope)
        then, ended = self.block(n.body, scope)
        other, other_ended = self.block(n.orelse, scope)
        text = f"if ({test.c}) {{\n{then}\n}}"
        if n.orelse:
            text += f" else {{\n{other}\n}}"
        return text, ended and other_ended and bool(n.orelse)

    def _assign(self, target: ast.expr, value: Value, n: ast.stmt, scope: Scope) -> str:
        if isinstance(target, ast.Tuple) and isinstance(value, Items):
            pairs = zip(target.elts, value.values, strict=True)
            return "\n".join([self._assign(t, v, n, scope) for t, v in pairs])
        if isinstance(target, ast.Name):
            return self._name_it(target.id, value, n, scope)
        if isinstance(target, ast.Attribute):
            return self._set(self.expr(target.value, scope), target.attr, value, n, scope)
        if isinstance(target, ast.Subscript):
            of = self.expr(target.value, scope)
            if isinstance(of, Map):
                at = target.slice
                keys = at.elts if isinstance(at, ast.Tuple) else [at]
                return self._put(of, [self.expr(k, scope) for k in keys], value, n, scope)
        raise self.refuse(n, scope, "nothing that can be set")

    def _name_it(self, name: str, value: Value, n: ast.stmt, scope: Scope) -> str:
        value = self.materialise(value, n, scope)
        often = scope.stored.get(name, 1) > 1
        if isinstance(value, Const) and often:
            value = self.num(value, n, scope)
        if not isinstance(value, Num | Bits | Vec | Dic):
            scope.names[name] = value
            return ""
        old = scope.names.get(name)
        if often and isinstance(old, Num | Bits | Vec | Dic) and type(old) is type(value):
            c = old.c
        else:
            c = self.declare(name, KINDS[type(value)])
        if isinstance(value, Num):
            opt = value.opt or (often and isinstance(old, Num) and old.opt)
            scope.names[name] = Num(c, opt=opt)
        else:
            scope.names[name] = type(value)(c)
        return f"{c} = {value.c};"

    def _set(self, of: Value, name: str, value: Value, n: ast.stmt, scope: Scope) -> str:
        if isinstance(of, Const) and isinstance(getattr(of.value, name, None), Bits):
            place_ = getattr(of.value, name)
            return f"{place_.c} = {self.as_set(value, n, scope).c};"
        if not isinstance(of, StateRef) or name not in self.fields:
            raise self.refuse(n, scope, "no field")
        f = self.fields[name]
        if not f.is_map:
            value = self.materialise(value, n, scope)
            if f.is_set and isinstance(value, Bits):
                return f"{of.name}.{name} = {value.c};"
            return f"{of.name}.{name} = {self.num(value, n, scope).c};"
        return self._whole(Map(of.name, name), value, n, scope)

    def _whole(self, m: Map, value: Value, n: ast.stmt, scope: Scope) -> str:
        """A map set as a whole."""
        if isinstance(value, Map):
            here, there = f"{m.state}.{m.field}", f"{value.state}.{value.field}"
            return f"memmove({here}, {there}, sizeof {here});"
        if isinstance(value, Over) and value.kind == "heap":
            (changed,) = value.parts
            return self.num(changed, n, scope).c
        if isinstance(value, Over) and value.kind == "blank":
            return f"blank_{m.field}(&{m.state});"
        if isinstance(value, Over) and value.kind == "mapping":

            def entry(pair: Value) -> str:
                if not isinstance(pair, Items) or len(pair.values) != 2:
                    raise self.refuse(n, scope, "a map is made of pairs")
                key, entry = pair.values
                return self._put(Map("scratch", m.field), [key], entry, n, scope)

            text = self.elements(value.parts[0], n, scope, entry, "1")
            here = f"{m.state}.{m.field}"
            return (
                f"blank_{m.field}(&scratch);\n{text}\n"
                f"memcpy({here}, scratch.{m.field}, sizeof {here});"
            )
        raise self.refuse(n, scope, "no map")

    def _put(self, m: Map, keys: list[Value], value: Value, n: ast.stmt, scope: Scope) -> str:
        if len(keys) == 1 and isinstance(keys[0], Items):
            keys = list(keys[0].values)
        self.mark(True)
        at = ", ".join(self.num(k, n, scope).c for k in keys)
        value = self.materialise(value, n, scope)
        text = value.c if isinstance(value, Bits) else self.num(value, n, scope).c
        return f"write_{m.field}(&{m.state}, {at}, {text});"

    def _effect(self, call: ast.Call, scope: Scope) -> str:
        """A call for its effect: a guard, a promise, a rule, a function, a note of a watcher."""
        f = self.expr(call.func, scope)
        word = f.value if isinstance(f, Const) else None
        if word is kernel.require or word is kernel.ensure:
            test = self.truth(self.expr(call.args[0], scope), call, scope)
            fails = "not_enabled" if word is kernel.require else "broken"
            self.mark(True)
            where = quoted(place(scope.file, call))
            return f"if (!{self.num(test, call, scope).c}) {fails}({where});"
        if isinstance(f, Bound) and f.name in ("add", "discard", "clear"):
            return self._note(f, call, scope)
        if isinstance(f, Hook):
            return f"{f.c}();"
        value = self.expr(call, scope)
        if isinstance(value, Num | Bits | Vec | Dic):
            return f"(void){value.c};"
        if isinstance(value, Const):
            return ""
        raise self.refuse(call, scope, "a call without effect")

    def _note(self, f: Bound, call: ast.Call, scope: Scope) -> str:
        """A watcher notes something in one of its sets."""
        if f.name == "clear" and isinstance(f.of, Bits):
            return f"{f.of.c} = 0;"
        if isinstance(f.of, Bits):
            x = self.num(self.expr(call.args[0], scope), call, scope).c
            word = "with" if f.name == "add" else "without"
            return f"{f.of.c} = {word}({f.of.c}, {x});"
        if not isinstance(f.of, Const) or f.of.value != set() or f.name != "add":
            raise self.refuse(call, scope, "no set of a watcher")
        return self._witness(call.args[0], scope)

    def _witness(self, name: ast.expr, scope: Scope) -> str:
        if isinstance(name, ast.IfExp):
            test = self.truth(self.expr(name.test, scope), name, scope)
            a, b = self._witness(name.body, scope), self._witness(name.orelse, scope)
            if isinstance(test, Const):
                return a if test.value else b
            return f"if ({test.c}) {{{a}}} else {{{b}}}"
        known = self.expr(name, scope)
        if not isinstance(known, Const) or known.value not in self.watched:
            raise self.refuse(name, scope, "no witness")
        return f"reached[{self.watched[known.value]}] = 1;"

    def _for(self, n: ast.For, scope: Scope) -> str:
        call = n.iter
        is_loop = (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and scope.globals.get(call.func.id) is kernel.loop
        )
        if n.orelse or any(isinstance(x, ast.Continue) for x in ast.walk(n)):
            raise self.refuse(n, scope, "this loop has no C form")
        if is_loop:
            assert isinstance(call, ast.Call)
            return self._loop(n, call, scope)
        if any(isinstance(x, ast.Break) for x in ast.walk(n)):
            raise self.refuse(n, scope, "this loop has no C form")
        over = self.expr(n.iter, scope)

        def inside(bound: Scope, _: Value) -> str:
            for name, value in bound.names.items():
                scope.names[name] = value
            return self.block(n.body, scope)[0]

        return self.each(over, n.target, scope, inside, "1", n)

    def _loop(self, n: ast.For, call: ast.Call, scope: Scope) -> str:
        """`for _ in loop(…)`, which keeps its invariant and lowers its variant."""
        parts: dict[str, Any] = {k.arg or "": k.value for k in call.keywords}
        self.mark(True)

        def said(which: str) -> Value:
            return self.apply(self.expr(parts[which], scope), [], call, scope)

        def condition(which: str) -> str:
            return self.num(self.truth(said(which), call, scope), call, scope).c

        def variant() -> str:
            return self.known(self.num(said("decreases"), call, scope)).c

        where = quoted(place(scope.file, n))
        kept = f"if (!{condition('keep')}) broken({where});\n" if "keep" in parts else ""
        until = condition("until")
        before, after = self.fresh("before"), ""
        start = variant()
        text, ended = self.block(n.body, scope)
        if not ended:
            after = f"if (!({before} >= 0 && {variant()} < {before})) broken({where});\n"
        return (
            f"for (;;) {{\n{kept}if ({until}) break;\nint {before} = {start};\n"
            f"(void){before};\n{text}\n{after}}}"
        )

    def is_static(self, value: Value) -> bool:
        """Whether a value is known while the text is translated."""
        return isinstance(value, Const | StateRef | Map | Record | Row | Bound | Hook)


def _loaded(target: ast.expr) -> ast.expr:
    """The target of `x += 1`, to be read."""
    copy = ast.parse(ast.unparse(target), mode="eval").body
    for n in ast.walk(copy):
        if hasattr(n, "lineno"):
            n.lineno = target.lineno
    return copy
