"""What is known at a point of the residual program, and how it meets what other paths know."""

from collections.abc import Iterable
from itertools import count
from typing import Any

from nullblock.spec.erased.code import Atom, Set, Statement
from nullblock.spec.erased.values import Value, Values

FRESH = count(1)
RETURN = " return"
"""The local in which a function leaves its result."""


class Path:
    """The state as far as it is known, by name what is computed, and what is true."""

    __slots__ = (
        "block",
        "facts",
        "fields",
        "known",
        "locals",
        "memo",
        "memory",
        "names",
        "saved",
        "touched",
        "versions",
    )

    def __init__(self) -> None:
        self.block: list[Statement] = []
        """Where statements go."""
        self.fields: dict[str, Value] = {}
        self.versions: dict[str, int] = {}
        self.known: dict[str, dict[Value, Value]] = {}
        """What a map holds, where that is known."""
        self.locals: dict[str, Any] = {}
        self.facts: set[Value] = set()
        self.names: dict[Value, Atom] = {}
        self.saved: dict[str, Value | None] = {}
        """What the fields of the state object hold, which may lag behind."""
        self.memory = 0
        """Changes with every effect."""
        self.touched: dict[str, int] = {}
        """When an object of the environment was changed last; under "" all of them."""
        self.memo: dict[Any, tuple[tuple[Any, ...], Value]] = {}
        """What readings came to, and what they depended on."""

    def copy(self) -> "Path":
        """A path that goes its own way, with a block of its own."""
        new = Path()
        new.fields, new.versions = dict(self.fields), dict(self.versions)
        new.known = {f: dict(m) for f, m in self.known.items()}
        new.locals, new.facts = dict(self.locals), set(self.facts)
        new.names, new.memory = dict(self.names), self.memory
        new.saved, new.touched, new.memo = dict(self.saved), dict(self.touched), dict(self.memo)
        return new

    def become(self, other: "Path") -> None:
        """Know what the other path knows; the block stays."""
        for slot in Path.__slots__:
            if slot != "block":
                setattr(self, slot, getattr(other, slot))

    def atom(self, value: Value) -> Atom:
        """How a value that is known or computed is written."""
        if value.op == "const":
            return repr(value.args[0])
        if value.op == "var":
            return str(value.args[0])
        return self.names[value]

    def has(self, value: Any) -> bool:
        """Whether the value can be named here."""
        return isinstance(value, Value) and (value.op in ("const", "var") or value in self.names)

    def truth(self, value: Value) -> bool | None:
        """Whether a condition is known to be true, or false."""
        if value.op == "const":
            return bool(value.args[0])
        if value in self.facts:
            return True
        match value.op:
            case "not":
                inner = self.truth(value.args[0])
                return None if inner is None else not inner
            case "==" | "<" | "is" | "in":
                return False if value.negation in self.facts else None
            case "and":
                parts = [self.truth(a) for a in value.args]
                return False if False in parts else None if None in parts else True
            case "or":
                parts = [self.truth(a) for a in value.args]
                return True if True in parts else None if None in parts else False
            case _:
                return None

    def assume(self, value: Value, true: bool, values: Values) -> None:
        """From here on a condition holds, or does not."""
        if value.op == "not":
            self.assume(value.args[0], not true, values)
            return
        if value.op == ("and" if true else "or"):
            for a in value.args:
                self.assume(a, true, values)
        self.facts.add(value if true else values.make("not", value))
        if value.op == "<":
            a, b = value.args
            if true and a.constant:
                self.facts.add(values.make("not", values.make("==", b, a)))
            if not true and b.constant and isinstance(b.args[0], int):
                below = values.const(b.args[0] - 1)
                self.facts.add(values.make("not", values.make("==", a, below)))
        if true and value.op == "==" and value.args[1].constant:
            self._replace(*value.args)

    def _replace(self, old: Value, new: Value) -> None:
        """A field or a local that equals a constant is that constant."""
        for table in (self.fields, self.locals):
            for name, value in table.items():
                if value is old:
                    table[name] = new

    def version(self, base: Value) -> tuple[str, Any]:
        """What the content of an object depends on, and its present state."""
        root: Value | None = base
        while root is not None:
            for f in self.versions:
                if self.fields[f] is root:
                    return f"*{f}", self.versions[f]
            if root.op == "var" and root.args[0].startswith("k_"):
                return f"@{root.args[0]}", self.state(f"@{root.args[0]}")
            inside = root.op in ("item", "attr", "call", "get")
            root = next((a for a in root.args if isinstance(a, Value)), None) if inside else None
        return "memory", self.memory

    def state(self, dependency: str) -> Any:
        """The present state of what a reading depended on."""
        match dependency[0]:
            case "*":
                return self.versions[dependency[1:]]
            case "@":
                return (self.touched.get("@"), self.touched.get(dependency))
            case _:
                return self.memory if dependency == "memory" else self.fields[dependency]

    def stored(self, field: str, known: dict[Value, Value]) -> None:
        """A map has changed."""
        self.versions[field] = next(FRESH)
        self.known[field] = known
        self.memory = next(FRESH)


