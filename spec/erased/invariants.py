"""What no turn of a loop changes is computed once, before the loop."""

from collections.abc import Iterable, Iterator
from itertools import takewhile

from nullblock.spec.erased.code import ANYTHING, LASTING, Do, If, Let, Loop, Raise, Set, Statement


def hoist(block: list[Statement]) -> None:
    """Move out of each loop of a block, in place, what depends on nothing that the loop gives a
    value to. It cannot fail, so that it does not matter if no turn comes to it.
    """
    out: list[Statement] = []
    for s in block:
        match s:
            case Loop():
                hoist(s.body)
                given, stored = set(_given([s])), set(_stored(s.body))
                while moved := [*_fixed(s.body, given), *_read(s.body, given, stored)]:
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


def _stored(block: Iterable[Statement]) -> Iterator[str]:
    """What a block may change."""
    for s in block:
        match s:
            case Raise():
                pass
            case Do() if s.memory:
                yield s.root
            case If():
                yield from _stored(s.body)
                yield from _stored(s.orelse)
            case Loop():
                yield from _stored(s.body)


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


def _read(body: list[Statement], given: set[str], stored: set[str]) -> Iterator[Let]:
    """Take out of a loop's body what it reads of maps that it leaves alone: as far as the head,
    to which every turn comes. What is behind that may be for a few turns only, or for none.
    """
    head = list(takewhile(lambda s: isinstance(s, Let), body))
    left: list[Statement] = []
    for s in head:
        if isinstance(s, Let) and s.total and given.isdisjoint(s.atoms) and _stays(s.root, stored):
            yield s
        else:
            left.append(s)
    body[: len(head)] = left


def _stays(root: str, stored: set[str]) -> bool:
    """Whether what is read is the same after all that a loop may change."""
    return root == LASTING or (root != ANYTHING and stored.isdisjoint((root, ANYTHING)))
