"""One publisher of KV events: the numbers of its batches, and what they say of its cache."""

import hashlib
from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

from nullblock.conformance.kv_events.frames import Frame
from nullblock.conformance.kv_events.verdict import Evidence
from nullblock.spec.kv_events import (
    Breach,
    Cache,
    Event,
    Premises,
    Removed,
    Stored,
    follows,
    judge,
    take,
)
from nullblock.spec.kv_events.cache import forget
from nullblock.spec.kv_events.law import children_go_first, parent_is_cached

RECENT = 4096
"""Batches whose digests are kept, to tell a batch that was sent again from another one."""
_HISTORY = 6


class Number(Enum):
    """What the number of a batch says about it."""

    NEXT = auto()
    REPEATED = auto()
    """The same batch, sent again: nothing to judge."""
    RESTARTED = auto()
    """The first batch of a new engine."""
    GAP = auto()
    CHANGED = auto()
    """A number that was used before, for another batch."""


@dataclass(slots=True)
class Publisher:
    """A server, or one of its data-parallel ranks.

    Attributes:
        name: topic and rank, for people; empty for the only one.
        from_start: whether the stream begins with the engine; None: as the first number says.
        history: the latest events, with their numbers.
    """

    name: str
    premises: Premises
    from_start: bool | None
    cache: Cache = field(init=False)
    numbered: bool | None = None
    last: int | None = None
    history: deque[tuple[int, Event]] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    _digests: dict[int, bytes] = field(default_factory=dict)
    _ts: float | None = None
    """Of the last batch."""

    def __post_init__(self) -> None:
        self.cache = Cache(self.premises)

    def number(self, frame: Frame, ts: float | None) -> Number:
        """Place a batch by its number, and by its time where the number is of long ago."""
        if self.numbered is None:
            self.numbered = frame.seq is not None
            known = self.from_start
            self.cache.known = bool(frame.seq == 0 if known is None else known)
            if frame.seq is not None and not self.from_start:
                # The first number there is counts as the first.
                self.last = frame.seq - 1 if frame.seq else None
        if frame.seq is None:
            return Number.NEXT
        digest = hashlib.blake2b(frame.raw, digest_size=16).digest()
        later = ts is not None and self._ts is not None and ts > self._ts
        if follows(self.last, frame.seq):
            self._remember(frame.seq, digest)
            self._ts = ts
            return Number.NEXT
        if self.last is None or frame.seq > self.last:
            return Number.GAP
        before = self._digests.get(frame.seq)
        if before == digest or (before is None and frame.seq and not later):
            return Number.REPEATED
        return Number.CHANGED if frame.seq else Number.RESTARTED

    def restart(self) -> None:
        """A new engine: its cache is empty, its batches are numbered from 0."""
        self.cache = Cache(self.premises)
        self.last = None
        self._digests.clear()
        self.history.clear()

    def lose(self) -> None:
        """What is cached is not known any more."""
        forget(self.cache, known=False)

    def go_on(self, frame: Frame) -> None:
        """Go on after a gap: what is cached is not known any more."""
        assert frame.seq is not None
        self.lose()
        self.last = frame.seq - 1 if frame.seq else None

    def accept(self, frame: Frame, ts: float | None) -> None:
        """A batch that is judged whatever its number."""
        assert frame.seq is not None
        self._ts = ts
        self._remember(frame.seq, hashlib.blake2b(frame.raw, digest_size=16).digest())

    def _remember(self, seq: int, digest: bytes) -> None:
        self.last = seq
        self._digests[seq] = digest
        if len(self._digests) > RECENT:
            # The first is kept: whoever replays everything begins with it.
            oldest = iter(self._digests)
            next(oldest)
            del self._digests[next(oldest)]

    def event(self, e: Event, number: int, evidence: Evidence) -> tuple[str, Breach] | None:
        """Judge an event and count it; what it breaks, or None."""
        broken = judge(self.cache, e, evidence.judged)
        if broken is not None:
            return broken
        _count(self.cache, e, evidence)
        take(self.cache, e, number)
        if isinstance(e, Stored):
            cache = self.cache
            evidence.peak_cached = max(evidence.peak_cached, cache.num_copies)
            copies = (cache.entries[e.group, hash].copies for hash in e.hashes)
            evidence.most_copies = max(evidence.most_copies, max(copies, default=0))
        self.history.append((number, e))
        return None


def _count(cache: Cache, e: Event, evidence: Evidence) -> None:
    """Count an event, given what was known before it."""
    evidence.events += 1
    match e:
        case Stored():
            evidence.stored += 1
            evidence.blocks += len(e.hashes)
            evidence.tokens += len(e.token_ids)
            evidence.skipped_blocks += len(e.token_ids) // e.block_size - len(e.hashes)
            evidence.groups += e.group not in cache.shapes
            for hash in e.hashes:
                key = (e.group, hash)
                if key in cache.entries:
                    evidence.duplicates += 1
                elif key not in cache.removed:
                    evidence.distinct += 1
            if cache.known and e.parent is not None and cache.full(e.group):
                evidence.absent_parents += parent_is_cached(cache, e) is not None
        case Removed():
            evidence.removed += 1
            evidence.unknown_removals += (e.group, e.hash) not in cache.entries
            if cache.known and cache.full(e.group) and children_go_first(cache, e) is not None:
                evidence.orphans += cache.children[e.group, e.hash]
        case _:
            evidence.cleared += 1
