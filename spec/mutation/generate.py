"""Every mutant of the rules, the machine, the readings and the invariants.

An ID names the file, the function, the kind of defect, and which of its kind in that function it
is: `rules.pool.push_new.guard-2`. It stays while the function's text does.
"""

import ast
import difflib
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

import nullblock.spec
from nullblock.spec.mutation.operators import (
    SKIPPED_KEYWORDS,
    Change,
    anybody,
    called,
    condition,
    denied,
    descending,
    expression,
    mistaken,
    statement,
)
from nullblock.spec.mutation.operators import text as one_line

SPEC = Path(nullblock.spec.__file__).parent
DECISIONS = (
    *(f"rules/{name}.py" for name in ("pool", "lookup", "queues", "steps", "drafts", "later")),
    *(f"rules/{name}.py" for name in ("groups", "waiting", "encoder", "pooling", "sessions")),
    *("rules/loads.py", "rules/remote.py", "machine/remote.py", "remote.py", "lost.py"),
    *("loaded.py", "rules/loaded.py", "machine/loaded.py"),
    *("deferred.py", "rules/deferred.py"),
    *("reclaim.py", "rules/reclaim.py", "rules/silence.py", "machine/silence.py"),
    "rules/clients.py",
    *("state.py", "flight.py", "drafts.py", "later.py", "groups.py", "nulls.py", "waiting.py"),
    *("hybrid.py", "encoder.py", "planning.py", "pooling.py", "sessions.py", "turns.py"),
    *("sizes.py", "slots.py", "mamba.py", "aligned.py", "in_turn.py", "rules/in_turn.py"),
    *("gate.py", "cross.py", "rules/cross.py", "machine/cross.py"),
    *("rules/mamba.py", "rules/aligned.py", "machine/aligned.py"),
    *(
        f"machine/{name}.py"
        for name in ("blocks", "schedule", "update", "drafts", "events", "output")
    ),
    *(f"machine/{name}.py" for name in ("groups", "waiting", "encoder", "sessions")),
)
"""Files that say what an engine does."""
STATEMENTS = (
    *(
        f"invariants/{name}.py"
        for name in (
            "pool",
            "tables",
            "queues",
            "steps",
            "flight",
            "drafts",
            "groups",
            "hybrid",
            "waiting",
            "encoder",
            "pooling",
            "clients",
            "sessions",
            "remote",
            "cross",
        )
    ),
    "explorer/transitions.py",
)
"""Files that say what always holds."""
TWINS = {"lru": "is_lru", "cached": "is_cached", "head": "is_head", "victim": "is_victim"}
"""Readings that ask one question in two ways, in `state.py`: who it is, and whether it is this
one. A defect of both is another decision; a defect of one is a contradiction.
"""


class Defect(Protocol):
    """Something planted in the specification."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def what(self) -> str:
        """What it does."""

    @property
    def functions(self) -> frozenset[str]:
        """The functions whose text it changes."""

    def texts(self) -> dict[str, str]:
        """The files, below `spec/`, that are other with the defect in them."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """One defect of the specification's text."""

    id: str
    file: str
    """Below `spec/`."""
    function: str
    kind: str
    what: str
    changes: tuple[Change, ...]

    @property
    def functions(self) -> frozenset[str]:
        """The functions whose text it changes."""
        return frozenset({self.function, *([TWINS[self.function]] if self.kind == "twin" else ())})

    def texts(self) -> dict[str, str]:
        """The files that are other with the defect in them."""
        return {self.file: planted(self)}

    @property
    def is_statement(self) -> bool:
        """Whether it is a defect of an invariant, and not of what an engine does."""
        return self.file in STATEMENTS


@dataclass(frozen=True, slots=True)
class Source:
    """A file of the specification."""

    file: str
    text: str
    tree: ast.Module

    def functions(self) -> Iterator[ast.FunctionDef]:
        """The functions it defines."""
        yield from (n for n in self.tree.body if isinstance(n, ast.FunctionDef))


