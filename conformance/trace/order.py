"""Which records can follow one another: what is impossible is damage, whatever an engine decides.

Decisions are not judged here. A request that a decision names may be anything; one that an input
names must have been added.
"""

from collections import deque
from collections.abc import Iterable
from typing import assert_never

from msgspec import UNSET

from nullblock.conformance.trace.decode import Unknown
from nullblock.conformance.trace.deltas import Delta, ScheduleDelta
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.records import (
    Abort,
    Add,
    Chunk,
    Compiled,
    Draft,
    End,
    Error,
    Evict,
    Feature,
    Gap,
    Header,
    Lost,
    Matched,
    Output,
    Part,
    Pause,
    Record,
    Reset,
    ResetEncoderCache,
    Schedule,
    SessionEnd,
    State,
    StepInFlight,
    Taken,
    Transfers,
    Update,
)

_RECORDER = "record it again: a recorder writes what happens, in its order"
_AFTER_OUTPUT = (Update, Error, Lost, Gap, End, Part)
"""What may stand where an update is due."""
_AFTER_GAP = (State, Gap, Lost, End, Part)
"""What may stand where a state is due."""
_ENDS = (Error, Lost, Gap, End, Part)
_CALLS = {Matched: (Schedule, *_ENDS), Transfers: (Output, Abort, SessionEnd, Chunk, *_ENDS)}
"""In which calls of the engine the inputs of a KV connector come."""


