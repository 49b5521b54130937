"""Comprehensions over the state, a list for each field of the records that they make."""

import ast
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from nullblock.spec.erased.code import ANYTHING, Append, If, Let, Loop, Set, Statement
from nullblock.spec.erased.evaluator import Frame, Known
from nullblock.spec.erased.members import Members
from nullblock.spec.erased.paths import FRESH, Path
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


@dataclass(frozen=True, slots=True)
class Site:
    """Where the members of a list are at hand, one after another."""

    path: Path
    """Inside the loop that runs over them, or makes them."""
    members: tuple[Value, ...]
    """The member, or its parts."""
    lists: dict[Value, Value]
    """Of a part: the list that has it of every member."""
    inits: Set
    """What comes before the loop."""


class Columns(Members):
    """Comprehensions, and the records in them.

    One that runs over what another has listed is written into the loop that lists it, where the
    state has not changed since: the members are at hand there, and what is known of them.
    """

    def __init__(self, k: Any) -> None:
        super().__init__(k)
        self.depth = 0
        """How many comprehensions are being written, one inside another."""
        self.tuples: set[Value] = set()
        """Of what comprehensions have listed: the tuples. The others are lists."""

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
        over = self.iterated(node.generators[0].iter, frame)
        members = self.one_by_one(over)
        if members is not None:
            return self.spelled_out(node, members, frame)
        sites, made = self.path.sites, None
        self.depth += 1
        try:
            if isinstance(over, Value) and over.op == "+" and all(map(self.site, over.args)):
                made = self.chained(*(self.listed(node, part, frame) for part in over.args))
            else:
                made = self.listed(node, over, frame)
        finally:
            self.depth -= 1
            if made is None:
                sites.clear()  # in their loops something may be half-way
        return made

    def one_by_one(self, over: Any) -> tuple[Value, ...] | None:
        """The members of what a comprehension runs over, where each is known, as tables are."""
        if isinstance(over, Value) and over.op == "tuple":
            return over.args
        if isinstance(over, Span) and over.first.constant and over.end.constant:
            return tuple(map(self.values.const, range(over.first.args[0], over.end.args[0])))
        return None

    def chained(self, first: Any, last: Any) -> Any:
        """One list or table behind another."""
        if not isinstance(first, Table):
            return self.computed(self.values.make("+", first, last))
        pairs = ((name, a, last.columns[name]) for name, a in first.columns.items())
        return Table(first.make, {name: self.chained(a, b) for name, a, b in pairs})

    def site(self, over: Any) -> Site | None:
        """Where the members are at hand, in the state that still is the state."""
        found = self.path.sites.get(_key(over)) if self.depth == 1 else None
        return found if found is not None and found.path.like(self.path) else None

    def listed(self, node: ast.GeneratorExp | ast.ListComp, over: Any, frame: Frame) -> Any:
        """A comprehension over one list, table or span."""
        [generator] = node.generators
        outer, site = self.path, self.site(over)
        if site is None:
            self.path = outer.copy()
            loop, site = self.header(generator.target, over, self.path)
        else:
            self.path, loop = site.path, None
            self.path.locals = dict(outer.locals)
            self.bound(generator.target, site)
        head = self.path
        for test in generator.ifs:
            c = self.computed(self.condition(self.value(test, frame)))
            branch = If(self.path.atom(c), [])
            self.path.block.append(branch)
            self.path = self.path.copy()
            self.path.block = branch.body
            self.path.assume(c, True, self.values)
        made = self.element(node.elt, frame)
        parts = made.parts if isinstance(made, Record) else {"": made}
        known: dict[str, Value] = {}
        lists: dict[str, Value] = {}
        alike: dict[str, str] = {}
        for name, part in parts.items():
            if not isinstance(part, Value):
                raise Unsupported(f"line {node.lineno}: {ast.unparse(node.elt)}")
            if not generator.ifs and part in site.lists:
                known[name] = site.lists[part]
                continue
            if part.constant and lists:
                alike[name] = repr(part.args[0])
                continue
            known[name] = lists[name] = self.values.var(f"list_{next(FRESH)}")
            atoms = (self.path.atom(lists[name]), self.path.atom(self.computed(part)))
            self.path.block.append(Append("{}.append({})", atoms, ""))
        inner, self.path = self.path, outer
        if lists and loop is None:
            site.inits.moves += [(str(v.args[0]), "[]") for v in lists.values()]
        shared = loop is None or (bool(lists) and self.emitted(lists, over, loop, site))
        for name, text in alike.items():
            many = self.values.make("call", f"[{text}] * len({{}})", next(iter(lists.values())))
            known[name] = self.computed(many)
        known = {name: known[name] for name in parts}
        result = Table(made.make, known) if isinstance(made, Record) else known[""]
        if shared and self.depth == 1:
            members = tuple(parts.values())
            inside = Site(
                inner, members, dict(zip(members, known.values(), strict=True)), site.inits
            )
            outer.sites.setdefault(_key(result), inside)
            for name, part in parts.items():
                outer.sites.setdefault(known[name], replace(inside, members=(part,)))
            outer.sites.setdefault(_key(over), replace(site, path=head))
        return result

    def element(self, node: ast.expr, frame: Frame) -> Any:
        """A member: a record, a tuple or a value."""
        if isinstance(node, ast.Tuple):
            parts = (self.value(e, frame) for e in node.elts)
            return Record(pair, {str(i): part for i, part in enumerate(parts)})
        return self.evaluate(node, frame)

    def emitted(self, lists: dict[str, Value], over: Any, loop: Loop, site: Site) -> bool:
        """The loop, and what comes before it; an empty span costs a comparison. Whether others
        may join it.
        """
        names = [str(v.args[0]) for v in lists.values()]
        if not isinstance(over, Span) or len(names) > 1:
            site.inits.moves += [(name, "[]") for name in names]
            self.path.block += [site.inits, loop]
            return True
        less = self.computed(self.values.binary("<", over.first, over.end))
        [name] = names
        self.path.block.append(Set([(name, "()")]))
        filled = Let(f"t{next(FRESH)}_", "tuple({})", (name,), True, ANYTHING)
        body: list[Statement] = [Set([(name, "[]")]), loop, filled, Set([(name, filled.name)])]
        self.path.block.append(If(self.path.atom(less), body))
        self.tuples.update(lists.values())
        return False

    def of_kind(self, kind: type, made: Any) -> Any:
        """What a comprehension has listed, as a tuple or a list. A table has no kind."""
        if isinstance(made, Table) or (made in self.tuples) == (kind is tuple):
            return made
        if kind is tuple and made.op == "tuple":
            return made
        found = self.computed(self.values.make("call", f"{kind.__name__}({{}})", made))
        if kind is tuple:
            self.tuples.add(found)
        return found

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

    def header(self, target: ast.expr, over: Any, path: Path) -> tuple[Loop, Site]:
        """`for … in …` with its names bound on the path; its body is the path's block."""
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
        members, lists = [], {}
        names, atoms = [], []
        for n, column in zip(targets, given, strict=True):
            assert isinstance(n, ast.Name)
            name = f"{n.id.strip('_') or 'part'}_{next(FRESH)}"
            names.append(name)
            variable = path.locals[n.id] = self.values.var(name)
            members.append(variable)
            if column is not None:
                lists[variable] = column
                atoms.append(path.atom(column))
        text = "{}" if len(atoms) == 1 else f"zip({', '.join('{}' for _ in atoms)})"
        if isinstance(over, Span):
            text = "range({}, {})"
            atoms = [path.atom(over.first), path.atom(over.end)]
        loop = Loop(path.block, ", ".join(names), text, tuple(atoms))
        return loop, Site(path, tuple(members), lists, Set())

    def bound(self, target: ast.expr, site: Site) -> None:
        """The names of `for … in …` where the members are at hand already."""
        targets = target.elts if isinstance(target, ast.Tuple) else [target]
        for n, member in zip(targets, site.members, strict=True):
            assert isinstance(n, ast.Name)
            site.path.locals[n.id] = member

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


def _key(over: Any) -> Any:
    """What tells one thing that a comprehension runs over from another."""
    return tuple(over.columns.values()) if isinstance(over, Table) else over