@cache
def source(file: str) -> Source:
    """A file below `spec/`, read once."""
    text = (SPEC / file).read_text()
    return Source(file, text, ast.parse(text))


@cache
def mutants() -> tuple[Mutant, ...]:
    """All of them, in the order of the files and of their text."""
    return tuple(m for file in (*DECISIONS, *STATEMENTS) for m in _of_file(file))


@cache
def by_id() -> dict[str, Mutant]:
    """All of them by their IDs."""
    return {m.id: m for m in mutants()}


def numbers() -> dict[str, int]:
    """A number for each, from 1, as a running text knows them."""
    return {m.id: i for i, m in enumerate(mutants(), start=1)}


def digest(statements: bool = True) -> str:
    """What tells one version of the mutated text from another; of decisions alone, or with the
    `statements` about them.
    """
    files = (*DECISIONS, *STATEMENTS) if statements else DECISIONS
    every = "\0".join(source(file).text for file in files)
    return hashlib.sha256(every.encode()).hexdigest()[:16]


@cache
def written() -> dict[str, str]:
    """What tells one version from another of every function that has mutants, by its name."""
    found: dict[str, str] = defaultdict(str)
    for file in (*DECISIONS, *STATEMENTS):
        for f in source(file).functions():
            found[f.name] += ast.unparse(f)
    return {name: hashlib.sha256(text.encode()).hexdigest()[:8] for name, text in found.items()}


def _of_file(file: str) -> Iterator[Mutant]:
    place = file.removesuffix(".py").replace("/", ".")
    found = {f.name: list(changes(f)) for f in source(file).functions() if _says(f, file)}
    for name, some in found.items():
        often: Counter[str] = Counter()
        for change in some:
            often[change.kind] += 1
            id = f"{place}.{name}.{change.kind}-{often[change.kind]}"
            yield Mutant(id, file, name, change.kind, change.what, (change,))
        for i, pair in enumerate(_swaps(name, file), start=1):
            what = f"`{one_line(pair[1].node)}` comes before `{one_line(pair[0].node)}`"
            yield Mutant(f"{place}.{name}.order-{i}", file, name, "order", what, pair)
    if file == "state.py":
        for one, other in TWINS.items():
            for i, (a, b) in enumerate(_pairs(found[one], found[other]), start=1):
                what = f"{a.what}, here and in {other}"
                yield Mutant(f"{place}.{one}.twin-{i}", file, one, "twin", what, (a, b))
    if file in STATEMENTS:
        yield from _weakened(file, place)


def _says(f: ast.FunctionDef, file: str) -> bool:
    """Whether a function says something about engines: the explorer's own bookkeeping does not."""
    return bool(f.decorator_list) or not file.startswith("explorer/")


def _swaps(function: str, file: str) -> Iterator[tuple[Change, Change]]:
    """Two calls that follow one another change places."""
    (f,) = (f for f in source(file).functions() if f.name == function)
    for block in ast.walk(f):
        body = getattr(block, "body", [])
        for a, b in zip(body, body[1:], strict=False) if isinstance(body, list) else ():
            if _is_effect(a) and _is_effect(b):
                here, there = ast.unparse(a), ast.unparse(b)
                yield Change("order", a, there, ""), Change("order", b, here, "")


def _is_effect(node: ast.stmt) -> bool:
    call = node.value if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and called(call) not in ("require", "ensure")


def _weakened(file: str, place: str) -> Iterator[Mutant]:
    """Invariants that say nothing."""
    for f in source(file).functions():
        last = f.body[-1]
        if f.decorator_list and isinstance(last, ast.Return) and last.value is not None:
            change = Change("true", last.value, "True", "it holds always")
            yield Mutant(f"{place}.{f.name}.true-1", file, f.name, "true", change.what, (change,))


def _pairs(these: list[Change], those: list[Change]) -> Iterator[tuple[Change, Change]]:
    """Changes that are the same but for the name of a variable."""
    left = list(those)
    for a in these:
        for b in left:
            if _anonymous(a) == _anonymous(b):
                left.remove(b)
                yield a, b
                break


