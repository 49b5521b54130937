"""What no turn of a loop changes is computed once, before the loop."""

from collections.abc import Iterable, Iterator

from nullblock.spec.erased.code import If, Let, Loop, Set, Statement


def hoist(block: list[Statement]) -> None:
    """Move out of each loop of a block, in place, what depends on nothing that the loop gives a
    value to. It cannot fail, so that it does not matter if no turn comes to it.
    """
    out: list[Statement] = []
    for s in block:
        match s:
            case Loop():
                hoist(s.body)
                given = set(_given([s]))
                while moved := list(_fixed(s.body, given)):
                    out += moved
                    given.difference_update(let.name for let in moved)
            case If():
                hoist(s.body)
                hoist(s.orelse)
        out.append(s)
    block[:] = out


def _given(block: Iterable[Statement]) -> Iterator[str]:
    """The names that get a value in a block."""
    for s in block:
        match s:
            case Let():
                yield s.name
            case Set():
                yield from (name for name, _ in s.moves)
            case If():
                yield from _given(s.body)
                yield from _given(s.orelse)
            case Loop():
                yield from s.name.split(", ")
                yield from _given(s.body)


def _fixed(block: list[Statement], given: set[str]) -> Iterator[Let]:
    """Take out of a block what depends on none of the names, and on no map."""
    left: list[Statement] = []
    for s in block:
        match s:
            case Let() if s.total and not s.memory and given.isdisjoint(s.atoms):
                yield s
                continue
            case If():
                yield from _fixed(s.body, given)
                yield from _fixed(s.orelse, given)
            case Loop():
                yield from _fixed(s.body, given)
        left.append(s)
    block[:] = left
