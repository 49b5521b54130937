"""Which fields a statement reads, so that it is checked once for each combination of their values,
and which a rule writes, so that only what reads them is checked again after it.

A state has many fields and changes a few at a time. A statement is a function of the fields that
its text names, and the text is searched for them, helpers included: more than it needs does no
harm.
"""

import dis
from collections.abc import Callable, Iterator
from operator import itemgetter
from types import CodeType, FunctionType
from typing import Any

from nullblock.spec.concrete import MAPS
from nullblock.spec.explorer.model import SCALARS
from nullblock.spec.fills import FILLS

VECTOR = (*MAPS, *SCALARS)
"""The order in which `Identity.key` numbers the parts of a state."""
OF_ENVIRONMENT = {"last_token": {"ntok", "cur", "upto", "frame"}}
"""What answers of the environment read of the state."""


def reads(statement: Callable[..., Any]) -> frozenset[str]:
    """The fields that `statement` may read."""
    found: set[str] = set()
    seen: set[object] = set()
    _collect(statement, found, seen)
    return frozenset(found)


def _collect(f: Any, found: set[str], seen: set[object]) -> None:
    if not isinstance(f, FunctionType) or f in seen:
        return
    seen.add(f)
    for name in set(_names(f.__code__)):
        if name in VECTOR:
            found.add(name)
        found |= OF_ENVIRONMENT.get(name, set())
        _collect(f.__globals__.get(name), found, seen)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def writes(rule: Callable[..., Any]) -> frozenset[str]:
    """The fields that a rule's body may write: those it sets and, where it sets entries, every map
    that it names.
    """
    found: set[str] = set()
    _collect_writes(rule, found, set())
    return frozenset(found)


def _collect_writes(f: Any, found: set[str], seen: set[object]) -> None:
    if not isinstance(f, FunctionType) or f in seen:
        return
    seen.add(f)
    text = list(dis.get_instructions(f.__code__))
    found |= {i.argval for i in text if i.opname == "STORE_ATTR"} & set(VECTOR)
    if any(i.opname == "STORE_SUBSCR" or i.argval in FILLS for i in text):
        found |= set(f.__code__.co_names) & set(MAPS)
    for name in f.__code__.co_names:
        _collect_writes(f.__globals__.get(name), found, seen)


class Remembered:
    """A statement, and the combinations of values for which it is known to hold."""

    def __init__(self, id: str, holds: Callable[[Any], Any]) -> None:
        self.id, self.holds = id, holds
        places = [VECTOR.index(f) for f in sorted(reads(holds))]
        # With fewer than two places itemgetter gives no tuple; any other field makes it one.
        self.pick = itemgetter(*(places + [0, 0])[: max(2, len(places))])
        self.known: set[Any] = set()

    def __call__(self, s: Any, vector: tuple[Any, ...]) -> bool:
        """Whether the statement holds in s, whose parts are numbered by `vector`."""
        values = self.pick(vector)
        if values in self.known:
            return True
        if not self.holds(s):
            return False
        self.known.add(values)
        return True