def _anonymous(c: Change) -> tuple[str, str, str]:
    def of(text: str) -> str:
        tree = ast.parse(text)
        for n in ast.walk(tree):
            if isinstance(n, ast.Name) and len(n.id) == 1 and n.id != "s":
                n.id = "_"
        return ast.unparse(tree)

    return c.kind, of(ast.unparse(c.node)), of(c.new)


# walking -----
def changes(f: ast.FunctionDef) -> list[Change]:
    """The defects of a function, in the order of its text."""
    documented = isinstance(f.body[0], ast.Expr) and isinstance(f.body[0].value, ast.Constant)
    found: dict[tuple[ast.AST, str], Change] = {}
    for change in _block(f.body[1:] if documented else f.body):
        found.setdefault((change.node, change.new), change)
    return list(found.values())


def _block(body: list[ast.stmt]) -> Iterator[Change]:
    for node in body:
        yield from statement(node)
        match node:
            case ast.If(test=test, body=then, orelse=other):
                yield from condition(node)
                yield from _expr(test)
                yield from _block([*then, *other])
            case ast.For(iter=over, body=inside) | ast.While(test=over, body=inside):
                yield from _expr(over)
                yield from _block(inside)
            case ast.FunctionDef(body=inside):
                yield from _block(inside)
            case ast.Assign(targets=targets, value=value):
                yield from _meant(value)
                for e in (*targets, value):
                    yield from _expr(e)
            case ast.AugAssign(value=value):
                # One less than 1 is to leave it out.
                yield from (c for c in _expr(value) if c.new != "(0)")
            case ast.Return(value=ast.expr() as value):
                yield from denied(node)
                yield from _meant(value)
                yield from _expr(value)
            case ast.Expr(value=ast.Call() as call) if called(call) == "require":
                yield from _expr(call.args[0])
            case ast.Expr(value=ast.Call() as call) if called(call) != "ensure":
                for e in call.args:
                    yield from _meant(e)
                yield from _expr(call)


def _meant(value: ast.expr) -> Iterator[Change]:
    """Values of enumerations that are set, given or returned."""
    match value:
        case ast.Name():
            yield from mistaken(value)
        case ast.IfExp(body=a, orelse=b):
            yield from _meant(a)
            yield from _meant(b)
        case ast.Call(args=arguments) if called(value) == "ite":
            for e in arguments[1:]:
                yield from _meant(e)


def _expr(node: ast.expr) -> Iterator[Change]:
    yield from expression(node)
    match node:
        case ast.Compare(left=left, comparators=parts):
            # A number that is compared has its own kinds of defects.
            for e in (left, *parts):
                yield from () if isinstance(e, ast.Constant) else _expr(e)
        case ast.Call(func=function, args=arguments, keywords=keywords):
            yield from descending(node)
            yield from anybody(node)
            yield from () if isinstance(function, ast.Name) else _expr(function)
            for e in arguments:
                yield from _expr(e)
            for k in keywords:
                yield from () if k.arg in SKIPPED_KEYWORDS else _expr(k.value)
        case ast.Lambda(body=body):
            yield from _expr(body)
        case ast.GeneratorExp(elt=e, generators=parts) | ast.ListComp(elt=e, generators=parts):
            yield from _expr(e)
            for part in parts:
                for test in (part.iter, *part.ifs):
                    yield from _expr(test)
        case _:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield from _expr(child)


# planting -----
def planted(mutant: Mutant) -> str:
    """The text of the mutant's file with the defect in it."""
    text = source(mutant.file).text
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for change in sorted(mutant.changes, key=lambda c: -c.node.lineno):
        node = change.node
        first = starts[node.lineno - 1] + node.col_offset
        last = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        text = text[:first] + change.new + text[last:]
    return text


def diff(defect: Defect) -> str:
    """The defect as a unified diff."""
    return "".join(
        line
        for file, text in defect.texts().items()
        for line in difflib.unified_diff(
            source(file).text.splitlines(keepends=True),
            text.splitlines(keepends=True),
            *(f"a/spec/{file}", f"b/spec/{file}"),
            n=2,
        )
    )
