"""The residual program: statements, what is dead in it, and how it is written."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

Atom = str
"""A name, or a constant as it is written."""
ANYTHING = "memory"
"""What a step reads, or changes, that is not known to touch one map alone."""
LASTING = "lasting"
"""What is read, and its version: nothing changes it while somebody may ask for it."""


@dataclass(slots=True, eq=False)
class Let:
    """A name for the value of an operation; given once."""

    name: str
    template: str
    atoms: tuple[Atom, ...]
    total: bool
    """Whether it may be left out if nobody asks."""
    root: str
    """What it reads of what a store may change, as `Path.version` names it; or nothing."""
    rule: str = ""
    """Whose text it comes from."""

    @property
    def memory(self) -> bool:
        """Whether it reads what a store may change."""
        return self.root != ""


@dataclass(slots=True, eq=False)
class Set:
    """Variables of a join or a loop get their values, all at once."""

    moves: list[tuple[str, Atom]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Do:
    """An effect."""

    template: str
    atoms: tuple[Atom, ...] = ()
    root: str = ANYTHING
    """What may change by it, as `Path.version` names it; or nothing."""
    rule: str = ""

    @property
    def memory(self) -> bool:
        """Whether a map may change by it."""
        return self.root != ""


class Append(Do):
    """One more in a list that a comprehension makes: nothing where nobody asks for the list."""


class Raise(Do):
    """What ends the program with an error: what is left to be done, on one line."""


@dataclass(slots=True, eq=False)
class If:
    """A branch."""

    test: Atom
    body: "list[Statement]"
    orelse: "list[Statement]" = field(default_factory=list)
    rule: str = ""


@dataclass(slots=True, eq=False)
class Loop:
    """For ever, until a Break; or over an iterable."""

    body: "list[Statement]"
    name: str = ""
    over: str = ""
    """A template."""
    atoms: tuple[Atom, ...] = ()


@dataclass(slots=True, eq=False)
class Break:
    """Out of the innermost loop."""


Statement = Let | Set | Do | If | Loop | Break


def counted(block: Iterable[Statement]) -> Counter[Atom]:
    """How often each name is asked for."""
    found: list[Atom] = []
    _collect(block, found)
    return Counter(found)


def _collect(block: Iterable[Statement], found: list[Atom]) -> None:
    for s in block:
        match s:
            case Append():
                found += s.atoms[1:]
            case Let() | Do():
                found += s.atoms
            case Set():
                found += [atom for _, atom in s.moves]
            case If():
                found.append(s.test)
                _collect(s.body, found)
                _collect(s.orelse, found)
            case Loop():
                found += s.atoms
                _collect(s.body, found)
            case Break():
                pass


def _drop(block: list[Statement], used: Counter[Atom]) -> None:
    kept: list[Statement] = []
    for s in block:
        match s:
            case Let() if s.total and not used[s.name]:
                continue
            case Append() if not used[s.atoms[0]]:
                continue
            case Set():
                s.moves = [(name, atom) for name, atom in s.moves if used[name] and name != atom]
                if not s.moves:
                    continue
            case If():
                _drop(s.body, used)
                _drop(s.orelse, used)
                if not s.body and not s.orelse:
                    continue
            case Loop():
                _drop(s.body, used)
                if s.over and not s.body:
                    continue
            case _:
                pass
        kept.append(s)
    block[:] = kept


def prune(block: list[Statement]) -> None:
    """Leave out what nobody asks for."""
    before = -1
    while True:
        used = counted(block)
        size = used.total()
        if size == before:
            return
        before = size
        _drop(block, used)


@dataclass(slots=True)
class _Pending:
    text: str
    reads: frozenset[str]
    memory: bool
    let: Let
    word: str = ""
    """Of a conjunction or disjunction: what stands between its parts."""
    parts: tuple[tuple[bool, str], ...] = ()
    """Of such a one: whether a part reads what a store may change, and its text."""


def _quickest_first(s: Let, pending: dict[str, _Pending]) -> _Pending | None:
    """A conjunction or disjunction: what is at hand is asked for first. No part can fail."""
    words = (w for w in (" and ", " or ") if s.template == w.join("{}" for _ in s.atoms))
    if len(s.atoms) < 2 or not (word := next(words, "")):
        return None
    parts, reads = list[tuple[bool, str]](), frozenset[str]()
    for atom in s.atoms:
        p = pending.pop(atom, None)
        if p is None:
            parts.append((False, atom))
        else:
            parts += p.parts if p.word == word else [(p.memory, f"({p.text})")]
        reads |= p.reads if p else {atom}
    parts.sort(key=lambda part: part[0])
    text, memory = word.join(text for _, text in parts), parts[-1][0]
    let = Let(s.name, text, (), s.total, ANYTHING if memory else "", s.rule)
    return _Pending(text, reads, memory, let, word, tuple(parts))


def fold(block: list[Statement], uses: Counter[Atom]) -> None:
    """Write a value that is asked for once where it is asked for."""
    out: list[Statement] = []
    pending: dict[str, _Pending] = {}

    def settle(names: Iterable[str]) -> None:
        for name in names:
            let = pending.pop(name).let
            out.append(let)

    def fill(template: str, atoms: Sequence[Atom]) -> tuple[str, frozenset[str], bool]:
        texts, reads, memory = [], set[str](), False
        for atom in atoms:
            p = pending.pop(atom, None)
            texts.append(f"({p.text})" if p else atom)
            reads |= p.reads if p else {atom}
            memory |= p is not None and p.memory
        return template.format(*texts), frozenset(reads), memory

    for s in block:
        match s:
            case Let():
                made = _quickest_first(s, pending)
                if made is None:
                    text, reads, memory = fill(s.template, s.atoms)
                    memory |= s.memory
                    let = Let(s.name, text, (), s.total, ANYTHING if memory else "", s.rule)
                    made = _Pending(text, reads, memory, let)
                if s.total and uses[s.name] == 1:
                    pending[s.name] = made
                else:
                    out.append(made.let)
            case Do():
                text, _, _ = fill(s.template, s.atoms)
                if s.memory:
                    settle([n for n, p in pending.items() if p.memory])
                out.append(type(s)(text, (), s.root, s.rule))
            case Set():
                moves = [(name, fill("{}", (atom,))) for name, atom in s.moves]
                settle([n for n, p in pending.items() if p.reads & {name for name, _ in moves}])
                out.append(_Moves([(name, text, reads) for name, (text, reads, _) in moves]))
            case If():
                text, _, _ = fill("{}", (s.test,))
                settle(list(pending))
                fold(s.body, uses)
                fold(s.orelse, uses)
                out.append(If(text, s.body, s.orelse, s.rule))
            case Loop():
                over = fill(s.over, s.atoms)[0]
                settle(list(pending))
                fold(s.body, uses)
                out.append(Loop(s.body, s.name, over))
            case Break():
                # What is asked for behind the loop alone is computed before it is left.
                settle(list(pending))
                out.append(s)
            case _:
                out.append(s)
    settle(list(pending))
    block[:] = out


@dataclass(slots=True, eq=False)
class _Moves(Set):
    """Moves as they are written: name, text, the names read."""

    def __init__(self, moves: list[tuple[str, str, frozenset[str]]]) -> None:
        self.written = moves
        self.moves = []

    written: list[tuple[str, str, frozenset[str]]] = field(default_factory=list)


def lines(block: Iterable[Statement], indent: int = 1) -> Iterator[tuple[str, str]]:
    """The program as Python: each line, and the rule that it comes from, or nothing."""
    pad = "    " * indent
    empty = True
    for s in block:
        empty = False
        match s:
            case Let():
                yield f"{pad}{s.name} = {s.template}", s.rule
            case Do():
                yield f"{pad}{s.template}", s.rule
            case _Moves():
                yield from ((line, "") for line in _moves(s.written, pad))
            case If():
                if s.body:
                    yield f"{pad}if {s.test}:", s.rule
                    yield from lines(s.body, indent + 1)
                    if s.orelse:
                        yield f"{pad}else:", ""
                        yield from lines(s.orelse, indent + 1)
                else:
                    yield f"{pad}if not ({s.test}):", s.rule
                    yield from lines(s.orelse, indent + 1)
            case Loop():
                yield (f"{pad}for {s.name} in {s.over}:" if s.over else f"{pad}while True:"), ""
                yield from lines(s.body, indent + 1)
            case Break():
                yield f"{pad}break", ""
            case _:
                raise AssertionError(s)
    if empty:
        yield f"{pad}pass", ""


def _moves(moves: list[tuple[str, str, frozenset[str]]], pad: str) -> Iterator[str]:
    """One after another, in an order in which none reads what another has set; else at once."""
    left = list(moves)
    while left:
        free = [m for m in left if not any(m[0] in o[2] for o in left if o is not m)]
        if not free:
            names, texts = ", ".join(m[0] for m in left), ", ".join(f"({m[1]})" for m in left)
            yield f"{pad}{names} = {texts}"
            return
        for name, text, _ in free[:1]:
            yield f"{pad}{name} = {text}"
        left.remove(free[0])
