"""Calls: inlined where the text is at hand, left as they are where it is no part of the rules."""

import ast
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FunctionType, MethodType
from typing import Any

from nullblock.spec import kernel
from nullblock.spec.erased import text
from nullblock.spec.erased.code import Do, If, Raise
from nullblock.spec.erased.columns import Columns, Table, is_record
from nullblock.spec.erased.evaluator import (
    BUILT_IN,
    FRESHLY_MADE,
    READ_ONLY,
    STATE,
    WORDS,
    Evaluator,
    Frame,
    Known,
)
from nullblock.spec.erased.paths import FRESH, RETURN, Dead
from nullblock.spec.erased.text import Unsupported
from nullblock.spec.erased.values import Value
from nullblock.spec.fields import FIELDS, GHOSTS
from nullblock.spec.kernel import Rule

FUNCTION = " function"
"""The local that has the function whose text is being followed."""


class Calls(Columns):
    """Follows calls."""

    def __init__(self, k: Any, fired: dict[str, str]) -> None:
        super().__init__(k)
        self.fired = fired
        """The counter of each rule, by ID."""
        self.phis: dict[tuple[int, ...], dict[str, str]] = {}
        """What each loop was found to change, and the variable that carries it."""

    # calls -----
    def call(self, node: ast.Call, frame: Frame) -> Any:
        """Inlined where the text is at hand, called as it is where it cannot be inlined."""
        if isinstance(node.func, ast.Attribute):
            if text.is_super(node.func.value):
                return self.overridden(node, frame)
            base = self.evaluate(node.func.value, frame)
            if isinstance(base, Value):
                return self.method(base, node, frame)
            callee = self.attribute(base, node.func.attr)
        else:
            callee = self.evaluate(node.func, frame)
        if not isinstance(callee, Known):
            raise Unsupported(f"line {node.lineno}: calls {ast.unparse(node.func)}")
        f = callee.object
        if f in (kernel.require, kernel.ensure):
            return self.guard(f, node, frame)
        if f not in (tuple, list) and any(isinstance(a, ast.GeneratorExp) for a in node.args):
            raise Unsupported(f"line {node.lineno}: {ast.unparse(node)}")
        args = self.given(node, frame)
        named = {k.arg: self.evaluate(k.value, frame) for k in node.keywords if k.arg}
        if f in WORDS and not named:
            return self.word(WORDS[f], args)
        if f is len and isinstance(args[0], Known):
            return self.values.const(len(args[0].object))
        if isinstance(f, MethodType) and f.__self__ is self.k and self.is_of_groups(f, args):
            first = f.__name__ == "first"
            return self.first_group(args) if first else self.of_each_group(f.__name__, args)
        if isinstance(f, Rule):
            return self.fire(f, args, frame, node)
        if isinstance(f, (ast.Lambda, ast.FunctionDef)):
            return self.applied(callee, args)
        if isinstance(f, (FunctionType, MethodType)):
            return self.function(f, args, named, frame, node)
        if f is bool and len(args) == 1:
            return self.computed(self.values.truth(self.condition(args[0])))
        if f is sum and not named:
            return self.computed(self.values.make("call", "sum({})", *args))
        if is_record(f):
            return self.built(f, args, named)
        if f in (tuple, list) and isinstance(node.args[0], (ast.GeneratorExp, ast.ListComp)):
            return self.of_kind(f, args[0])
        if f in (tuple, list) and isinstance(args[0], Table):
            return args[0]
        name = getattr(f, "__name__", "")
        if not args and name in FRESHLY_MADE:
            self.reads[-1].add("never")
            made = self.computed(self.values.make("call", f"{name}()", next(FRESH)))
            self.path.assume(
                self.values.binary("is", made, self.values.const(None)), False, self.values
            )
            return made
        if name in BUILT_IN and not named or name in ("next", "min", "max"):
            return self.residual(self.outside(name, f), args, named)
        raise Unsupported(f"line {node.lineno}: calls {ast.unparse(node.func)}")

    def is_of_groups(self, f: MethodType, args: list[Any]) -> bool:
        """Whether it is a quantifier over groups."""
        if f.__name__ not in ("forall", "exists", "first", "sum_over"):
            return False
        return args[0] is self.values.const("G")

    def given(self, node: ast.Call, frame: Frame) -> list[Any]:
        """The arguments of a call, `*args` among them."""
        found: list[Any] = []
        for a in node.args:
            if isinstance(a, ast.Starred):
                rest = self.evaluate(a.value, frame)
                if not isinstance(rest, Known) or not isinstance(rest.object, tuple):
                    raise Unsupported(f"line {node.lineno}: {ast.unparse(a)}")
                found += rest.object
            else:
                found.append(self.evaluate(a, frame))
        return found

    def method(self, base: Value, node: ast.Call, frame: Frame) -> Value:
        """A method of a carrier."""
        assert isinstance(node.func, ast.Attribute)
        name = node.func.attr
        if any(isinstance(a, ast.GeneratorExp) for a in node.args):
            raise Unsupported(f"line {node.lineno}: {ast.unparse(node)}")
        args = [self.value(a, frame) for a in node.args]
        if node.keywords:
            raise Unsupported(f"line {node.lineno}: {ast.unparse(node)}")
        if name in READ_ONLY:
            holes = ", ".join("{}" for _ in args)
            form = "{}." + f"{name}({holes})"
            made = self.values.make("call", form, base, *args, self.version(base), total=False)
            return self.computed(made)
        self.reads[-1].add("never")
        atoms = [self.path.atom(a) for a in (base, *args)]
        self.path.block.append(Do("{}." + f"{name}({', '.join('{}' for _ in args)})", (*atoms,)))
        self.changed(base)
        return self.values.const(None)

    def changed(self, *objects: Any) -> None:
        """Carriers that something outside may have changed."""
        roots = {self.path.version(o)[0] for o in objects} or {"@"}
        for root in roots:
            if root.startswith("*"):
                self.path.stored(root[1:], {})
            elif root.startswith("@"):
                self.path.touched[root] = next(FRESH)
            else:
                self.path.touched["@"] = next(FRESH)
                for f in self.path.versions:
                    self.path.stored(f, {})
        self.path.memory = next(FRESH)

    def residual(self, name: str, args: Sequence[Any], named: dict[str, Any]) -> Value:
        """A call that is left in the program, of something that changes nothing."""
        holes = []
        values: list[Value] = []
        for key, a in [*(("", a) for a in args), *named.items()]:
            thing = getattr(a, "object", a)
            if isinstance(a, Value):
                values.append(a)
                holes.append(f"{key}={{}}" if key else "{}")
            elif thing is STATE:
                holes.append("s")
            elif isinstance(thing, FunctionType):
                holes.append(self.outside(thing.__name__, thing))
            else:
                raise Unsupported(f"{name} is given {thing}")
        self.reads[-1].add("memory")
        form = f"{name}({', '.join(holes)})"
        made = self.values.make("call", form, *values, self.path.memory, total=False)
        return self.computed(made)

    def applied(self, callee: Known, args: list[Any]) -> Any:
        """A lambda, or a function inside another."""
        assert callee.locals is not None
        node: ast.Lambda | ast.FunctionDef = callee.object
        outer = self.path.locals
        names = [a.arg for a in node.args.args]
        self.path.locals = {**callee.locals, **dict(zip(names, args, strict=True))}
        frame = callee.locals[""]
        try:
            if isinstance(node, ast.Lambda):
                return self.evaluate(node.body, frame)
            self.path.locals.pop(RETURN, None)
            self.block(text.body(node), replace(frame, breaks=None, then=None))
            return self.path.locals.get(RETURN, self.values.const(None))
        finally:
            self.path.locals = outer

    def function(
        self,
        f: Any,
        args: list[Any],
        named: dict[str, Any],
        frame: Frame,
        node: ast.Call,
    ) -> Any:
        """A function of the text or a method of the environment."""
        if isinstance(f, FunctionType) and text.changes_state(f):
            return self.inlined(f, args, named, frame, node)
        key = _key(f, args, named)
        if key in self.path.memo:
            depended, result = self.path.memo[key]
            if self.at_hand(result) and all(self.path.state(d) == was for d, was in depended):
                self.reads[-1].update(d for d, _ in depended)
                return result
        before = self.path
        self.path = before.copy()
        self.path.sites = before.sites
        self.reads.append(set())
        try:
            result = self.inlined(f, args, named, frame, node)
        except Unsupported:
            self.path = before
            self.reads[-1].add("never")
            return self.outlined(f, args, named)
        except Dead:
            before.block += self.path.block
            self.path = before
            raise
        finally:
            reads = self.reads.pop()
            self.reads[-1] |= reads
        if key is not None and isinstance(result, (Value, Table)) and "never" not in reads:
            self.path.memo[key] = (tuple((d, before.state(d)) for d in sorted(reads)), result)
        block = self.path.block
        before.become(self.path)
        before.block += block
        self.path = before
        return result

    def at_hand(self, result: Value | Table) -> bool:
        """Whether what a reading came to before can still be named."""
        if isinstance(result, Table):
            return all(map(self.path.has, result.columns.values()))
        return self.path.has(result)

    def outlined(self, f: Any, args: list[Any], named: dict[str, Any]) -> Value:
        """A call as it is: what it may look at is written back first, which is anything where it
        is given a reading.
        """
        reads = frozenset(FIELDS)
        if isinstance(f, MethodType):
            if not any(isinstance(a, Known) and isinstance(a.object, FunctionType) for a in args):
                reads = text.reads_of(f.__func__, type(self.k))
            name = self.outside(f"k_{f.__name__}", f)
        else:
            name = self.outside(f.__name__, f)
        self.write_back(reads)
        return self.residual(name, args, named)

    def effect(self, node: ast.Call, frame: Frame) -> None:
        """A call whose value nobody uses."""
        before = len(self.path.block)
        result = self.evaluate(node, frame)
        let = self.path.block[-1] if len(self.path.block) > before else None
        if isinstance(result, Value) and result.op == "call" and let is not None:
            name = self.path.names.pop(result, None)
            if getattr(let, "name", None) == name:
                self.path.block[-1] = Do(let.template, let.atoms)  # type: ignore[union-attr]
                self.changed()

    def fire(self, rule: Rule, args: list[Any], frame: Frame, node: ast.Call) -> Value:
        """A rule: its text, and one more in its count."""
        inner = Frame(
            rule.body.__globals__,
            f"{rule.id} {rule.name}",
            (*frame.place, id(node)),
        )
        outer, self.rule = self.rule, rule.id
        try:
            self.run(rule.body, args, {}, inner)
        finally:
            self.rule = outer
        counter = self.fired.setdefault(rule.id, f"c{len(self.fired)}")
        self.path.block.append(Do(f"{counter} += 1", (), ""))
        return self.values.const(None)

    def inlined(
        self, f: Any, args: list[Any], named: dict[str, Any], frame: Frame, node: ast.Call
    ) -> Any:
        """The text of a function in place of its call."""
        again = (f, args, named)
        if isinstance(f, MethodType):
            f, args = f.__func__, [Known(f.__self__), *args]
        if len(frame.place) > 60:
            raise Unsupported(f"{f.__name__} calls itself")
        place = (*frame.place, id(node))
        return self.run(f, args, named, Frame(f.__globals__, frame.rule, place, None, again))

    def overridden(self, node: ast.Call, frame: Frame) -> Any:
        """A method that the one being inlined overrides: its text as well. Where that cannot be
        inlined, or raises, the method that calls it is called as it is.
        """
        assert isinstance(node.func, ast.Attribute)
        name, f = node.func.attr, self.path.locals[FUNCTION].object
        classes = iter(type(self.k).__mro__)
        if not any(vars(one).get(f.__name__) is f for one in classes):
            raise Unsupported(f"line {node.lineno}: {ast.unparse(node)}")
        behind = next(vars(one)[name] for one in classes if name in vars(one))
        args = [Known(self.k), *self.given(node, frame)]
        named = {k.arg: self.evaluate(k.value, frame) for k in node.keywords if k.arg}
        place = (*frame.place, id(node))
        inner = Frame(behind.__globals__, frame.rule, place, None, frame.again)
        return self.run(behind, args, named, inner)

    def run(
        self, f: Callable[..., Any], args: list[Any], named: dict[str, Any], inner: Frame
    ) -> Any:
        """Follow a function to its end; what it returns."""
        d = text.definition(f)
        outer, self.path.locals = self.path.locals, bound(f, d, args, named, self)
        self.path.locals[FUNCTION] = Known(f)
        try:
            self.block(text.body(d), inner)
            return self.path.locals.get(RETURN, self.values.const(None))
        finally:
            self.path.locals = outer

    def block(self, statements: Sequence[ast.stmt], frame: Frame) -> bool:
        """Follow statements; `nullblock.spec.erased.walker` does."""
        raise NotImplementedError

    # guards -----
    def guard(self, f: Any, node: ast.Call, frame: Frame) -> Value:
        """A guard or promise: nothing where it is known to hold, else a test."""
        c = self.condition(self.value(node.args[0], frame))
        none = self.values.const(None)
        if c.constant and c.args[0]:
            return none
        why = self.value(node.args[1], frame).args[0]
        start = self.path
        word = "disabled" if f is kernel.require else "broken"
        failed = self.raised(f"raise {word}({frame.rule!r}, {_literal(why)})")
        if c.constant:
            start.block.append(failed)
            raise Dead
        test = self.negated(c)
        start.block.append(If(start.atom(test), [failed], [], self.rule))
        start.assume(c, True, self.values)
        return none

    def write_back(self, fields: frozenset[str]) -> None:
        """Put into the state object what it does not hold yet."""
        path = self.path
        for f in sorted(fields - GHOSTS):
            value = path.fields[f]
            if path.saved[f] is not value and path.has(value):
                path.block.append(Do(f"s.{f} = {{}}", (path.atom(value),), ""))
                path.saved[f] = value

    def raised(self, error: str) -> Raise:
        """An error, before which all is put into the state object that it does not hold yet."""
        path = self.path
        late = {f: v for f, v in path.fields.items() if path.saved[f] is not v and path.has(v)}
        kept = sorted(late.keys() - GHOSTS)
        template = "; ".join([*(f"s.{f} = {{}}" for f in kept), error])
        return Raise(template, tuple(path.atom(late[f]) for f in kept))


def _key(f: Any, args: list[Any], named: dict[str, Any]) -> Any:
    """What tells one use of a reading from another; None where that is not simple."""
    if named or any(isinstance(a, Known) and a.locals is not None for a in args):
        return None
    given = (a.object if isinstance(a, Known) else a for a in args)
    return (getattr(f, "__func__", f), *map(id, given))


def _literal(why: str) -> str:
    return repr(why).replace("{", "{{").replace("}", "}}")


def bound(
    f: Any, d: ast.FunctionDef, args: list[Any], named: dict[str, Any], walker: Evaluator
) -> dict[str, Any]:
    """Parameters and what they are given."""
    if d.args.kwarg or d.args.kwonlyargs:
        raise Unsupported(f"{d.name} takes arguments by name alone")
    names = [a.arg for a in d.args.args]
    given = dict(zip(names, args, strict=False)) | named
    if d.args.vararg:
        given[d.args.vararg.arg] = Known(tuple(args[len(names) :]))
    defaults = f.__defaults__ or ()
    for name, value in zip(names[len(names) - len(defaults) :], defaults, strict=True):
        given.setdefault(name, walker.values.const(value))
    return given
