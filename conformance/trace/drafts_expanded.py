"""What short forms leave out of drafts: how many each request has, and how many were rejected."""

from collections.abc import Sequence
from itertools import repeat
from operator import add, sub

from nullblock.conformance.trace.deltas import ScheduleDelta, UpdateDelta
from nullblock.conformance.trace.drafts import Draft, DraftDelta, Drafted
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.records import Output, Schedule, StepInFlight

_RECORDER = "record it again: a recorder writes what happens, in its order"


class Rejections:
    """Counts the drafts rejected since a step was scheduled. Memory: the steps in flight."""

    def __init__(self) -> None:
        self.since: dict[int, int] = {}
        """By request, since the step scheduled last."""
        self._in_flight: dict[int, Drafted] = {}

    def scheduled(self, step: Schedule) -> None:
        """A step is scheduled."""
        if self.since:
            self.since.clear()
        if step.drafts:
            self._in_flight[step.step] = step.drafts

    def in_flight(self, steps: Sequence[StepInFlight]) -> None:
        """Steps that a ``state`` tells of."""
        for step in steps:
            if step.drafts:
                self._in_flight.setdefault(step.step, step.drafts)

    def output(self, output: Output) -> None:
        """What was sampled in a step tells how many of its drafts were rejected."""
        drafts = self._in_flight.pop(output.step, None)
        if drafts is None:
            return
        counts = dict(zip(output.ids, output.counts, strict=True))
        rejected = {id: n - (m - 1) for id, n in drafts if (m := counts.get(id))}
        if since := self.since:
            rejected = since | {id: since.get(id, 0) + n for id, n in rejected.items()}
        self.since = rejected

    def clear(self) -> None:
        """Nothing is known any more."""
        self.since.clear()
        self._in_flight.clear()


def settled(
    ids: list[int], computed: list[int], outputs: list[int], drafts: Drafted, since: dict[int, int]
) -> None:
    """Count the drafts of the step before, and those that were rejected since, in place."""
    verified = map(dict(drafts).get, ids, repeat(0))
    rejected = list(map(since.get, ids, repeat(0)))
    computed[:] = map(sub, computed, rejected)
    outputs[:] = map(add, outputs, map(sub, verified, rejected))


def drafts_of(line: ScheduleDelta, stay: list[int]) -> tuple[list[int], Drafted]:
    """How many drafts each of those who stay has; and those of everybody who has some."""
    if not line.drafted:
        n = line.drafts
        return [n] * len(stay), list(zip(stay, repeat(n))) if n else []
    many = dict.fromkeys(stay, line.drafts) | dict.fromkeys(line.ids, 0)
    for id, n in line.drafted:
        if id not in many:
            what = f"drafts of request {id}, which step {line.step} does not schedule"
            raise Malformed(what, _RECORDER)
        many[id] = n
    return [many[id] for id in stay], [(id, n) for id, n in many.items() if n]


def proposed(line: DraftDelta, output: Output | None) -> Draft:
    """The ``draft`` that a short one stands for."""
    if output is None or output.step != line.step:
        raise Malformed(f"drafts of step {line.step}, which is not the last one", _RECORDER)
    counts = line.counts or [line.each] * len(output.ids)
    if len(counts) != len(output.ids):
        many = f"{len(counts)} numbers of drafts"
        raise Malformed(f"{many} for {len(output.ids)} requests of step {line.step}", _RECORDER)
    return Draft(ids=output.ids, counts=counts)


def cut_off(line: UpdateDelta, ids: list[int], tokens: list[int]) -> list[int]:
    """How many tokens each gets: those who stop before the last of them get fewer."""
    cut = dict(line.cut)
    if unknown := cut.keys() - set(ids):
        what = f"request {min(unknown)}, which step {line.step} does not pass on"
        raise Malformed(what, _RECORDER)
    return [cut.get(id, n) for id, n in zip(ids, tokens, strict=True)]