def join(ends: list[Path], values: Values) -> Path:
    """One path after several. Where they differ, a variable gets the value of each."""
    first = ends[0]
    if len(ends) == 1:
        return first
    new = Path()
    moves: list[Set] = [Set() for _ in ends]

    def meet(parts: list[Any], name: str) -> Any:
        one = parts[0]
        same = all(p is one for p in parts)
        if not isinstance(one, Value):
            return one if same else None
        if same and one.op in ("const", "var"):
            return one
        if same and len({end.names.get(one) for end in ends}) == 1:
            return one
        if not all(end.has(p) for end, p in zip(ends, parts, strict=True)):
            return None
        variable = f"{name}_{next(FRESH)}"
        for end, part, move in zip(ends, parts, moves, strict=True):
            move.moves.append((variable, end.atom(part)))
        if same:
            new.names[one] = variable
            return one
        return values.var(variable)

    names = first.names
    new.names = {v: n for v, n in names.items() if all(e.names.get(v) == n for e in ends)}
    new.facts = set.intersection(*(e.facts for e in ends))
    for f in first.fields:
        new.fields[f] = meet([e.fields[f] for e in ends], f)
        held = {e.saved[f] for e in ends}
        new.saved[f] = held.pop() if len(held) == 1 else None
    if any(RETURN in e.locals for e in ends):
        for e in ends:
            e.locals.setdefault(RETURN, values.const(None))
    for f in first.locals:
        if all(f in e.locals for e in ends):
            met = meet([e.locals[f] for e in ends], f.strip(" _"))
            if met is not None:
                new.locals[f] = met
    _meet_maps(ends, new)
    for end, move in zip(ends, moves, strict=True):
        end.block.append(move)
    return new


def _meet_maps(ends: list[Path], new: Path) -> None:
    first = ends[0]
    for f in first.versions:
        same = len({e.versions[f] for e in ends}) == 1
        new.versions[f] = first.versions[f] if same else next(FRESH)
        new.known[f] = {
            k: v for k, v in first.known.get(f, {}).items() if _everywhere(f, k, v, ends)
        }
    for root in {r for e in ends for r in e.touched}:
        same = len({e.touched.get(root) for e in ends}) == 1
        new.touched[root] = first.touched[root] if same else next(FRESH)
    new.memo = {k: m for k, m in first.memo.items() if all(e.memo.get(k) is m for e in ends)}
    same = len({e.memory for e in ends}) == 1
    new.memory = first.memory if same else next(FRESH)


def _everywhere(f: str, k: Value, v: Value, ends: Iterable[Path]) -> bool:
    return all(e.known.get(f, {}).get(k) is v for e in ends)
