"""Comprehensions over the state, a list for each field of the records that they make."""

import ast
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from nullblock.spec.erased.code import Do, If, Let, Loop, Set, Statement
from nullblock.spec.erased.evaluator import Evaluator, Frame, Known
from nullblock.spec.erased.paths import FRESH
from nullblock.spec.erased.rows import Rows, pair
from nullblock.spec.erased.text import Unsupported
from nullblock.spec.erased.values import Value


@dataclass(frozen=True, slots=True)
class Record:
    """One record: what makes it, and its parts by name."""

    make: Any
    parts: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """Records of one kind, by column."""

    make: Any
    columns: dict[str, Value]


@dataclass(frozen=True, slots=True)
class Span:
    """`range(first, end)`."""

    first: Value
    end: Value


class Columns(Evaluator):
    """Comprehensions, and the records in them."""

    def built(self, make: type, args: list[Any], named: dict[str, Any]) -> Record:
        """A dataclass that is constructed."""
        names = [f.name for f in fields(make)]
        parts = dict(zip(names, args, strict=False)) | named
        if set(parts) != set(names):
            raise Unsupported(f"{make.__name__} with defaults")
        return Record(make, {name: parts[name] for name in names})

    def comprehension(self, node: ast.GeneratorExp | ast.ListComp, frame: Frame) -> Any:
        """A list, or a table where each member is a record or a tuple."""
        if len(node.generators) != 1:
            raise Unsupported(f"line {node.lineno}: {ast.unparse(node)}")
        [generator] = node.generators
        over = self.iterated(generator.iter, frame)
        before = self.path
        self.path = before.copy()
        loop, sources = self.header(generator.target, over)
        loop.body = self.path.block
        for test in generator.ifs:
            c = self.computed(self.condition(self.value(test, frame)))
            branch = If(self.path.atom(c), [])
            self.path.block.append(branch)
            self.path.block = branch.body
            self.path.assume(c, True, self.values)
        made = self.element(node.elt, frame)
        lists: dict[str, Value] = {}
        known: dict[str, Value] = {}
        for name, part in made.parts.items() if isinstance(made, Record) else [("", made)]:
            if not isinstance(part, Value):
                raise Unsupported(f"line {node.lineno}: {ast.unparse(node.elt)}")
            if part in sources and not generator.ifs:
                known[name] = sources[part]
                continue
            known[name] = lists[name] = self.values.var(f"list_{next(FRESH)}")
            atoms = (self.path.atom(lists[name]), self.path.atom(part))
            self.path.block.append(Do("{}.append({})", atoms, False))
        self.path = before
        if lists:
            self.emitted(lists, over, loop)
        if isinstance(made, Record):
            return Table(made.make, {name: known[name] for name in made.parts})
        return known[""]

    def element(self, node: ast.expr, frame: Frame) -> Any:
        """A member: a record, a tuple or a value."""
        if isinstance(node, ast.Tuple):
            parts = (self.value(e, frame) for e in node.elts)
            return Record(pair, {str(i): part for i, part in enumerate(parts)})
        return self.evaluate(node, frame)

    def emitted(self, lists: dict[str, Value], over: Any, loop: Loop) -> None:
        """The loop, and what comes before it; an empty span costs a comparison."""
        names = [str(v.args[0]) for v in lists.values()]
        if not isinstance(over, Span) or len(names) > 1:
            self.path.block += [Set([(name, "[]") for name in names]), loop]
            return
        less = self.computed(self.values.binary("<", over.first, over.end))
        [name] = names
        self.path.block.append(Set([(name, "()")]))
        filled = Let(f"t{next(FRESH)}_", "tuple({})", (name,), True, True)
        body: list[Statement] = [Set([(name, "[]")]), loop, filled, Set([(name, filled.name)])]
        self.path.block.append(If(self.path.atom(less), body))

    def iterated(self, node: ast.expr, frame: Frame) -> Any:
        """What a comprehension runs over: a span, a table, a list."""
        if isinstance(node, ast.Call) and self.evaluate(node.func, frame) == Known(range):
            bounds = [self.value(a, frame) for a in node.args]
            if len(bounds) > 2:
                raise Unsupported(f"line {node.lineno}: {ast.unparse(node)}")
            return Span(bounds[0] if len(bounds) == 2 else self.values.const(0), bounds[-1])
        over = self.evaluate(node, frame)
        if isinstance(over, (Table, Value)):
            return over
        raise Unsupported(f"line {node.lineno}: {ast.unparse(node)}")

    def header(self, target: ast.expr, over: Any) -> tuple[Loop, dict[Value, Value]]:
        """`for … in …` with its names bound on the path, and the list that each name runs over."""
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        given: list[Value | None]
        match over:
            case Span():
                given = [None]
            case Table() if isinstance(target, ast.Tuple):
                given = list(over.columns.values())
            case Value() if not isinstance(target, ast.Tuple):
                given = [over]
            case _:
                given = []
        if len(given) != len(targets) or not all(isinstance(n, ast.Name) for n in targets):
            raise Unsupported(f"line {target.lineno}: {ast.unparse(target)}")
        sources: dict[Value, Value] = {}
        names, atoms = [], []
        for n, column in zip(targets, given, strict=True):
            assert isinstance(n, ast.Name)
            if n.id == "_" and len(targets) > 1:
                continue
            name = f"{n.id}_{next(FRESH)}"
            names.append(name)
            variable = self.path.locals[n.id] = self.values.var(name)
            if column is not None:
                sources[variable] = column
                atoms.append(self.path.atom(column))
        text = "{}" if len(atoms) == 1 else f"zip({', '.join('{}' for _ in atoms)})"
        if isinstance(over, Span):
            text = "range({}, {})"
            atoms = [self.path.atom(over.first), self.path.atom(over.end)]
        return Loop([], ", ".join(names), text, tuple(atoms)), sources

    def written_out(self, value: Any) -> tuple[str, list[str]]:
        """A result: a value, or a record of values and tables. Template and atoms."""
        if isinstance(value, Value):
            return "{}", [self.path.atom(self.computed(value))]
        if isinstance(value, Table):
            make = self.outside(value.make.__name__, value.make)
            rows = self.outside("Rows", Rows)
            holes = ", ".join("{}" for _ in value.columns)
            atoms = [self.path.atom(v) for v in value.columns.values()]
            return f"{rows}({make}, {tuple(value.columns)!r}, {holes})", atoms
        if isinstance(value, Record):
            make = self.outside(value.make.__name__, value.make)
            parts = [self.written_out(part) for part in value.parts.values()]
            holes = ", ".join(text for text, _ in parts)
            return f"{make}({holes})", [atom for _, atoms in parts for atom in atoms]
        raise Unsupported(f"a result {value}")


def is_record(thing: Any) -> bool:
    """Whether calling it makes a record."""
    return isinstance(thing, type) and is_dataclass(thing)
