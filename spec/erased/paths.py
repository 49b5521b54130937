"""What is known at a point of the residual program, and how it meets what other paths know."""

from itertools import count
from typing import Any

from nullblock.spec.erased.code import Atom, Set, Statement
from nullblock.spec.erased.values import FOLDED, Value, Values

FRESH = count(1)
RETURN = " return"
"""The local in which a function leaves its result."""


class Dead(Exception):
    """A path has ended: a guard that cannot hold, or a raise."""


class Path:
    """The state as far as it is known, by name what is computed, and what is true."""

    __slots__ = (
        "block",
        "equal",
        "facts",
        "fields",
        "known",
        "locals",
        "memo",
        "memory",
        "names",
        "saved",
        "sites",
        "touched",
        "versions",
    )

    def __init__(self) -> None:
        self.block: list[Statement] = []
        """Where statements go."""
        self.fields: dict[str, Value] = {}
        self.versions: dict[str, int] = {}
        self.known: dict[str, dict[Value, Value]] = {}
        """What a map holds, where that is known. The inner dictionaries are never changed."""
        self.locals: dict[str, Any] = {}
        self.facts: set[Value] = set()
        self.equal: dict[Value, Value] = {}
        """The constants that values are known to be equal to."""
        self.names: dict[Value, Atom] = {}
        self.saved: dict[str, Value | None] = {}
        """What the fields of the state object hold, which may lag behind."""
        self.memory = 0
        """Changes with every effect."""
        self.touched: dict[str, int] = {}
        """When an object of the environment was changed last; under "" all of them."""
        self.memo: dict[Any, tuple[tuple[Any, ...], Value]] = {}
        """What readings came to, and what they depended on."""
        self.sites: dict[Any, Any] = {}
        """The loops of comprehensions that others may join, on this way and no other."""

    def copy(self) -> "Path":
        """A path that goes its own way, with a block of its own."""
        new = Path()
        new.fields, new.versions = dict(self.fields), dict(self.versions)
        new.known = dict(self.known)
        new.locals, new.facts, new.equal = dict(self.locals), set(self.facts), dict(self.equal)
        new.names, new.memory = dict(self.names), self.memory
        new.saved, new.touched, new.memo = dict(self.saved), dict(self.touched), dict(self.memo)
        return new

    def like(self, other: "Path") -> bool:
        """Whether the state is what it is on the other path."""
        same = self.memory == other.memory and self.touched == other.touched
        return same and self.versions == other.versions and self.fields == other.fields

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
                if value.negation in self.facts:
                    return False
                if value.op in ("==", "<"):
                    a, b = map(self.settled, value.args)
                    if a.constant and b.constant:
                        return bool(FOLDED[value.op](a.args[0], b.args[0]))
                return None
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
            self.equal[value.args[0]] = value.args[1]

    def settled(self, value: Any) -> Any:
        """The constant that a value is known to be, or else the value."""
        return self.equal.get(value, value) if isinstance(value, Value) else value

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
        settled = [end.settled(p) for end, p in zip(ends, parts, strict=True)]
        if settled[0].constant and all(p is settled[0] for p in settled):
            return settled[0]
        if not all(end.has(p) for end, p in zip(ends, parts, strict=True)):
            return None
        variable = f"{name}_{next(FRESH)}"
        for end, part, move in zip(ends, parts, moves, strict=True):
            move.moves.append((variable, end.atom(part)))
        if same:
            new.names[one] = variable
            return one
        return values.var(variable)

    new.names = _shared(first.names, [e.names for e in ends])
    new.facts = set.intersection(*(e.facts for e in ends))
    new.equal = _shared(first.equal, [e.equal for e in ends])
    new.fields, new.saved = dict(first.fields), dict(first.saved)
    for f in _unlike([e.saved for e in ends]):
        new.saved[f] = None
    unlike = _unlike([e.fields for e in ends])
    for f, one in first.fields.items():
        if f in unlike or one.op not in ("const", "var"):
            new.fields[f] = meet([e.fields[f] for e in ends], f)
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


def _unlike(all_: list[dict[str, Any]]) -> dict[str, None]:
    """The keys at which dictionaries with the same keys hold more than one object, in order."""
    one = all_[0]
    return {k: None for other in all_[1:] for k, v in other.items() if v is not one[k]}


def _shared(one: dict[Any, Any], all_: list[dict[Any, Any]]) -> dict[Any, Any]:
    """What all dictionaries say, one of them among them."""
    for other in all_:
        if other is not one and other != one:
            one = {k: v for k, v in one.items() if other.get(k) is v}
    return dict(one)


def _meet_maps(ends: list[Path], new: Path) -> None:
    first = ends[0]
    new.versions, new.known = dict(first.versions), dict(first.known)
    for f in _unlike([e.versions for e in ends]):
        new.versions[f] = next(FRESH)
    for f in _unlike([e.known for e in ends]):
        new.known[f] = _shared(first.known[f], [e.known[f] for e in ends])
    for root in {r for e in ends for r in e.touched}:
        same = len({e.touched.get(root) for e in ends}) == 1
        new.touched[root] = first.touched[root] if same else next(FRESH)
    new.memo = _shared(first.memo, [e.memo for e in ends])
    same = len({e.memory for e in ends}) == 1
    new.memory = first.memory if same else next(FRESH)
