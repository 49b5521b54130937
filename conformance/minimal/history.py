"""What a trace tells up to a wrong decision, request by request and event by event."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from msgspec import UNSET

from nullblock.conformance.minimal.drafts import Right, right
from nullblock.conformance.minimal.remote import Holds, Remote, Said, asked
from nullblock.conformance.trace.decode import Passed, Shown, Unknown
from nullblock.conformance.trace.reader import Located, TraceReader
from nullblock.conformance.trace.records import (
    Abort,
    Add,
    Chunk,
    Compiled,
    Draft,
    Drafted,
    End,
    Error,
    Evict,
    Feature,
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
    Transfers,
    Update,
)

WITHOUT = {
    Compiled: "grammars",
    ResetEncoderCache: "encoder inputs",
    Chunk: "sessions",
    SessionEnd: "sessions",
}
"""What a record is about of which no scenario is made."""
OF_REQUESTS = {
    "structured_output": "grammars",
    "multimodal": "encoder inputs",
    "resumable": "sessions",
    "repetition_detection": "repetitions",
}
"""The same of what a request has, where people say it in another word than the trace."""
PASSED_ON = {"kv_transfer"}
"""What a request has that is its connector's affair: what that answers, a scenario says."""
HORIZON = 20_000
"""Steps before the decision that are looked at: a request that ended earlier is forgotten."""


class Impossible(Exception):
    """No scenario can be given; the text says why, in words that end a sentence."""


@dataclass(slots=True, eq=False)
class Life:
    """One stay of a request in the engine."""

    add: Add
    began: int
    """Place of its arrival among the events."""
    ended: int | None = None
    """Place of the event that it did not outlive."""
    outputs: int = 0
    """Tokens that it took."""
    eos: int | None = None
    """Which of them, from 0, was an end token and could end it."""
    stop: int | None = None
    """Which of them was a stop id and could end it."""
    chain: list[tuple[int, bool]] = field(default_factory=list)
    """Chain numbers of the blocks that its output filled; whether no block had it before."""

    @property
    def number(self) -> int:
        """The request."""
        return self.add.id


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """A request arrives."""

    life: Life


@dataclass(frozen=True, slots=True)
class Half:
    """One half of a step."""

    step: int
    update: bool
    right: Right = ()
    """Of an update: how many drafts the model finds right."""
    said: Said = None
    """What stands right before it of a KV connector."""
    news: Holds = ()
    """What that knows of which it knew something else."""


Event = Arrival | Half | Draft | Abort | Pause | Reset | Evict


@dataclass(slots=True)
class History:
    """The inputs before a decision, and the decision."""

    header: Header
    fault: Record
    """The decision, or the observation, that no rule explains."""
    events: list[Event] = field(default_factory=list)
    """Before it, in their order; a decision stands for the call that made it."""
    lives: list[Life] = field(default_factory=list)
    """In order of arrival."""
    scheduled: dict[int, list[int]] = field(default_factory=dict)
    """Who was scheduled in each step."""
    right: Right = ()
    """If the decision is an update: how many drafts the model finds right."""
    said: Said = None
    """What stands right before the decision of a KV connector."""
    news: Holds = ()
    """What that knows of which it knew something else."""
    remote: Remote = field(default_factory=Remote)
    """What it says of each request."""
    output: Output | None = None
    """What is sampled right before the decision."""
    used: set[int] = field(default_factory=set)
    """The blocks that steps before it gave to somebody."""

    @property
    def steps(self) -> int:
        """Steps scheduled before the decision."""
        return sum(isinstance(e, Half) and not e.update for e in self.events)


def read(path: Path, line: int, file: str, step: int) -> History:
    """What stands before a line of a trace.

    Raises :class:`Impossible` where the trace does not tell enough for a scenario, ``OSError``.
    """
    records = _until(path, line, file)
    header = next(records).record
    assert isinstance(header, Header)
    if header.start != "empty":
        raise Impossible("the recording begins in the middle of a run")
    reading = _Reading(step - HORIZON)
    last: Shown = header
    for located in records:
        if located.line == line and located.file == file:
            last = located.record
            break
        reading.take(located.record)
    assert not isinstance(last, Unknown | Passed)
    if isinstance(last, Update):
        reading.sampled()
    drafts = reading.drafts.get(last.step, []) if isinstance(last, Update) else []
    told = right(drafts, reading.output)
    said = reading.remote_says(last)
    history = History(
        *(header, last, reading.events, reading.lives, reading.scheduled, told),
        *(*said, reading.remote, reading.output, reading.used),
    )
    if header.block_ids != "exact":
        _without_ids(history)
    return history


def given(step: Schedule) -> set[int]:
    """The blocks that a step gives to somebody."""
    tables = [q.blocks or [] for q in step.new]
    if step.cached is not UNSET and step.cached.blocks is not UNSET:
        tables += [groups for _, groups in step.cached.blocks]
    return {b for groups in tables for table in groups for b in table}


def _no_scenario(*what: str) -> Impossible:
    """The reason why there is none for what a trace has."""
    words = dict.fromkeys(OF_REQUESTS.get(word, word).replace("_", " ") for word in what)
    return Impossible(f"no scenario is made of {', '.join(words)}")