class Order:
    """Follows a trace record by record. Memory: the steps in flight."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.from_the_start = header.start == "empty"
        self.steps = 0
        """Number of the last step scheduled."""
        self.scheduled = 0
        self.in_flight: deque[Schedule | StepInFlight] = deque()
        self.awaiting: int | None = None
        """The step whose output has come and whose update has not."""
        self.requests = 0
        """Request numbers given so far: 0 up to this one."""
        self.chains = 0
        self.over: str | None = None
        """Why nothing more can come."""
        self.lost_track = header.start != "empty"
        """What is in flight is not known; the next state may tell."""
        self.state_is_due = False
        self.told = self.from_the_start
        """Whether anything is known of the run."""
        self.call: Matched | Transfers | None = None
        """The inputs just told, of a call that is due."""
        self.distinct: list[int] | None = None
        """The last ids found to be different from one another: steps may share their list."""

    def passes_over(self, line: Record | Delta) -> bool:
        """Whether nothing is known of the run yet, and the line tells nothing of that."""
        if self.told or isinstance(line, Header | State | Gap | Lost | End | Part):
            return False
        self.scheduled += isinstance(line, Schedule | ScheduleDelta)
        return True

    def take(self, record: Record | Unknown) -> None:
        """The next record; :class:`Malformed`, without a line number, if it cannot stand here."""
        if self.over is not None and not isinstance(record, (End, Part)):
            raise Malformed(f"a record after {self.over}", "remove it")
        if self.awaiting is not None and not isinstance(record, _AFTER_OUTPUT):
            raise Malformed(
                f"{_kind(record)} between the output and the update of step {self.awaiting}",
                _RECORDER,
            )
        if self.state_is_due and not isinstance(record, _AFTER_GAP):
            raise Malformed(f"{_kind(record)} after a gap, where a state is due", _RECORDER)
        if self.call is not None:
            self._in_call(self.call, record)
        match record:  # the most frequent ones first
            case Schedule():
                self._schedule(record)
            case Output():
                self._output(record)
            case Update():
                self._update(record)
            case Add():
                self._add(record)
            case Header():
                raise Malformed("a second header", "one trace a file; check the files one by one")
            case Part():
                pass
            case Abort():
                self._known("abort of", record.asked or ())
            case Draft():
                self._known("drafts for", record.ids)
            case Compiled():
                self._known("grammars of", record.ids)
            case Chunk():
                self._known("a chunk for", [record.id])
                self._taken(record.taken)
            case SessionEnd():
                self._known("the end of", [record.id])
            case Matched():
                self._known("an answer about", (answer.id for answer in record.answers))
                self.call = record
            case Transfers():
                for ids in (record.received, record.sent, record.failed, record.delayed):
                    self._known("a report of", ids)
                if len(set(record.delayed)) != len(record.delayed):
                    raise Malformed("blocks of one request that are kept twice", _RECORDER)
                self.call = record
            case Pause() | Reset() | Evict() | ResetEncoderCache() | Feature() | Unknown():
                pass
            case State():
                self._state(record)
            case Gap():
                self._gap()
            case Error():
                self.over = "the engine's exception"
            case Lost():
                self.over = "the recorder gave up"
            case End():
                self._end(record)
            case _:
                assert_never(record)

    def _in_call(self, before: Matched | Transfers, record: Record | Unknown) -> None:
        """What a connector says stands right before the call in which it says it."""
        if not isinstance(record, _CALLS[type(before)]):
            kinds = _kind(record), _kind(before)
            raise Malformed(f"{kinds[0]} right after {kinds[1]}, which tells of a call", _RECORDER)
        self.call = None

    def _add(self, record: Add) -> None:
        if self.from_the_start and record.id > self.requests:
            raise Malformed(
                f"request {record.id} is added before request {self.requests}", _RECORDER
            )
        self.requests = max(self.requests, record.id + 1)
        if record.chain is UNSET:
            return
        blocks = sum(count for _, count in record.chain)
        # With other features on, blocks of other sizes may be hashed.
        strange = set(record.features) - self.header.features_of_requests
        plain = not self.header.unknown_features and not strange
        if plain and blocks != record.prompt // self.header.config.block_size:
            raise Malformed(
                f"{blocks} chain numbers for {record.prompt} prompt tokens",
                "one for each full block",
            )
        for first, count in record.chain:
            self._number_chain(first, count)

    def _number_chain(self, first: int, count: int) -> None:
        if self.from_the_start and first > self.chains:
            raise Malformed(f"chain {first} appears before chain {self.chains}", _RECORDER)
        self.chains = max(self.chains, first + count)

    def _schedule(self, record: Schedule) -> None:
        due = self.steps + 1
        if record.step != due and not self.lost_track:
            raise Malformed(f"step {record.step} where step {due} is due", _RECORDER)
        self.steps = record.step
        self.scheduled += 1
        self.lost_track = False
        self.in_flight.append(record)

    @property
    def oldest(self) -> list[int] | None:
        """Who is in the oldest step in flight; None: there is none."""
        return self.in_flight[0].ids if self.in_flight else None

    def _state(self, record: State) -> None:
        self.state_is_due = False
        self.told |= record.in_flight is not UNSET
        for _, chain in record.chains or ():
            self.chains = max(self.chains, chain + 1)
        for request in record.requests:
            self.requests = max(self.requests, request.id + 1)
            for first, many in request.chain or ():
                self.chains = max(self.chains, first + many)
        if self.lost_track and record.in_flight is not UNSET:
            self.lost_track = False
            self.steps = record.step
            self.in_flight = deque(record.in_flight)

    def _gap(self) -> None:
        self.from_the_start = False
        self.lost_track = self.state_is_due = True
        self.awaiting = None
        self.in_flight.clear()

    def next_file(self) -> None:
        """The file ended, and the recording goes on in another one, which counts anew."""
        self.over = None
        self.scheduled = 0

    def _output(self, record: Output) -> None:
        if not self.in_flight:
            raise Malformed(f"output of step {record.step}, which was not scheduled", _RECORDER)
        step = self.in_flight[0]
        if record.step != step.step:
            raise Malformed(
                f"output of step {record.step} where step {step.step} is the oldest in flight",
                _RECORDER,
            )
        ids = step.ids
        if record.ids is not self.distinct or ids is not self.distinct:
            if record.ids != ids or len(set(ids)) != len(ids):
                _check_scheduled(record, step)
            self.distinct = ids if record.ids is ids else None
        if not (record.eos or record.stop or record.rejected or record.chain):
            self.awaiting = record.step
            return
        counts = dict(zip(record.ids, record.counts, strict=True))
        ends = ("eos", record.eos), ("stop", record.stop), ("rejected", record.rejected)
        for kind, tokens in ends:
            for id, place in tokens:
                if place >= counts.get(id, 0):
                    raise Malformed(f"{kind} names a token that was not sampled", _RECORDER)
        for id, chain in record.chain or ():
            if not counts.get(id):
                raise Malformed(f"a block of request {id} filled by no token", _RECORDER)
            self._number_chain(chain, 1)
        self.awaiting = record.step

    def _update(self, record: Update) -> None:
        if not self.in_flight:
            raise Malformed(f"update of step {record.step}, which was not scheduled", _RECORDER)
        if record.step != self.in_flight[0].step:
            due = self.in_flight[0].step
            raise Malformed(f"update of step {record.step} where step {due} is due", _RECORDER)
        if self.awaiting is None and self.header.observed.output == "complete":
            raise Malformed(f"update of step {record.step} before its output", _RECORDER)
        self.awaiting = None
        self.in_flight.popleft()
        for turn in record.turns:
            self._taken(turn.taken)

    def _taken(self, taken: Taken | None) -> None:
        """What a session takes fills blocks."""
        for first, count in (taken.chain if taken is not None else ()) or ():
            self._number_chain(first, count)

    def _known(self, what: str, ids: Iterable[int]) -> None:
        """Inputs name requests that somebody added."""
        for id in ids:
            if self.from_the_start and id >= self.requests:
                raise Malformed(f"{what} request {id}, which nobody added", _RECORDER)

    def _end(self, record: End) -> None:
        if self.over == "the end":
            raise Malformed("a record after the end", "remove it")
        if record.steps != self.scheduled:
            raise Malformed(
                f"{self.scheduled} steps, and the end record counts {record.steps}", _RECORDER
            )
        self.over = "the end"


def _check_scheduled(record: Output, step: Schedule | StepInFlight) -> None:
    """Each request of an output is in its step, and once at most."""
    scheduled = set(step.ids)
    for id in record.ids:
        if id not in scheduled:
            raise Malformed(
                f"output for request {id}, which step {step.step} did not schedule", _RECORDER
            )
        scheduled.remove(id)


def _kind(record: Record | Unknown) -> str:
    return type(record).__name__.lower() if not isinstance(record, Unknown) else record.kind
