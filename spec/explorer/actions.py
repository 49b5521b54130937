"""What may happen to the modelled system: a closed union, and what each does to a state."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, assert_never

from nullblock.spec.explorer.model import Scope
from nullblock.spec.fields import UNBORN
from nullblock.spec.flight import in_flight
from nullblock.spec.kernel import State
from nullblock.spec.loaded import may_be_lost
from nullblock.spec.machine import events, sessions
from nullblock.spec.machine.remote import (
    received,
    remote_holds,
    remote_looks,
    report_failed,
    sent,
)
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.machine.waiting import order_queues
from nullblock.spec.names import PAUSE_NAME
from nullblock.spec.remote import is_received, is_sent
from nullblock.spec.sessions import awaits_grammar
from nullblock.spec.state import live


@dataclass(frozen=True, slots=True)
class Add:
    """A request arrives."""

    id: str

    def __str__(self) -> str:
        return f"add {self.id}"


@dataclass(frozen=True, slots=True)
class Step:
    """A whole step: schedule and update."""

    def __str__(self) -> str:
        return "step"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The first half of a step."""

    def __str__(self) -> str:
        return "schedule"


@dataclass(frozen=True, slots=True)
class Update:
    """The second half of the oldest step in flight."""

    def __str__(self) -> str:
        return "update"


@dataclass(frozen=True, slots=True)
class Abort:
    """A request is ended from outside."""

    id: str

    def __str__(self) -> str:
        return f"abort {self.id}"


@dataclass(frozen=True, slots=True)
class Reset:
    """The prefix cache is reset."""

    reset_running: bool

    def __str__(self) -> str:
        return "reset_prefix_cache" + (" reset_running" if self.reset_running else "")


@dataclass(frozen=True, slots=True)
class Evict:
    """A block is taken out of the prefix cache."""

    block: int

    def __str__(self) -> str:
        return f"evict_blocks {self.block}"


@dataclass(frozen=True, slots=True)
class ResetEncoder:
    """The encoder cache is reset."""

    def __str__(self) -> str:
        return "reset_encoder_cache"


@dataclass(frozen=True, slots=True)
class Pause:
    """The pause state changes."""

    state: int

    def __str__(self) -> str:
        return f"pause {PAUSE_NAME[self.state]}"


@dataclass(frozen=True, slots=True)
class Compiled:
    """The grammar of a request is compiled."""

    id: str

    def __str__(self) -> str:
        return f"grammar of {self.id} compiled"


@dataclass(frozen=True, slots=True)
class Send:
    """A session is sent its next chunk."""

    id: str

    def __str__(self) -> str:
        return f"chunk for {self.id}"


@dataclass(frozen=True, slots=True)
class End:
    """A session is told that no more will come."""

    id: str

    def __str__(self) -> str:
        return f"end of {self.id}"


@dataclass(frozen=True, slots=True)
class Offer:
    """The remote side knows what it holds of a request."""

    id: str

    def __str__(self) -> str:
        return f"remote side knows {self.id}"


@dataclass(frozen=True, slots=True)
class Received:
    """The second half of a step, with which the end of a load is reported."""

    id: str

    def __str__(self) -> str:
        return f"update, {self.id} received"


@dataclass(frozen=True, slots=True)
class Sent:
    """The second half of a step, with which it is reported that blocks were sent."""

    id: str

    def __str__(self) -> str:
        return f"update, {self.id} sent"


@dataclass(frozen=True, slots=True)
class Unloaded:
    """The second half of a step, with which it is reported that a block was not loaded."""

    block: int

    def __str__(self) -> str:
        return f"update, block {self.block} not loaded"


Remote = Offer | Received | Sent | Unloaded
"""What happens around a KV connector."""
Action = (
    Add
    | Step
    | Schedule
    | Update
    | Abort
    | Reset
    | Evict
    | Pause
    | Compiled
    | ResetEncoder
    | Send
    | End
    | Remote
)
Check = Callable[[State, Action], Any]


def actions(s: State, scope: Scope) -> Iterator[Action]:
    """What may happen next, always in the same order."""
    for t in scope.templates:
        if s.stage[t.id] == UNBORN:
            yield Add(t.id)
    if not scope.halves:
        yield Step()
    else:
        if in_flight(s):
            yield Update()
        if in_flight(s) < scope.depth:
            yield Schedule()
    if scope.aborts:
        for t in scope.templates:
            if live(s, t.id):
                yield Abort(t.id)
    for reset_running in scope.resets:
        yield Reset(reset_running)
    if scope.evicts:
        for b in sorted(s.hsh):
            if s.hsh[b] is not None:
                yield Evict(b)
    for state in scope.pauses:
        if state != s.pause:
            yield Pause(state)
    for t in scope.templates:
        if awaits_grammar(s, t.id):
            yield Compiled(t.id)
    if scope.encoder_resets:
        yield ResetEncoder()
    for t in scope.templates:
        if t.chunks is not None and live(s, t.id) and s.ended[t.id] == 0:
            if s.sent[t.id] < len(t.chunks):
                yield Send(t.id)
            yield End(t.id)
    if s.k.connector:
        for t in scope.templates:
            if s.unsure[t.id] != 0:
                yield Offer(t.id)
        if in_flight(s):
            for t in scope.templates:
                if is_received(s, t.id):
                    yield Received(t.id)
                if is_sent(s, t.id):
                    yield Sent(t.id)
            if scope.lossy:
                for b in range(1, s.k.usable + 1):
                    if may_be_lost(s, b):
                        yield Unloaded(b)


def announce(s: State, r: str) -> None:
    """What the remote side holds of a request that has arrived."""
    if s.k.connector:
        if s.k.looks_first(r):
            remote_looks(s, r)
        else:
            remote_holds(s, r, s.k.remote_tokens(r))


def perform(s: State, action: Action, half: Callable[[State], None] | None = None) -> None:
    """Let `action` happen to s; `half` is called between the halves of a whole step.

    Raises Disabled or Broken if the specification contradicts itself.
    """
    match action:
        case Add(r):
            if events.add(s, r):
                announce(s, r)
        case Step():
            schedule(s)
            if half is not None:
                half(s)
            update_from_output(s)
        case Schedule():
            schedule(s)
        case Update():
            update_from_output(s)
        case Abort(r):
            events.abort(s, r)
            order_queues(s)
        case Reset(reset_running):
            events.reset_prefix_cache(s, reset_running)
        case Evict(b):
            events.evict_blocks(s, [b])
        case Pause(state):
            events.pause(s, state)
        case ResetEncoder():
            events.reset_encoder_cache(s)
        case Compiled(r):
            events.compiled(s, r)
        case Send(r):
            sessions.send(s, r)
        case End(r):
            sessions.end(s, r)
        case Offer(r):
            remote_holds(s, r, s.k.remote_tokens(r))
        case Received(r):
            update_from_output(s)
            received(s, r)
        case Sent(r):
            update_from_output(s)
            sent(s, r)
        case Unloaded(b):
            report_failed(s, [b])
            update_from_output(s)
        case _:
            assert_never(action)
