"""Scenarios that bring the pool into a state in which a fault shows, instead of that of the trace.

Which block is popped, who holds it and what it is cached with follow from all that has happened to
the pool. A few requests lead to a state in which the same kind of fault can be: the same rule, the
same field, the same difference between blocks of the same parts (:mod:`words`). Whether it can is
not concluded, but seen: the trace of the scenario is altered so at its end, and the rules, made to
judge it, have to come to a mismatch of the same name there and to none before.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from nullblock.conformance import scenario
from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.checker.replay import Replay, Unexplained
from nullblock.conformance.checker.unknown import NotRecorded
from nullblock.conformance.errors import InputError
from nullblock.conformance.lockstep.taped_states import StateTape
from nullblock.conformance.minimal import cast
from nullblock.conformance.minimal.alter import alterations
from nullblock.conformance.minimal.document import Document, constants, stepped
from nullblock.conformance.minimal.history import given
from nullblock.conformance.minimal.play import follow, play
from nullblock.conformance.minimal.words import Words, is_of_pool, named, part
from nullblock.conformance.trace.configured import header
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.records import (
    Abort,
    Add,
    Header,
    Record,
    Schedule,
    State,
    TraceConfig,
    Update,
)
from nullblock.conformance.trace.tape import Tape
from nullblock.spec.profiles import Semantics

MOST_RUNS = 700
MOST_TRIED = 2
"""Ways in which a record is altered, of those that have the name."""
EVENTS = (Add, Schedule, Update, Abort)
"""Records that stand for an event of a scenario each."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A scenario with the fault."""

    document: Document
    words: Words
    requests: int
    runs: int
    """How many runs of the rules it took."""


def applies(header: Header, mismatch: Mismatch, fault: Record) -> bool:
    """Whether a fault is one of blocks, in a configuration in which requests can be planted."""
    c = header.config
    plain = c.is_plain and c.enable_prefix_caching and header.block_ids == "exact"
    told = isinstance(fault, (Schedule, Update, Abort, State))
    return plain and told and is_of_pool(mismatch)


def planted(c: TraceConfig, words: Words, fault: Record, semantics: Semantics) -> Planted | None:
    """The smallest of some scenarios that show a fault with that name; None: none does."""
    looks = _Looks(words, type(fault), semantics)
    for scene in cast.scenes():
        if looks.runs >= MOST_RUNS:
            return None
        document = _scenario(c, scene)
        if (events := looks.shown(document)) is not None:
            return _reduced(document | {"events": document["events"][:events]}, looks)
    return None


def _scenario(c: TraceConfig, scene: cast.Scene) -> Document:
    """Everybody arrives; steps in between, and after the last one. Halves of steps stand alone."""
    events: list[Document] = []
    for number, role in enumerate(scene.roles):
        arrival = cast.add(role, number, c)
        events.append(arrival)
        after = scene.waits[number] if number < len(scene.waits) else cast.STEPS_AFTER
        if role.aborted:
            events += [{"op": "schedule"}, {"op": "update"}]
            events.append({"op": "abort", "ids": [arrival["id"]]})
        events += [{"op": "schedule"}, {"op": "update"}] * after
    pool: Document = {"num_blocks": scene.pool}
    if scene.short:
        pool["max_num_batched_tokens"] = 2 * c.block_size
    return {"config": constants(c) | pool, "events": events}


def _reduced(document: Document, looks: "_Looks") -> Planted:
    """The scenario without what can go: arrivals, aborts, steps."""
    place = 0
    while place < len(document["events"]):
        events = document["events"]
        pair = 1 + (events[place]["op"] == "schedule" and place + 1 < len(events))
        fewer = document | {"events": events[:place] + events[place + pair :]}
        if looks.shown(fewer) == len(fewer["events"]):
            document = fewer
        else:
            place += 1
    requests = sum(e["op"] == "add" for e in document["events"])
    document = document | {"events": stepped(document["events"])}
    return Planted(document, looks.words, requests, looks.runs)


class _Looks:
    """Runs scenarios, and looks for a fault that could be in their traces."""

    def __init__(self, words: Words, kind: type[Record], semantics: Semantics) -> None:
        self.words, self.kind, self.semantics = words, kind, semantics
        self.runs = 0

    def shown(self, document: Document) -> int | None:
        """After how many events of a scenario the fault can be, first of all; None: never."""
        self.runs += 1
        try:
            told, records = self._recorded(document)
            return self._place(told, records)
        except (InputError, Malformed, NotRecorded, Unexplained):
            return None

    def _recorded(self, document: Document) -> tuple[Header, list[Record]]:
        taken = scenario.from_dict(document)
        records: list[Record] = []
        kind = StateTape if self.kind is State else Tape
        play(taken, self.semantics, records.append, kind=kind)
        return header(taken.config, "spec", "0", "", self.semantics), records

    def _place(self, told: Header, records: list[Record]) -> int | None:
        replay, used, events = Replay(told, self.semantics), set[int](), 0
        for place, record in enumerate(records):
            follow(replay, record)
            events += isinstance(record, EVENTS)
            if isinstance(record, self.kind):
                for other in islice(self._alike(record, replay, used), MOST_TRIED):
                    if self._is_found(told, [*records[:place], other], used):
                        return events
            if isinstance(record, Schedule):
                used |= given(record)
        return None

    def _alike(self, record: Record, replay: Replay, used: set[int]) -> Iterator[Record]:
        """The record with what the fault may be, as far as the words go."""
        of = part(replay.s, used)
        for mismatch, other in alterations(record, self.words, range(replay.k.usable + 2), of):
            if named(mismatch, record, of) == self.words:
                yield other

    def _is_found(self, told: Header, records: list[Record], used: set[int]) -> bool:
        """Whether the rules find the fault in an altered trace, at its end."""
        self.runs += 1
        replay = Replay(told, self.semantics)
        *before, last = records
        for record in before:
            follow(replay, record)
        try:
            follow(replay, last)
        except Unexplained as error:
            return named(error.mismatch, last, part(replay.s, used)) == self.words
        return False
