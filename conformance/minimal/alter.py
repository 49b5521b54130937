"""Ways to alter what a record tells of blocks: what a fault of the pool may look like there."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.minimal.words import CACHED, COUNTS, FREE, QUEUE, Part, Words
from nullblock.conformance.trace.records import Record, RequestState, Schedule, State

Pairs = list[tuple[int, int]]
Table = list[int]
STRANGE = 2**30
"""A number of content that no block has."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record tells something of blocks."""

    what: str
    """As a mismatch calls it."""
    value: Any
    put: Callable[[Any], Record]
    """The record with another value there."""
    request: int | None = None


def alterations(
    record: Any, words: Words, blocks: Sequence[int], of: Part
) -> Iterator[tuple[Mismatch, Record]]:
    """A record with a value altered that a fault so named may be in, and the mismatch that this
    comes to. `blocks`: those of the pool, and one that is not.
    """
    for place in _places(record):
        if not words.is_about(place.what):
            continue
        for other in _others(place, words, blocks, of):
            if other == place.value:
                continue
            shown = other if place.request is None else [other]
            told = Mismatch(words.rule, place.what, place.value, shown, place.request)
            yield told, place.put(other)


def _places(record: Any) -> Iterator[Place]:
    state = UNSET if isinstance(record, State) else record.state
    if state is not UNSET and state.num_free is not UNSET:
        yield Place(
            FREE, state.num_free, lambda n: replace(record, state=replace(state, num_free=n))
        )
    if isinstance(record, State):
        for what, name in ((QUEUE, "free_queue"), (COUNTS, "ref_cnt"), (CACHED, "chains")):
            if (value := getattr(record, name)) is not UNSET:
                yield Place(what, value, partial(_with, record, name))
        for i, q in enumerate(record.requests):
            yield _table_of(record, i, q)
    elif isinstance(record, Schedule):
        yield from _new(record)
        yield from _grown(record)


def _with(record: State, name: str, value: Any) -> Record:
    """The state with another value of a field."""
    return replace(record, **{name: value})


def _table_of(record: State, i: int, q: RequestState) -> Place:
    def put(table: Table) -> Record:
        rows = [*record.requests]
        rows[i] = replace(q, blocks=[table])
        return replace(record, requests=rows)

    table = q.blocks[0] if q.blocks else []
    return Place(f"the blocks of request {q.id}", table, put, q.id)


def _new(record: Schedule) -> Iterator[Place]:
    for i, q in enumerate(record.new):

        def put(table: Table, i: int = i) -> Record:
            rows = [*record.new]
            rows[i] = replace(rows[i], blocks=[table])
            return replace(record, new=rows)

        table = q.blocks[0] if q.blocks else []
        for kind in ("hit", "new"):
            yield Place(f"the {kind} blocks of request {q.id}", table, put, q.id)


def _grown(record: Schedule) -> Iterator[Place]:
    cached = record.cached
    if cached is UNSET or cached.blocks is UNSET:
        return
    told = dict(cached.blocks)
    for r in cached.ids:

        def put(table: Table, r: int = r) -> Record:
            rows = {**told, r: [table]}
            return replace(record, cached=replace(cached, blocks=list(rows.items())))

        table = told[r][0] if r in told else []
        yield Place(f"the new blocks of request {r}", table, put, r)


def _others(place: Place, words: Words, blocks: Sequence[int], of: Part) -> Iterator[Any]:
    """Other values there."""
    if place.what == FREE:
        yield from (place.value - 1, place.value + 1)
    elif place.what == COUNTS:
        yield from _counts(dict(place.value), words, blocks, of)
    elif place.what == CACHED:
        yield from _contents(dict(place.value), words, blocks, of)
    else:
        yield from _lists(place.value, blocks)


def _lists(told: Table, blocks: Sequence[int]) -> Iterator[Table]:
    """Another block somewhere, one too many, one missing, two that have changed places."""
    for i in range(len(told) + 1):
        for b in blocks:
            yield [*told[:i], b, *told[i + 1 :]]
            yield [*told[:i], b, *told[i:]]
    for i in range(len(told)):
        yield [*told[:i], *told[i + 1 :]]
    for i, j in combinations(range(len(told)), 2):
        yield [*told[:i], told[j], *told[i + 1 : j], told[i], *told[j + 1 :]]


def _counts(
    told: dict[int, int], words: Words, blocks: Sequence[int], of: Part
) -> Iterator[Pairs]:
    """One more or one fewer of a block of each part that the words name."""
    for some in _meant([part for _, part in words.how], blocks, of):
        found = dict(told)
        for b, (way, _) in zip(some, words.how, strict=True):
            found[b] = found.get(b, 0) + (1 if way == "more" else -1)
        yield [(b, n) for b, n in found.items() if n]


def _contents(
    told: dict[int, int], words: Words, blocks: Sequence[int], of: Part
) -> Iterator[Pairs]:
    """Of each part that the words name, a block that is not cached, or with other content."""
    for some in _meant([part for _, part in words.how], blocks, of):
        content = [told[b] for b in some if b in told] or [STRANGE]
        found = {b: n for b, n in told.items() if b not in some}
        for b, (way, _) in zip(some, words.how, strict=True):
            if way != "not cached":
                found[b] = next((n for n in content if n != told.get(b)), STRANGE)
        yield list(found.items())


def _meant(parts: Sequence[str], blocks: Sequence[int], of: Part) -> Iterator[list[int]]:
    """The first blocks that have such parts, each another one; nothing where there are too few."""
    found: list[int] = []
    for part in parts:
        b = next((b for b in blocks if b not in found and of(b) == part), None)
        if b is None:
            return
        found.append(b)
    yield found
