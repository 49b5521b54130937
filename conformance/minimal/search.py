"""Looks for a small scenario that shows a fault.

First which requests it takes: those that the decision is about, then more and more of those that
were there. Then, greedily, whatever else can go: events in ever smaller groups, the ends of
prompts, blocks of the pool. The effort is bounded by the work that all runs take together, so that
one trace always gives one scenario.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.minimal import planted, pressure, words
from nullblock.conformance.minimal.document import Builder, Document, Selection
from nullblock.conformance.minimal.fault import Same
from nullblock.conformance.minimal.history import (
    Arrival,
    Event,
    Half,
    History,
    Impossible,
    Life,
    read,
)
from nullblock.conformance.trace.records import Schedule, State, Update
from nullblock.spec.profiles import Semantics

WORK = 200_000
"""Requests and blocks scheduled, step by step, in all runs together: some ten seconds."""
TRIES = 600

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Minimal:
    """A scenario, and how far the search for a smaller one came."""

    document: Document
    note: str


def minimal(
    path: Path,
    line: int,
    file: str,
    step: int,
    mismatch: Mismatch,
    semantics: Semantics,
    progress: Progress | None = None,
    state: Any = None,
) -> Minimal:
    """A small scenario for the decision on a line of a trace; where the engine raised, the whole
    run.

    `state`: that of the rules after it, where it is at hand; faults of the pool are planted by it.

    Raises :class:`Impossible` where there is none, ``OSError``.
    """
    history = _history(path, line, file, step)
    if (small := _planted(history, mismatch, semantics, state, progress)) is not None:
        return small
    search = _Search(history, mismatch, semantics, progress)
    if mismatch.raised:
        return _whole_run(search)
    if mismatch.rule == "HASH-12" and isinstance(history.fault, State):
        raise Impossible("the fault is in which block carries which hash, not in a decision")
    first = None
    if pressure.applies(history.fault, mismatch):
        first = search.short_pool(pressure.askers(path, line, file, semantics))
    first = first or search.requests()
    if first is None:
        raise Impossible(search.why)
    best = search.smaller(first)
    rest = "nothing more can be left out" if search.done else "the search stopped there"
    note = (
        f"{_size(best)} before the decision, of {_size(_everything(history))} in the trace, found "
        f"in {_many(search.tries, 'run')} of the rules; {rest}"
    )
    return Minimal(search.builder.build(best), note)


def _planted(
    history: History,
    mismatch: Mismatch,
    semantics: Semantics,
    state: Any,
    progress: Progress | None,
) -> Minimal | None:
    """A scenario that comes to the same kind of fault by another way than the trace did."""
    if state is None or not planted.applies(history.header, mismatch, history.fault):
        return None
    name = words.named(mismatch, history.fault, words.part(state, history.used))
    if progress is not None:
        progress("scenarios tried that bring the pool into a state with such a fault")
    found = planted.planted(history.header.config, name, history.fault, semantics)
    if found is None:
        return None
    note = (
        f"{_many(found.requests, 'request')}, not of the trace, bring a pool into a state in "
        f"which the same kind of fault shows, found in {_many(found.runs, 'run')} of the rules; "
        f"it is: {name}"
    )
    return Minimal(found.document, note)


def _whole_run(search: "_Search") -> Minimal:
    """All that a trace tells before the engine raised: the rules go on there, so that they cannot
    say what the exception would come without. Raises :class:`Impossible`.
    """
    everything = search.everything()
    if everything is None:
        raise Impossible(
            "what the rules do without what the trace leaves out is something else, or it takes "
            "too long to run"
        )
    note = (
        f"all {_size(everything)} that the trace has before the engine raised: the rules go on "
        "there, and cannot say what may be left out"
    )
    return Minimal(search.builder.build(everything), note)


def _history(path: Path, line: int, file: str, step: int) -> History:
    """What stands before a decision. Raises :class:`Impossible`, ``OSError``."""
    history = read(path, line, file, step)
    if history.header.config.eagle_group:
        raise Impossible(
            "a trace of a scenario has no words for a group whose last hit is dropped"
        )
    return history


def _size(selection: Selection) -> str:
    return f"{_many(len(selection.lives), 'request')} and {_many(selection.steps, 'step')}"


def _many(n: int, what: str) -> str:
    return f"{n:,} {what}" + "s" * (n != 1)


def _everything(history: History) -> Selection:
    return Selection(tuple(history.events))


class _Spent(Exception):
    """The effort is spent."""


class _Search:
    def __init__(
        self,
        history: History,
        mismatch: Mismatch,
        semantics: Semantics,
        progress: Progress | None,
    ) -> None:
        self.history = history
        self.mismatch = mismatch
        self.progress = progress
        self.builder = Builder(history)
        self.same = Same(history, mismatch, semantics)
        self.tries = 0
        self.done = False
        """Whether the search ended because nothing more can go."""
        self.why = "the rules do not come to the same decision without what the trace leaves out"

    def holds(self, selection: Selection) -> bool:
        """Whether a selection shows the fault. Raises _Spent."""
        if self.same.work > WORK or self.tries >= TRIES:
            raise _Spent
        self.tries += 1
        if self.progress is not None:
            self.progress(f"{self.tries} scenarios tried, the last with {_size(selection)}")
        document = self.builder.build(selection)
        return self.same.shown(document, selection, self.builder.names)

    def short_pool(self, askers: set[int]) -> Selection | None:
        """A few requests in a pool too small for them, with which the fault shows."""
        names = self.builder.names

        def steps(selection: Selection) -> list[Schedule]:
            self.tries += 1
            return self.same.steps(self.builder.build(selection), selection, names)

        about = _mentioned(self.mismatch) | askers
        try:
            for selection in pressure.candidates(self.history, about, steps):
                if self.holds(selection):
                    return selection
        except _Spent:
            self.same.work, self.tries = 0, 0
        return None

    def requests(self) -> Selection | None:
        """The smallest of some sets of requests, with the fewest of some numbers of their last
        steps, with which the fault shows.
        """
        seen: set[frozenset[int]] = set()
        try:
            for lives in self._sets():
                key = frozenset(map(id, lives))
                if key in seen:
                    continue
                seen.add(key)
                for selection in self._windows(lives):
                    if self.holds(selection):
                        return selection
        except _Spent:
            self.why = "the search for it took too long"
            return self.everything()
        return None

    def everything(self) -> Selection | None:
        """All there was, if that is not too much to run, with the effort begun anew."""
        self.same.work = 0
        whole = _everything(self.history)
        work = sum(map(len, self.history.scheduled.values()))
        if work > WORK or self.tries >= TRIES or not self.holds(whole):
            return None
        return whole

    def _windows(self, lives: list[Life]) -> Iterator[Selection]:
        """The last steps in which some requests were scheduled: few, then more, then all there
        were.
        """
        numbers = {life.number for life in lives}
        steps = [s for s, ids in self.history.scheduled.items() if not numbers.isdisjoint(ids)]
        last = 1
        while last < len(steps):
            yield self._only(lives, set(steps[-last:]))
            last *= 4
        for alike in (False, True):
            yield replace(self._only(lives, set(steps)), alike=alike)
        yield self._only(lives, None)

    def _sets(self) -> Iterator[list[Life]]:
        """Sets of requests, from those that the decision is about to everybody."""
        lives, end = self.history.lives, len(self.history.events)
        about = _mentioned(self.mismatch)
        yield [x for x in lives if x.number in about and x.ended is None]
        named = about | _differing(self.history, self.mismatch)
        yield [x for x in lives if x.number in named and x.ended is None]
        steps = [
            place
            for place, e in enumerate(self.history.events)
            if isinstance(e, Half) and not e.update
        ]
        last = 1
        while last < 2 * len(steps):
            since = steps[-last] if last <= len(steps) else 0
            yield [x for x in lives if (end if x.ended is None else x.ended) >= since]
            last *= 2
        yield list(lives)

    def _only(self, lives: list[Life], steps: set[int] | None) -> Selection:
        """The events from the first of these arrivals on, without the other ones; of whole steps
        only these, if any are named.
        """
        kept = set(map(id, lives))
        whole = {e.step for e in self.history.events if isinstance(e, Half) and e.update}
        events: list[Event] = []
        arrived = False
        for event in self.history.events:
            if isinstance(event, Arrival) and id(event.life) not in kept:
                continue
            if isinstance(event, Half):
                if steps is not None and event.step in whole and event.step not in steps:
                    continue
                if not arrived:
                    continue
            arrived = arrived or isinstance(event, Arrival)
            events.append(event)
        return Selection(tuple(_whole(events, self.history)))

    def smaller(self, best: Selection) -> Selection:
        """What is left when nothing more can go, or the effort is spent."""
        try:
            while True:
                before = best
                for stage in (self._fewer_events, self._shorter_prompts, self._smaller_pool):
                    for selection in stage(best):
                        best = selection
                if best == before:
                    self.done = True
                    return best
        except _Spent:
            return self.best

    best: Selection

    def _fewer_events(self, best: Selection) -> Iterator[Selection]:
        """Leave out events, in ever smaller groups."""
        self.best = best
        units = _units(best)
        size = max(1, len(units) // 2)
        while size:
            start = 0
            while start < len(units):
                gone = {id(e) for unit in units[start : start + size] for e in unit}
                events = tuple(e for e in best.events if id(e) not in gone)
                candidate = replace(best, events=events)
                if self.holds(candidate):
                    best = self.best = candidate
                    del units[start : start + size]
                    yield best
                else:
                    start += size
            size //= 2

    def _shorter_prompts(self, best: Selection) -> Iterator[Selection]:
        """Cut prompts."""
        self.best = best
        block = self.history.header.config.block_size
        for life in best.lives:
            length = best.cut.get(life, life.add.prompt)
            whole = length // block * block
            for shorter in dict.fromkeys((1, block, block + 1, length // 2, whole)):
                if not 0 < shorter < length:
                    continue
                candidate = replace(best, cut={**best.cut, life: shorter})
                if self.holds(candidate):
                    best = self.best = candidate
                    yield best
                    break

    def _smaller_pool(self, best: Selection) -> Iterator[Selection]:
        """Take blocks out of the pool."""
        self.best = best
        now = best.num_blocks or self.history.header.config.num_blocks
        for fewer in dict.fromkeys((2, 4, 8, 16, 64, now // 4, now // 2, now * 3 // 4)):
            if 1 < fewer < now:
                candidate = replace(best, num_blocks=fewer)
                if self.holds(candidate):
                    self.best = candidate
                    yield candidate
                    return


def _whole(events: list[Event], history: History) -> Iterator[Event]:
    """Without second halves of steps whose first half is not there."""
    scheduled = set()
    for event in events:
        if isinstance(event, Half):
            if event.update and event.step not in scheduled:
                continue
            scheduled.add(event.step)
        yield event


def _units(selection: Selection) -> list[list[Event]]:
    """The events in groups that go together: the halves of a step."""
    steps: dict[int, list[Event]] = {}
    units: list[list[Event]] = []
    for event in selection.events:
        if not isinstance(event, Half):
            units.append([event])
        elif event.step in steps:
            steps[event.step].append(event)
        else:
            units.append(steps.setdefault(event.step, [event]))
    return units


def _mentioned(mismatch: Mismatch) -> set[int]:
    """The requests that a mismatch names."""
    found = set() if mismatch.request is None else {mismatch.request}
    if mismatch.what.startswith("who ") or mismatch.rule in ("OUT-5", "UPD-9", "UPD-2"):
        for value in (mismatch.expected, mismatch.actual):
            if isinstance(value, list):
                found |= {v for v in value if isinstance(v, int)}
    return found


def _differing(history: History, mismatch: Mismatch) -> set[int]:
    """The requests that the decision itself is about."""
    fault: Any = history.fault
    if isinstance(fault, (Schedule, Update)):
        return set(fault.ids)
    return set()
