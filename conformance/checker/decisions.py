"""Compares recorded steps with those of the rules, and names the rule that decided."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET

from nullblock.conformance.checker.names import Same
from nullblock.conformance.groups import by_group
from nullblock.conformance.trace.records import CachedRequests, Groups, NewRequest, Schedule
from nullblock.spec.fields import PREEMPTED, RUNNING, WAITING
from nullblock.spec.machine.output import Blocks, CachedRequest, SchedulerOutput

RAISED = "it raised "
"""How the account of an exception begins."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A decision that the rules make otherwise."""

    rule: str | None
    """The rule that decides otherwise; None where the engine raised in place of a decision, which
    breaks no rule that could be named."""
    what: str
    expected: Any
    actual: Any
    request: int | None = None

    @property
    def raised(self) -> str:
        """The exception that the engine raised in place of a decision; mostly none."""
        return "" if self.rule is not None else str(self.actual).removeprefix(RAISED)

    @property
    def told(self) -> str:
        """What is wrong, in words."""
        return f"{self.what}: the engine raised {self.raised}" if self.raised else self.what


def schedule(out: SchedulerOutput, seen: Schedule, s: Any, same: Same) -> Iterator[Mismatch]:
    """Where a recorded step departs, in the order in which a step is decided."""
    yield from _preempted(out, seen)
    yield from _hits(out, seen)
    yield from _scheduled(out, seen, s)
    yield from _drafts(out, seen)
    yield from _new(out, seen.new, s, same)
    if seen.cached is not UNSET:
        yield from _cached(out.cached, seen.cached, same)
    elif out.cached:
        yield Mismatch("OUT-5", "the known requests", [q.id for q in out.cached], [])
    if sorted(out.finished) != seen.finished:
        yield Mismatch("OUT-6", "who is reported finished", sorted(out.finished), seen.finished)
    if seen.common_prefix is not UNSET and seen.common_prefix != out.common_prefixes:
        expected = out.common_prefixes
        yield Mismatch("OUT-4", "the common prefix blocks", expected, seen.common_prefix)
    if not zeroes_alike(out, seen, s.k, same):
        yield Mismatch("GROUP-26", "the blocks to zero", list(out.to_zero), seen.zeroed)


def zeroes_alike(out: SchedulerOutput, seen: Schedule, k: Any, same: Same) -> bool:
    """Whether workers are told to zero what the rules say, as far as a trace tells it."""
    told = k.mamba and k.tells_blocks
    return not told or same(out.to_zero, seen.zeroed)


def untold(seen: Schedule) -> str | None:
    """A field that a recorded step lacks, where block ids are told: whoever is new has a table,
    and a list of those who got blocks may be empty, so that neither is left out for want of any.
    """
    if any(q.blocks is UNSET for q in seen.new):
        return "new.blocks"
    return "cached.blocks" if seen.cached is not UNSET and seen.cached.blocks is UNSET else None


def _preempted(out: SchedulerOutput, seen: Schedule) -> Iterator[Mismatch]:
    expected = sorted(out.preempted)
    if expected != seen.preempted:
        if set(expected) <= set(seen.preempted):
            rule = "ALLOC-1"  # preempted, although slots fit
        else:
            rule = "PREEMPT-2" if set(expected) > set(seen.preempted) else "PREEMPT-1"
        yield Mismatch(rule, "who is preempted", expected, seen.preempted)


def _hits(out: SchedulerOutput, seen: Schedule) -> Iterator[Mismatch]:
    """Another hit makes another number of tokens, so it comes first."""
    told = {q.id: q.computed for q in seen.new}
    if seen.cached is not UNSET and seen.cached.computed is not UNSET:
        resumed = set(seen.cached.resumed)
        known = zip(seen.cached.ids, seen.cached.computed, strict=True)
        told |= {r: n for r, n in known if r in resumed}
    ours = {q.id: q.computed for q in out.new}
    ours |= {q.id: q.computed for q in out.cached if q.resumed}
    for r, n in ours.items():
        if told.get(r, n) != n:
            yield Mismatch("HASH-11", f"the hit of request {r}", n, told[r], r)


def _scheduled(out: SchedulerOutput, seen: Schedule, s: Any) -> Iterator[Mismatch]:
    expected, actual = (
        dict(out.num_scheduled_tokens),
        dict(zip(seen.ids, seen.tokens, strict=True)),
    )
    entered = {q.id for q in out.new} | {q.id for q in out.cached if q.resumed}
    for r in seen.ids:
        if r not in expected:
            yield Mismatch(_not_admitted(s, r), f"request {r} is scheduled", None, actual[r], r)
    for r, n in expected.items():
        if r not in actual:
            rule = "WAIT-9" if r in entered else "RUN-4"
            yield Mismatch(rule, f"request {r} is not scheduled", n, None, r)
        elif n != actual[r]:
            rule = "WAIT-2" if r in entered else "RUN-2"
            rule = "RUN-1" if n in (s.k.threshold, s.k.budget - _before(out, r)) else rule
            yield Mismatch(rule, f"the number of tokens of request {r}", n, actual[r], r)
    if list(expected) != seen.ids:
        yield Mismatch("OUT-1", "the schedule order", list(expected), seen.ids)


