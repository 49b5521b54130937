"""How a fault of the block pool is named, so that it is known again in another state of the pool.

Block ids say nothing there. What is kept of a block is its part: whether it is held, by how many,
whether the prefix cache knows it, whether anybody has had it before. Two faults are of one kind if
the same rule decides otherwise about the same field, and the two values differ in the same way
between blocks of the same parts.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.minimal.history import given
from nullblock.conformance.trace.records import Record, Schedule, Update

Part = Callable[[int], str]
"""What a block is in a state."""
QUEUE, COUNTS, CACHED = "the free queue", "the reference counts", "the cached blocks"
FREE = "the number of free blocks"
TABLES = re.compile(r"the (?:hit |new )?blocks of request \d+")
NUMBER = re.compile(r" \d+")


@dataclass(frozen=True, slots=True)
class Words:
    """What a fault is called."""

    rule: str
    field: str
    """Of which record, and of which entries of it."""
    how: tuple[tuple[str, ...], ...]
    """How the values differ."""

    def is_about(self, what: str) -> bool:
        """Whether a mismatch of that field may have this name."""
        return self.field.startswith(_field(what))

    def __str__(self) -> str:
        return f"{self.field} ({self.rule}): " + "; ".join(map(", ".join, self.how))


def is_of_pool(mismatch: Mismatch) -> bool:
    """Whether a mismatch is one of blocks, of which this module has the words."""
    what = mismatch.what
    return what in (QUEUE, COUNTS, CACHED, FREE) or TABLES.fullmatch(what) is not None


def part(s: Any, used: set[int]) -> Part:
    """The parts of blocks in a state of the rules. `used`: what somebody has been given so far."""

    def of(block: int) -> str:
        if not 0 < block <= s.k.usable:
            return "no block" if block else "the null block"
        held = s.ref.get(block, 0)
        words = [("free", "held once")[held] if held < 2 else "shared"]
        words += ["cached"] * (block in s.hsh) + ["used before"] * (block in used)
        return " and ".join(words)

    return of


def named(mismatch: Mismatch, fault: Record, of: Part) -> Words:
    """The name of a mismatch that a record came to."""
    assert mismatch.rule is not None
    field = f"{_field(mismatch.what)}, {_entry(fault, mismatch.request)}"
    how = difference(mismatch, of)
    return Words(mismatch.rule, field, how + _moved(fault) if mismatch.what == FREE else how)


def _field(what: str) -> str:
    """What differs, without the number of the request that it is of."""
    return NUMBER.sub("", what)


def _entry(fault: Record, request: int | None) -> str:
    """The kind of a record, and what a request that has an entry in it is there."""
    kind = f"in {type(fault).__name__.lower()}"
    if not isinstance(fault, Schedule) or request is None:
        return kind
    if any(q.id == request for q in fault.new):
        return f"{kind}, new"
    resumed = request in getattr(fault.cached, "resumed", ())
    return f"{kind}, resumed" if resumed else f"{kind}, running"


def _moved(record: Any) -> tuple[tuple[str, ...], ...]:
    """What a decision does to how many blocks are free, which a number alone does not tell."""
    match record:
        case Schedule():
            told = {"blocks are given": bool(given(record)), "preempted": bool(record.preempted)}
        case Update():
            told = {"somebody ends": bool(record.finish)}
        case _:
            told = {}
    return tuple((what,) for what, does in told.items() if does)


def difference(mismatch: Mismatch, of: Part) -> tuple[tuple[str, ...], ...]:
    """How the recorded value differs from that of the rules."""
    ours, theirs = mismatch.expected, mismatch.actual
    if mismatch.what == FREE:
        return (("more" if theirs > ours else "fewer",),)
    if mismatch.what == COUNTS:
        return _of_counts(dict(ours), dict(theirs), of)
    if mismatch.what == CACHED:
        return _of_content(dict(ours), dict(theirs), of)
    if mismatch.what == QUEUE:
        return (_of_lists(ours, theirs, of),)
    return (_of_lists(ours, theirs[0] if theirs else [], of),)  # tables, of one group


def _of_lists(ours: Sequence[int], theirs: Sequence[int], of: Part) -> tuple[str, ...]:
    """At the first place where two lists of blocks differ."""
    same = (i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)
    place = next(same, min(len(ours), len(theirs)))
    if len(theirs) < len(ours):
        return ("one is missing", of(ours[place]))
    other = theirs[place]
    told = "one that is there already" if other in ours else of(other)
    if len(theirs) > len(ours):
        return ("one too many", told)
    if sorted(theirs) == sorted(ours):
        return ("another order", of(ours[place]), of(other))
    return ("another one", of(ours[place]), told)


def _of_counts(
    ours: dict[int, int], theirs: dict[int, int], of: Part
) -> tuple[tuple[str, ...], ...]:
    """Block by block: how many hold it."""
    both = sorted({*ours, *theirs})
    told = ((b, theirs.get(b, 0) - ours.get(b, 0)) for b in both)
    return tuple(sorted({("more" if n > 0 else "fewer", of(b)) for b, n in told if n}))


def _of_content(
    ours: dict[int, int], theirs: dict[int, int], of: Part
) -> tuple[tuple[str, ...], ...]:
    """Block by block: which content it is cached with."""
    found = set()
    for b in {*ours, *theirs}:
        if b not in theirs:
            found.add(("not cached", of(b)))
        elif b not in ours:
            found.add(("cached", of(b)))
        elif ours[b] != theirs[b]:
            found.add(("with other content", of(b)))
    return tuple(sorted(found))
