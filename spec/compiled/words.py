"""Words: those of the kernel, Python's own, and what is asked of the environment."""

import ast
import builtins
from collections.abc import Callable

from nullblock.spec import kernel
from nullblock.spec.compiled.expressions import Expressions
from nullblock.spec.compiled.groups import Groups
from nullblock.spec.compiled.heaps import Heaps
from nullblock.spec.compiled.loops import Loops
from nullblock.spec.compiled.tables import TABLED
from nullblock.spec.compiled.values import (
    NONE,
    Bits,
    Bound,
    Const,
    Done,
    Items,
    Map,
    Num,
    Over,
    Row,
    Scope,
    Value,
)

Word = Callable[[ast.Call, Scope], Value]
QUANTIFIED = {
    "R": (0, "NR"),
    "T": (0, "NT"),
    "G": (0, "NG"),
    "B": (1, "NB + 1"),
    "I": (0, "NQ"),
}
"""The members that quantifiers run over, by sort."""


class Words(Groups, Heaps, Expressions, Loops):
    """Calls with a meaning of their own."""

    def word(self, name: str, node: ast.Call, scope: Scope) -> Value | None:
        if not isinstance(node.func, ast.Name):
            return None
        f = scope.names.get(name) or scope.globals.get(name, getattr(builtins, name, None))
        of_kernel = getattr(kernel, name, None) is f and hasattr(self, f"_k_{name}")
        of_python = getattr(builtins, name, None) is f and hasattr(self, f"_p_{name}")
        if not (of_kernel or of_python):
            return None
        handler: Word = getattr(self, f"_k_{name}" if of_kernel else f"_p_{name}")
        return handler(node, scope)

    def _values(self, node: ast.Call, scope: Scope) -> list[Value]:
        return [self.expr(a, scope) for a in node.args]

    def _conditions(self, node: ast.Call, scope: Scope) -> list[Num | Const]:
        return [self.truth(v, node, scope) for v in self._values(node, scope)]

    def _joined(self, parts: list[Num | Const], stop: bool) -> Value:
        """Conjunction (stop False) or disjunction; every part is evaluated, as in Python, if it
        may fail.
        """
        stopped = any(isinstance(p, Const) and bool(p.value) is stop for p in parts)
        nums = [p for p in parts if isinstance(p, Num)]
        fails = any(p.fails for p in nums)
        if stopped and not fails:
            return Const(stop)
        if not nums:
            return Const(not stop)
        if stopped:
            nums.append(Num(str(int(stop))))
        if any(p.fails for p in nums[1:]):
            sign = " | " if stop else " & "
            return Num(f"({sign.join(f'!!{p.c}' for p in nums)})", fails=True)
        sign = " || " if stop else " && "
        return Num(f"({sign.join(p.c for p in nums)})", fails=fails)

    def _k_both(self, node: ast.Call, scope: Scope) -> Value:
        return self._joined(self._conditions(node, scope), False)

    def _k_either(self, node: ast.Call, scope: Scope) -> Value:
        return self._joined(self._conditions(node, scope), True)

    def _k_neg(self, node: ast.Call, scope: Scope) -> Value:
        return self._not(self._conditions(node, scope)[0])

    def _not(self, t: Num | Const) -> Num | Const:
        return Const(not t.value) if isinstance(t, Const) else Num(f"(!{t.c})", fails=t.fails)

    def _k_implies(self, node: ast.Call, scope: Scope) -> Value:
        a, b = self._conditions(node, scope)
        return self._joined([self._not(a), b], True)

    def _k_ite(self, node: ast.Call, scope: Scope) -> Value:
        c, a, b = self._values(node, scope)
        return self._pick(self.truth(c, node, scope), a, b, node, scope)

    def _pick(self, test: Num | Const, a: Value, b: Value, node: ast.AST, scope: Scope) -> Value:
        if isinstance(test, Const):
            return a if test.value else b
        found = self.choose(test, a, b, node, scope)
        x, y = (v for v in (a, b))
        if isinstance(found, Num) and any(getattr(v, "fails", False) for v in (x, y)):
            u, w = self.num(x, node, scope), self.num(y, node, scope)
            m, n = self.fresh("a"), self.fresh("b")
            text = f"({{int {m} = {u.c}, {n} = {w.c}; {test.c} ? {m} : {n};}})"
            return Num(text, found.opt, True)
        return found

    def _k_least(self, node: ast.Call, scope: Scope) -> Value:
        a, b = self._values(node, scope)
        if isinstance(a, Const) and isinstance(b, Const):
            return Const(min(a.value, b.value))
        x, y = (self.known(self.num(v, node, scope)) for v in (a, b))
        return Num(f"smaller({x.c}, {y.c})", fails=x.fails or y.fails)

    # Python's own -----
    def _p_all(self, node: ast.Call, scope: Scope) -> Value:
        return self.decided(self._values(node, scope)[0], node, scope, 1)

    def _p_any(self, node: ast.Call, scope: Scope) -> Value:
        return self.decided(self._values(node, scope)[0], node, scope, 0)

    def _p_sum(self, node: ast.Call, scope: Scope) -> Value:
        return self.total(self._values(node, scope)[0], node, scope)

    def _p_len(self, node: ast.Call, scope: Scope) -> Value:
        value = self._values(node, scope)[0]
        if isinstance(value, Const):
            return Const(len(value.value))
        if isinstance(value, Row):
            return self.fact(Row(tuple(map(len, value.rows)), value.at))
        return self.size(value, node, scope)

    def _p_min(self, node: ast.Call, scope: Scope) -> Value:
        return self._extreme(node, scope, "<")

    def _p_max(self, node: ast.Call, scope: Scope) -> Value:
        return self._extreme(node, scope, ">")

    def _extreme(self, node: ast.Call, scope: Scope, sign: str) -> Value:
        values = self._values(node, scope)
        more = {k.arg: self.expr(k.value, scope) for k in node.keywords}
        over = values[0] if len(values) == 1 else Items(tuple(values))
        return self.extreme(over, sign, more.get("key"), more.get("default"), node, scope)

    def _p_set(self, node: ast.Call, scope: Scope) -> Value:
        return self.as_set(self._values(node, scope)[0], node, scope) if node.args else Bits("0")

    _p_frozenset = _p_set

    def _p_list(self, node: ast.Call, scope: Scope) -> Value:
        return self.as_sequence(self._values(node, scope)[0], node, scope)

    _p_tuple = _p_list

    def _p_sorted(self, node: ast.Call, scope: Scope) -> Value:
        """Only of what is gone over in order already."""
        value = self._values(node, scope)[0]
        if node.keywords or not isinstance(value, Map | Bits):
            raise self.refuse(node, scope, "sorted() of this has no C form")
        return value

    def _p_bool(self, node: ast.Call, scope: Scope) -> Value:
        t = self._conditions(node, scope)[0]
        return t if isinstance(t, Const) else Num(f"(!!{t.c})", fails=t.fails)

    def _p_int(self, node: ast.Call, scope: Scope) -> Value:
        return self.known(self.num(self._values(node, scope)[0], node, scope))

    def _p_range(self, node: ast.Call, scope: Scope) -> Value:
        ends = [self.known(self.num(v, node, scope)) for v in self._values(node, scope)]
        return Over("range", tuple(ends if len(ends) == 2 else [Num("0"), *ends]))

    def _p_map(self, node: ast.Call, scope: Scope) -> Value:
        return Over("map", tuple(self._values(node, scope)))

    def _p_type(self, node: ast.Call, scope: Scope) -> Value:
        return Bound(self._values(node, scope)[0], "__class__")

    def _p_isinstance(self, node: ast.Call, scope: Scope) -> Value:
        value, kinds = self._values(node, scope)
        classes = kinds.value if isinstance(kinds, Const) else None
        if isinstance(kinds, Items):
            classes = tuple(k.value for k in kinds.values if isinstance(k, Const))
        classes = classes if isinstance(classes, tuple) else (classes,)
        if not isinstance(value, Done) or not all(c in self.codes for c in classes):
            raise self.refuse(node, scope, "isinstance() is for actions")
        return Num(f"({' || '.join(f'done_kind == {self.codes[c]}' for c in classes)})")

    # the environment -----
    def ask(self, name: str, node: ast.Call, scope: Scope) -> Value:
        handler = getattr(self, f"_e_{name}", None)
        if handler is not None:
            return handler(node, scope)  # type: ignore[no-any-return]
        if name in TABLED:
            return self.tabled(name, node, scope)
        f = getattr(type(self.env), name, None)
        if f is None:
            raise self.refuse(node, scope, "the environment has no such word")
        return self.call(f, [Const(self.env), *self._values(node, scope)], node, scope)

    def _e_forall(self, node: ast.Call, scope: Scope) -> Value:
        sorts, test = self._values(node, scope)[:2]
        assert isinstance(sorts, Const)
        spans = [k.value for k in node.keywords if k.arg == "span"] + node.args[2:]
        if spans:
            return self._spanned(sorts.value, test, self.expr(spans[0], scope), node, scope)
        before = self.enter()
        ok = self.fresh("ok")
        names = [(self.fresh(sort.lower()), sort) for sort in sorts.value]
        held = self.apply(test, [Num(n) for n, _ in names], node, scope)
        t = self.truth(held, node, scope)
        if isinstance(t, Const) and t.value:
            self.leave(before)
            return Const(True)
        text = f"{ok} = !!{self.num(t, node, scope).c};"
        for n, sort in reversed(names):
            text = self.over(sort, n, ok, text)
        return Num(f"({{int {ok} = 1; {text} {ok};}})", fails=self.leave(before))

    def _spanned(
        self, sorts: str, test: Value, span: Value, node: ast.Call, scope: Scope
    ) -> Value:
        """`forall` in which the integers run over a range that depends on the members before."""
        before = self.enter()
        ok = self.fresh("ok")
        named = [(self.fresh(sort.lower()), sort) for sort in sorts.rstrip("I")]
        integers = [self.fresh("i") for _ in sorts[len(named) :]]
        members: list[Value] = [Num(n) for n, _ in named]
        bounds = self.apply(span, members, node, scope)
        if not isinstance(bounds, Items) or len(bounds.values) != 2:
            raise self.refuse(node, scope, "a span is two bounds")
        low, high = (self.known(self.num(v, node, scope)).c for v in bounds.values)
        first, end = self.fresh("first"), self.fresh("end")
        held = self.apply(test, [*members, *map(Num, integers)], node, scope)
        text = f"{ok} = {self._condition(held, node, scope)};"
        for i in reversed(integers):
            text = f"for (int {i} = {first}; ({ok}) && {i} < {end}; {i}++) {{{text}}}"
        text = f"int {first} = {low}, {end} = {high}; {text}"
        for n, sort in reversed(named):
            text = self.over(sort, n, ok, text)
        return Num(f"({{int {ok} = 1; {text} {ok};}})", fails=self.leave(before))

    def over(self, sort: str, name: str, go: str, text: str) -> str:
        """C that goes over a quantifier's domain."""
        low, high = QUANTIFIED[sort]
        return f"for (int {name} = {low}; ({go}) && {name} < {high}; {name}++) {{{text}}}"

    def _quantified(self, node: ast.Call, scope: Scope) -> tuple[str, str, list[Value], str, Num]:
        sort, *rest = self._values(node, scope)
        assert isinstance(sort, Const)
        name = self.fresh(sort.value.lower())
        test = rest[-1] if len(rest) == 1 else rest[-2]
        held = self.apply(test, [Num(name)], node, scope)
        t = self.truth(held, node, scope)
        return sort.value, name, rest, self.num(t, node, scope).c, Num(name)

    def _e_exists(self, node: ast.Call, scope: Scope) -> Value:
        before = self.enter()
        sort, name, _, held, _ = self._quantified(node, scope)
        ok = self.fresh("found")
        text = self.over(sort, name, f"!{ok}", f"{ok} = !!{held};")
        return Num(f"({{int {ok} = 0; {text} {ok};}})", fails=self.leave(before))

    def _e_count(self, node: ast.Call, scope: Scope) -> Value:
        before = self.enter()
        sort, name, _, held, _ = self._quantified(node, scope)
        n = self.fresh("n")
        text = self.over(sort, name, "1", f"{n} += !!{held};")
        return Num(f"({{int {n} = 0; {text} {n};}})", fails=self.leave(before))

    def _e_sum_over(self, node: ast.Call, scope: Scope) -> Value:
        before = self.enter()
        sort, of = self._values(node, scope)
        assert isinstance(sort, Const)
        name, n = self.fresh(sort.value.lower()), self.fresh("n")
        one = self.known(self.num(self.apply(of, [Num(name)], node, scope), node, scope))
        text = self.over(sort.value, name, "1", f"{n} += {one.c};")
        return Num(f"({{int {n} = 0; {text} {n};}})", fails=self.leave(before))

    def _e_variety(self, node: ast.Call, scope: Scope) -> Value:
        before = self.enter()
        sort, name, rest, held, member = self._quantified(node, scope)
        key = self.known(self.num(self.apply(rest[1], [member], node, scope), node, scope))
        seen = self.fresh("seen")
        text = self.over(sort, name, "1", f"if ({held}) {seen} = with({seen}, {key.c});")
        found = f"({{bits {seen} = 0; {text} count({seen});}})"
        self.leave(before)
        return Num(found, fails=self.mark(True))

    def _e_first(self, node: ast.Call, scope: Scope) -> Value:
        before = self.enter()
        sort, name, rest, held, member = self._quantified(node, scope)
        key = self.known(self.num(self.apply(rest[1], [member], node, scope), node, scope))
        best, least, it = self.fresh("best"), self.fresh("least"), self.fresh("it")
        text = (
            f"if ({held}) {{int {it} = {key.c}; if ({best} == {NONE} || {it} < {least}) "
            f"{{{best} = {name}; {least} = {it};}}}}"
        )
        loops = self.over(sort, name, "1", text)
        return Num(
            f"({{int {best} = {NONE}, {least} = 0; {loops} {best};}})",
            opt=True,
            fails=self.leave(before),
        )

    def _e_is_first(self, node: ast.Call, scope: Scope) -> Value:
        before = self.enter()
        sort, x, test, key = self._values(node, scope)[:4]
        assert isinstance(sort, Const)
        given = self.num(x, node, scope)
        it, ok, y, mine = (self.fresh(n) for n in ("x", "ok", "y", "mine"))

        def held(n: Num) -> str:
            t = self.truth(self.apply(test, [n], node, scope), node, scope)
            return self.num(t, node, scope).c

        def place(n: Num) -> str:
            return self.known(self.num(self.apply(key, [n], node, scope), node, scope)).c

        text = f"if ({held(Num(y))}) {ok} = {mine} <= {place(Num(y))};"
        loops = self.over(sort.value, y, ok, text)
        asked = Num(it, opt=given.opt)
        return Num(
            f"({{int {it} = {given.c}; int {ok} = !!{held(asked)}; "
            f"if ({ok}) {{int {mine} = {place(asked)}; {loops}}} {ok};}})",
            fails=self.leave(before),
        )

    def _set_and_member(self, node: ast.Call, scope: Scope) -> tuple[Bits, Num]:
        S, x = self._values(node, scope)
        S = self.materialise(S, node, scope)
        if not isinstance(S, Bits):
            raise self.refuse(node, scope, "no set")
        return S, self.num(x, node, scope)

    def _e_mem(self, node: ast.Call, scope: Scope) -> Value:
        S, x = self._set_and_member(node, scope)
        return Num(f"has({S.c}, {x.c})", fails=S.fails or x.fails)

    def _e_add(self, node: ast.Call, scope: Scope) -> Value:
        S, x = self._set_and_member(node, scope)
        return Bits(f"with({S.c}, {x.c})", self.mark(True))

    def _e_remove(self, node: ast.Call, scope: Scope) -> Value:
        S, x = self._set_and_member(node, scope)
        return Bits(f"without({S.c}, {x.c})", S.fails or x.fails)

    def _e_copied(self, node: ast.Call, scope: Scope) -> Value:
        return self._values(node, scope)[0]

    def _e_card(self, node: ast.Call, scope: Scope) -> Value:
        return self.size(self._values(node, scope)[0], node, scope)

    def _e_some(self, node: ast.Call, scope: Scope) -> Value:
        S = self._values(node, scope)[0]
        return self.extreme(S, "<", None, Const(None), node, scope)

    def _e_empty(self, node: ast.Call, scope: Scope) -> Value:
        return Bits("0")

    def _e_fill(self, node: ast.Call, scope: Scope) -> Value:
        m, *given = self._values(node, scope)
        return self._filled(m, [], given, node, scope)

    def _e_fill_row(self, node: ast.Call, scope: Scope) -> Value:
        m, row, *given = self._values(node, scope)
        return self._filled(m, [self.num(row, node, scope).c], given, node, scope)

    def _filled(
        self, m: Value, row: list[str], given: list[Value], node: ast.Call, scope: Scope
    ) -> Value:
        if not isinstance(m, Map):
            raise self.refuse(node, scope, "no map")
        low, high, x = (self.known(self.num(v, node, scope)).c for v in given)
        i, end = self.fresh("i"), self.fresh("end")
        self.mark(True)
        write = f"write_{m.field}(&{m.state}, {', '.join([*row, i])}, {x})"
        head = f"for (int {i} = {low}, {end} = {high}; {i} < {end}; {i}++)"
        return Num(f"({{{head} {write}; 0;}})", fails=True)

    def _e_blank(self, node: ast.Call, scope: Scope) -> Value:
        return Over("blank", tuple(self._values(node, scope)))