def _drafts(out: SchedulerOutput, seen: Schedule) -> Iterator[Mismatch]:
    """How many of the tokens scheduled are drafts."""
    expected, actual = dict(out.num_draft_tokens), dict(seen.drafts)
    for r in dict.fromkeys([*expected, *actual]):
        ours, theirs = expected.get(r, 0), actual.get(r, 0)
        if ours != theirs:
            yield Mismatch("DRAFT-3", f"the drafts of request {r}", ours, theirs, r)
    if list(out.num_draft_tokens) != seen.drafts:
        told = [r for r, _ in seen.drafts]
        yield Mismatch("OUT-11", "whose drafts are verified", list(expected), told)


def _before(out: SchedulerOutput, r: Any) -> int:
    """Tokens granted in this step before r's turn."""
    total = 0
    for q, n in out.num_scheduled_tokens:
        if q == r:
            break
        total += n
    return total


def _not_admitted(s: Any, r: int) -> str:
    """The rule by which a request is not scheduled that a trace says is."""
    if any(q == r for q, _ in s.k.refused):
        return "LIFE-2"
    if s.stage[r] == RUNNING:
        # Passed over, or not reached: the phase was over, or the budget spent, before its turn.
        return "RUN-7" if s.halted == 1 else "RUN-1" if s.budget == 0 else "RUN-2"
    if s.stage[r] not in (WAITING, PREEMPTED):
        return "RUN-14"
    if s.turned or not s.blocked:
        return "WAIT-5"
    return "WAIT-8" if s.k.held_back else "WAIT-10"


def _new(out: SchedulerOutput, seen: list[NewRequest], s: Any, same: Same) -> Iterator[Mismatch]:
    if [q.id for q in out.new] != [q.id for q in seen]:
        rule = "OUT-16" if s.k.second_runner else "WAIT-9"
        yield Mismatch(rule, "who is new", [q.id for q in out.new], [q.id for q in seen])
        return
    for q, p in zip(out.new, seen, strict=True):
        if p.prefill not in (UNSET, q.prefill):
            what = f"how many tokens are sent of request {q.id}, which is new"
            yield Mismatch("OUT-17", what, q.prefill, p.prefill, q.id)
        if p.blocks is not UNSET:
            hits = [q.computed // size for size in s.k.sizes]
            yield from _tables(q.id, q.blocks, p.blocks, hits, same)


def _tables(
    r: Any, ours: Blocks, actual: Groups, hits: list[int], same: Same
) -> Iterator[Mismatch]:
    """`hits`: how many blocks of each table a hit covers."""
    expected = by_group(ours)
    hit = [table[:n] for table, n in zip(expected, hits, strict=True)]
    told = [table[:n] for table, n in zip(actual, hits, strict=False)]
    if len(actual) != len(expected) or not alike(hit, told, same):
        rule = "HASH-10" if nulls(expected) == nulls(actual) else "GROUP-4"
        yield Mismatch(rule, f"the hit blocks of request {r}", shown(expected), actual, r)
    elif not alike(expected, actual, same):
        yield Mismatch("POOL-10", f"the new blocks of request {r}", shown(expected), actual, r)


def alike(expected: Sequence[Sequence[int]], actual: Groups, same: Same) -> bool:
    """Whether the blocks of each group are the same, as far as a trace tells their ids."""
    return len(expected) == len(actual) and all(map(same, expected, actual))


def nulls(tables: Sequence[Sequence[int]]) -> list[list[int]]:
    """Where each table has the null block."""
    return [[i for i, b in enumerate(table) if not b] for table in tables]


def shown(blocks: Sequence[Sequence[int]]) -> Any:
    """Blocks by group, as a story shows them: of one group without the group."""
    return list(map(list, blocks)) if len(blocks) > 1 else list(blocks[0])


def _cached(
    out: tuple[CachedRequest, ...], seen: CachedRequests, same: Same
) -> Iterator[Mismatch]:
    if [q.id for q in out] != seen.ids:
        yield Mismatch("OUT-5", "the known requests", [q.id for q in out], seen.ids)
        return
    resumed = [q.id for q in out if q.resumed]
    if resumed != seen.resumed:
        yield Mismatch("WAIT-9", "who is resumed", resumed, seen.resumed)
    if seen.computed is not UNSET:
        for q, n in zip(out, seen.computed, strict=True):
            if q.computed != n:
                what = f"the computed tokens of request {q.id}"
                yield Mismatch("UPD-1", what, q.computed, n, q.id)
    if seen.num_output is not UNSET:
        for q, n in zip(out, seen.num_output, strict=True):
            if q.num_output != n:
                yield Mismatch("UPD-3", f"the output of request {q.id}", q.num_output, n, q.id)
    if seen.all_tokens is not UNSET:
        again = [(q.id, q.all_tokens) for q in out if q.all_tokens is not None]
        if again != seen.all_tokens:
            yield Mismatch("OUT-3", "whose tokens are sent again", again, seen.all_tokens)
    if seen.blocks is not UNSET:
        yield from _appended(out, seen.blocks, same)


def _appended(
    out: tuple[CachedRequest, ...], seen: list[tuple[int, Groups]], same: Same
) -> Iterator[Mismatch]:
    given = dict(seen)
    if len(given) != len(seen):
        yield Mismatch("OUT-2", "blocks are told once a request", len(given), len(seen))
    for q in out:
        told = by_group(q.new_blocks)
        groups = given.pop(q.id, [[]] * len(told))
        if not alike(told, groups, same):
            rule = "POOL-10" if any(told) else "OUT-2"
            what = f"the new blocks of request {q.id}"
            yield Mismatch(rule, what, shown(told), groups, q.id)
    for r, groups in given.items():
        yield Mismatch("OUT-2", f"request {r} gets blocks", [], groups, r)
