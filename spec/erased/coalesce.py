"""One variable for what a join or a loop only renames: moves that then move nothing go away."""

from collections.abc import Iterable, Sequence

from nullblock.spec.erased.code import Break, Do, If, Let, Loop, Raise, Set, Statement

Live = frozenset[str]


class _Interference:
    """Which variables are needed at one time."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = frozenset(names)
        self.with_: dict[str, set[str]] = {name: set() for name in self.names}
        self.after_loop: list[Live] = []

    def defined(self, name: str, live: Live, source: str = "") -> None:
        """`name` gets a value while `live` are needed."""
        if name not in self.names:
            return
        for other in live:
            if other not in (name, source):
                self.with_[name].add(other)
                self.with_[other].add(name)

    def used(self, atoms: Iterable[str]) -> Live:
        """Those of the atoms that count."""
        return self.names.intersection(atoms)

    def before(self, block: Sequence[Statement], live: Live) -> Live:
        """What is needed before a block, given what is needed after it."""
        for s in reversed(block):
            match s:
                case Let():
                    self.defined(s.name, live)
                    live = (live - {s.name}) | self.used(s.atoms)
                case Do():
                    live = frozenset() if isinstance(s, Raise) else live
                    live |= self.used(s.atoms)
                case Set():
                    targets = frozenset(name for name, _ in s.moves)
                    for name, atom in s.moves:
                        self.defined(name, live | targets, atom)
                    live = (live - targets) | self.used(atom for _, atom in s.moves)
                case If():
                    ways = self.before(s.body, live) | self.before(s.orelse, live)
                    live = ways | self.used((s.test,))
                case Loop():
                    live = self.loop(s, live)
                case Break():
                    live = self.after_loop[-1]
        return live

    def loop(self, s: Loop, live: Live) -> Live:
        """The head needs what one turn needs, and what the next one does."""
        self.after_loop.append(live)
        head: Live = frozenset()
        while True:
            again = self.before(s.body, head)
            if again <= head:
                break
            head |= again
        self.after_loop.pop()
        return head | (self.used(s.atoms) | live if s.over else frozenset())


def coalesce(block: list[Statement], kept: Iterable[str]) -> None:
    """Rename in place. `kept` are variables that have a value before the block."""
    moves = [move for s in _sets(block) for move in s.moves]
    kept = frozenset(kept)
    names = {name for name, _ in moves} | kept
    found = _Interference(names)
    entry = found.before(block, frozenset())
    for name in entry:
        found.defined(name, entry)
    leader = {name: name for name in names}
    members = {name: {name} for name in names}
    for a, b in moves:
        if b not in names:
            continue
        x, y = leader[a], leader[b]
        if x == y or any(found.with_[m] & members[y] for m in members[x]):
            continue
        if x in kept:
            x, y = y, x
        if x in kept:
            continue
        for m in members[x]:
            leader[m] = y
        members[y] |= members.pop(x)
    _rename(block, leader)


def _sets(block: Iterable[Statement]) -> Iterable[Set]:
    for s in block:
        match s:
            case Set():
                yield s
            case If():
                yield from _sets(s.body)
                yield from _sets(s.orelse)
            case Loop():
                yield from _sets(s.body)
            case _:
                pass


def _rename(block: Iterable[Statement], leader: dict[str, str]) -> None:
    for s in block:
        match s:
            case Let() | Do():
                s.atoms = tuple(leader.get(a, a) for a in s.atoms)
            case Set():
                renamed = [(leader[n], leader.get(a, a)) for n, a in s.moves]
                s.moves = [(n, a) for n, a in renamed if n != a]
            case If():
                s.test = leader.get(s.test, s.test)
                _rename(s.body, leader)
                _rename(s.orelse, leader)
            case Loop():
                s.atoms = tuple(leader.get(a, a) for a in s.atoms)
                _rename(s.body, leader)
            case Break():
                pass
