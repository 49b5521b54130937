"""What a consumer of the stream knows of the cache."""

from dataclasses import dataclass, field
from typing import assert_never

from nullblock.spec.kv_events.events import (
    FULL,
    Cleared,
    Event,
    Key,
    Premises,
    Removed,
    Stored,
    contents,
)

REMEMBERED = 2**20
"""Removed hashes that are remembered; a parent from before them is not judged."""


@dataclass(slots=True)
class Entry:
    """What is known of a hash that is cached."""

    copies: int
    parent: Key | None
    content: bytes | None
    """Digest of parent, tokens and extra keys; None where the span does not tell which block."""
    block_size: int
    at: int
    """Number of the event that stored the first of these copies."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What is the same for all blocks of a group."""

    block_size: int
    kind: str | None
    sliding_window: int | None
    partial: bool


@dataclass(slots=True)
class Cache:
    """What a consumer knows of one engine's cache.

    Attributes:
        known: everything cached is in `entries`; False for a stream that begins in the middle,
            where `entries` is what was stored since and may still be cached.
    """

    premises: Premises = field(default_factory=Premises)
    known: bool = True
    entries: dict[Key, Entry] = field(default_factory=dict)
    num_copies: int = 0
    children: dict[Key, int] = field(default_factory=dict)
    """By parent, how many of `entries` name it."""
    removed: dict[Key, int] = field(default_factory=dict)
    """Hashes without a copy, and the event that removed the last: the latest of them."""
    forgotten: bool = False
    """There were more than `REMEMBERED`."""
    shapes: dict[int | None, Shape] = field(default_factory=dict)

    def full(self, group: int | None) -> bool:
        """Whether every block of a prefix is announced in a group that was met before."""
        return group in self.shapes and is_full(self.premises, self.shapes[group])


def is_full(premises: Premises, of: Stored | Shape) -> bool:
    """Whether every block of a prefix is announced."""
    if premises.full_attention:
        return of.kind is None or of.kind in FULL
    return of.kind in FULL and not of.partial


# ---- transitions ------------------------------------------------------------


def take(c: Cache, e: Event, at: int) -> None:
    """What is known after an event, the one numbered `at`."""
    match e:
        case Stored():
            _store(c, e, at)
        case Removed():
            _remove(c, (e.group, e.hash), at)
        case Cleared():
            forget(c, known=True)
        case never:
            assert_never(never)


def forget(c: Cache, known: bool) -> None:
    """Nothing is cached (`known`), or nothing is known of what is."""
    c.entries, c.children, c.removed = {}, {}, {}
    c.num_copies, c.forgotten, c.known = 0, False, known


def _store(c: Cache, e: Stored, at: int) -> None:
    if e.group not in c.shapes:
        c.shapes[e.group] = Shape(e.block_size, e.kind, e.sliding_window, e.partial)
    told = contents(e)
    parent = None if e.parent is None else (e.group, e.parent)
    c.num_copies += len(e.hashes)
    for i, hash in enumerate(e.hashes):
        key = (e.group, hash)
        entry = c.entries.get(key)
        if entry is not None:
            entry.copies += 1
        elif told:
            c.entries[key] = Entry(1, parent, told[i], e.block_size, at)
            if parent is not None:
                c.children[parent] = c.children.get(parent, 0) + 1
        else:
            c.entries[key] = Entry(1, None, None, e.block_size, at)
        c.removed.pop(key, None)
        parent = key


def _remove(c: Cache, key: Key, at: int) -> None:
    entry = c.entries.get(key)
    if entry is None:
        # Stored before the stream began.
        return
    entry.copies -= 1
    c.num_copies -= 1
    if entry.copies:
        return
    del c.entries[key]
    if entry.parent is not None:
        c.children[entry.parent] -= 1
        if not c.children[entry.parent]:
            del c.children[entry.parent]
    c.removed[key] = at
    if len(c.removed) > REMEMBERED:
        del c.removed[next(iter(c.removed))]
        c.forgotten = True