def _without_ids(history: History) -> None:
    """Raise Impossible where blocks are named whose ids in the engine are not told."""
    said = [history.said, *(e.said for e in history.events if isinstance(e, Half))]
    named = {
        "evicted": any(isinstance(e, Evict) for e in history.events),
        "not loaded": any(isinstance(one, Transfers) and one.invalid for one in said),
    }
    for what in (what for what, found in named.items() if found):
        raise Impossible(f"blocks were {what} whose ids in the engine the trace does not tell")


def _until(path: Path, line: int, file: str) -> Iterator[Located]:
    for located in TraceReader(path):
        yield located
        if located.line == line and located.file == file:
            return


class _Reading:
    """Follows the records. Memory: the events and requests within the horizon."""

    def __init__(self, oldest: int) -> None:
        self.oldest = oldest
        self.events: list[Event] = []
        self.lives: list[Life] = []
        self.alive: dict[int, Life] = {}
        self.output: Output | None = None
        self.drafts: dict[int, Drafted] = {}
        """Of the steps in flight."""
        self.scheduled: dict[int, list[int]] = {}
        self.chains = 0
        """Chain numbers given so far: 0 up to this one."""
        self.remote = Remote()
        self.said: Said = None
        """What stands right before the record that comes."""
        self.used: set[int] = set()

    def take(self, record: Shown) -> None:
        """The next record."""
        match record:
            case Add(items=items, features=features):
                if items or set(features) - PASSED_ON:
                    raise _no_scenario(*(["encoder inputs"] if items else []), *features)
                life = Life(record, len(self.events))
                self.chains = max([self.chains, *map(sum, record.chain or ())])
                self.alive[record.id] = life
                self.lives.append(life)
                self.events.append(Arrival(life))
            case Schedule():
                if record.step == self.oldest:
                    self.forget()
                said, news = self.remote_says(record)
                self.events.append(Half(record.step, update=False, said=said, news=news))
                self.scheduled[record.step] = [*record.ids, *asked(said)]
                self.drafts[record.step] = record.drafts
                self.used |= given(record)
            case Output():
                self.output = record
            case Update():
                found = right(self.drafts.pop(record.step, []), self.output)
                said, _ = self.remote_says(record)
                self.events.append(Half(record.step, update=True, right=found, said=said))
                self.transferred(record.step, said)
                self.update(record)
            case Matched() | Transfers():
                self.said = record
            case Abort():
                self.remote_says(record)
                self.events.append(record)
                for r in record.asked or () if record.aborted is UNSET else record.aborted:
                    self.end(r)
            case Pause() | Reset() | Evict() | Draft():
                self.events.append(record)
            case Compiled() | ResetEncoderCache() | Chunk() | SessionEnd():
                raise _no_scenario(WITHOUT[type(record)])
            case Header() | Part() | State() | Feature() | Error() | Lost() | End():
                pass
            case Unknown() | Passed():
                pass

    def remote_says(self, record: Shown) -> tuple[Said, Holds]:
        """What stands right before a record of a KV connector, and what that knows anew."""
        said, self.said = self.said, None
        self.remote.reported(said)
        return said, self.remote.answered(said)

    def transferred(self, step: int, said: Said) -> None:
        """Transfers have ended: the step matters to those they are of."""
        if isinstance(said, Transfers):
            self.scheduled.get(step, []).extend((*said.received, *said.sent))

    def update(self, record: Update) -> None:
        """What a step's output did to the requests it was for."""
        taken = dict(zip(record.ids, record.tokens, strict=True))
        if self.output is not None:
            self.sampled(taken)
            for r, number in self.output.chain or ():
                if taken.get(r) and r in self.alive:
                    self.alive[r].chain.append((number, number >= self.chains))
                self.chains = max(self.chains, number + 1)
        self.output = None
        for r, many in taken.items():
            if r in self.alive:
                self.alive[r].outputs += many
        for finish in record.finish:
            self.end(finish.id)

    def sampled(self, taken: Mapping[int, int] | None = None) -> None:
        """Note the tokens of the output at hand that can end a request.

        `taken`: how many tokens each request took; None: as many as there are.
        """
        output = self.output
        if output is None:
            return
        if taken is None:
            taken = dict(zip(output.ids, output.counts, strict=True))
        for kind, told in (("eos", output.eos), ("stop", output.stop)):
            for r, place in told:
                self.token(r, kind, place, taken.get(r, 0))

    def token(self, r: int, kind: str, place: int, taken: int) -> None:
        """Note the first token that could end a request."""
        life = self.alive.get(r)
        if life is None or place >= taken:
            return
        index = life.outputs + place
        if index + 1 >= life.add.min_tokens and getattr(life, kind) is None:
            setattr(life, kind, index)

    def end(self, r: int) -> None:
        """A request is gone."""
        if life := self.alive.pop(r, None):
            life.ended = len(self.events) - 1

    def forget(self) -> None:
        """The horizon is reached: whoever has ended by now is not looked at."""
        self.scheduled.clear()
        lost = {id(life) for life in self.lives if life.ended is not None}
        self.lives = [life for life in self.lives if id(life) not in lost]
        kept = {id(life): life for life in self.lives}
        self.events = [e for e in self.events if isinstance(e, Arrival) and id(e.life) in kept]
        for place, event in enumerate(self.events):
            if isinstance(event, Arrival):
                event.life.began = place
