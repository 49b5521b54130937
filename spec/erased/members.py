"""What is known member by member: the constants of each group, and the tables of a request."""

import ast
from typing import Any

from nullblock.spec.erased.code import LASTING, If
from nullblock.spec.erased.evaluator import Evaluator, Frame, Known
from nullblock.spec.erased.paths import Dead, Path
from nullblock.spec.erased.text import Unsupported
from nullblock.spec.erased.values import PLAIN, Value
from nullblock.spec.facts import Group
from nullblock.spec.grouped import Grouped

ANSWER = " answer"
"""The local in which a quantifier leaves its answer."""


class Members(Evaluator):
    """Lists of one member for each group, and quantifiers over groups, of which there are few."""

    def __init__(self, k: Any) -> None:
        super().__init__(k)
        made = vars(Grouped(k.config)).items()
        self.of_groups = {name: x for name, x in made if isinstance(x, (list, tuple))}
        self.numbers = tuple(map(self.values.const, range(len(k.config.groups))))
        """Those of the groups."""

    def attribute(self, base: Any, name: str) -> Any:
        """Of the environment a list, of a group a constant; anything else as it is."""
        if isinstance(base, Value):
            return super().attribute(base, name)
        if base.object is self.k and name in self.of_groups:
            return Known(self.of_groups[name])
        if isinstance(base.object, Group):
            return self.values.const(getattr(base.object, name))
        return super().attribute(base, name)

    def subscript(self, node: ast.Subscript, frame: Frame) -> Any:
        """A member of such a list, or a part of the tables of a request."""
        base = self.evaluate(node.value, frame)
        if isinstance(base, Value) and base.op == "tuple" and isinstance(node.slice, ast.Slice):
            bounds = (node.slice.lower, node.slice.upper, node.slice.step)
            part = slice(*(None if b is None else self.constant(b, frame) for b in bounds))
            return self.computed(self.values.make("tuple", *base.args[part]))
        if base is self.values.var("k_records"):
            return self.record(self.value(node.slice, frame))
        if isinstance(base, Value):
            return super().subscript(node, frame)
        if not isinstance(base.object, (list, tuple)):
            raise Unsupported(f"line {node.lineno}: {ast.unparse(node)}")
        key = self.value(node.slice, frame)
        if key.constant:
            member = base.object[key.args[0]]
            return self.values.const(member) if isinstance(member, PLAIN) else Known(member)
        name = next(n for n, x in self.of_groups.items() if x is base.object)
        self.loaded[f"k_{name}"] = f"k.{name}"
        listed = self.values.var(f"k_{name}")
        return self.computed(self.values.make("item", listed, key, LASTING, total=False))

    def record(self, key: Value) -> Value:
        """The object that has the slots of a request; that of a table is known by its group."""
        if key.op == "tuple":
            r, g = key.args
            of_request = self.values.make("attr", self.record(r), "tables", LASTING)
            tables = self.computed(of_request)
            return self.computed(self.values.make("item", tables, g, LASTING))
        self.loaded["k_records"] = "k.records"
        records = self.values.var("k_records")
        return self.computed(self.values.make("item", records, key, LASTING))

    def blocks(self, key: Value) -> tuple[Value, Value]:
        """What a table has at its places, and the place that a key names."""
        if key.op != "tuple":
            raise Unsupported(f"{key} names no place")
        t, i = key.args
        made = self.values.make("attr", self.record(t), "blocks", LASTING)
        return self.computed(made), i

    def constant(self, node: ast.expr, frame: Frame) -> Any:
        """What an expression is known to be. Raises Unsupported."""
        found = self.value(node, frame)
        if not found.constant:
            raise Unsupported(f"line {node.lineno}: {ast.unparse(node)} is not known")
        return found.args[0]

    def spelled_out(
        self, node: ast.GeneratorExp | ast.ListComp, members: tuple[Value, ...], frame: Frame
    ) -> Value:
        """A comprehension over members that are known: a tuple."""
        [generator] = node.generators
        if generator.ifs or not isinstance(generator.target, ast.Name):
            raise Unsupported(f"line {node.lineno}: {ast.unparse(node)}")
        outer, parts = self.path.locals, []
        for member in members:
            self.path.locals = {**outer, generator.target.id: member}
            parts.append(self.value(node.elt, frame))
        self.path.locals = outer
        return self.computed(self.values.make("tuple", *parts))

    def of_each_group(self, name: str, args: list[Any]) -> Value:
        """`forall`, `exists` or `sum_over` groups, one after the other as the environment does it.
        Raises Unsupported, where a reading of a group raises something too.
        """
        if name != "sum_over":
            try:
                return self.while_undecided(args[1], 0, name == "forall")
            except Dead:
                raise Unsupported(f"{name} of groups raises") from None
        found = self.values.const(0)
        for number in self.numbers:
            part = self.applied(args[1], [number])
            found = self.computed(self.values.binary("+", found, part))
        return found

    def while_undecided(self, test: Known, g: int, all_: bool) -> Value:
        """Whether a reading holds for all groups from g on, or for one of them: the next is asked
        only on the path on which the answer is not known.
        """
        if g == len(self.numbers):
            return self.values.const(all_)
        c = self.condition(self.applied(test, [self.numbers[g]]))
        if c.constant and c.args[0] == all_:
            return self.while_undecided(test, g + 1, all_)
        if c.constant:
            return self.values.const(not all_)
        start, ends = self.path, []
        node = If(start.atom(self.computed(c)), [], [], self.rule)
        for true in (True, False):
            self.path = path = start.copy()
            path.block = node.body if true else node.orelse
            path.assume(c, true, self.values)
            undecided = true == all_
            path.locals[ANSWER] = (
                self.while_undecided(test, g + 1, all_) if undecided else self.values.const(true)
            )
            ends.append(self.path)
        start.block.append(node)
        self.onward(start, ends)
        answer: Value = self.path.locals.pop(ANSWER)
        return answer

    def first_group(self, args: list[Any]) -> Value:
        """The number of the first group for which something holds; None where it holds for none.
        Raises Unsupported, where they are asked in another order than that of their numbers too.
        """
        parts = []
        for number in self.numbers:
            start = len(self.path.block)
            if self.applied(args[2], [number]) is not number:
                raise Unsupported("groups in another order")
            parts.append((self.condition(self.applied(args[1], [number])), number))
            if number is not self.numbers[0]:
                self.harmless(start, args[1].object)
        found = self.values.const(None)
        for holds, number in reversed(parts):
            found = self.computed(self.values.ite(holds, number, found))
        return found

    def applied(self, callee: Known, args: list[Any]) -> Any:
        """A lambda; `calls` applies it."""
        raise NotImplementedError

    def onward(self, start: Path, ends: list[Path]) -> None:
        """Go on with what paths have in common; `walker` does."""
        raise NotImplementedError
