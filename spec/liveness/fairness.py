"""What the engine and the world around it are assumed to do for ever, and what they need not do.

Steps are the engine's own; everything else is the world's, which may do anything at any time or
never. An assumption says what even the world does not do, or always does again. Each is needed:
`nullblock.spec.liveness.preconditions` has a scope where, without it, somebody starves.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from nullblock.spec.explorer.actions import (
    Abort,
    Action,
    Add,
    Compiled,
    End,
    Evict,
    Offer,
    Pause,
    Received,
    Reset,
    ResetEncoder,
    Schedule,
    Send,
    Sent,
    Step,
    Unloaded,
    Update,
)
from nullblock.spec.explorer.model import Template
from nullblock.spec.fields import PAUSED_ALL, UNPAUSED
from nullblock.spec.liveness.cycles import Take, Way
from nullblock.spec.liveness.graph import Edge, Explored, Owed


class Assumption(Enum):
    """One thing that is taken for granted about what happens for ever."""

    STEPS = "steps"
    UNPAUSED = "unpaused"
    RESETS = "resets"
    ARRIVALS = "arrivals"
    ADAPTERS = "adapters"
    GRAMMARS = "grammars"
    CHUNKS = "chunks"
    WAYS = "ways"
    ANSWERS = "answers"
    LOADS = "loads"
    SENDS = "sends"


SENTENCE = {
    Assumption.STEPS: "the engine goes on taking steps",
    Assumption.UNPAUSED: "no pause is for ever: again and again a step finds the engine unpaused",
    Assumption.RESETS: "resets that preempt the running requests come to an end",
    Assumption.ARRIVALS: "requests that go before it stop arriving: under PRIORITY the more "
    "urgent, under FCFS those with a grammar",
    Assumption.ADAPTERS: "where adapters are capped, requests with another one than its own stop "
    "arriving",
    Assumption.GRAMMARS: "every grammar that is awaited is compiled in the end",
    Assumption.CHUNKS: "every session that waits for a chunk is sent one, ended or aborted",
    Assumption.WAYS: "where nobody runs, a session that waits with its blocks behind a head that "
    "lacks some is aborted",
    Assumption.ANSWERS: "a remote side that looks what it holds knows in the end",
    Assumption.LOADS: "every load over several steps comes to an end, done or not",
    Assumption.SENDS: "blocks that are kept for a send are sent in the end",
}
EVERY = frozenset(Assumption)
BRINGS: dict[Assumption, tuple[Owed, tuple[Callable[[str], Action], ...]]] = {
    Assumption.GRAMMARS: (Owed.GRAMMAR, (Compiled,)),
    Assumption.CHUNKS: (Owed.CHUNK, (Send, End, Abort)),
    Assumption.WAYS: (Owed.WAY, (Abort,)),
    Assumption.ANSWERS: (Owed.ANSWER, (Offer,)),
    Assumption.LOADS: (Owed.LOAD, (Received,)),
    Assumption.SENDS: (Owed.SEND, (Sent,)),
}
"""What is brought in the end to whom it is owed, and the actions that bring it."""
BROUGHT_BY = {kind: which for which, (_, kinds) in BRINGS.items() for kind in kinds}


@dataclass(frozen=True, slots=True)
class Line:
    """One action in a cycle: how often it could happen, how often it does, and what of that."""

    action: str
    enabled: int
    """States of the cycle in which it may happen."""
    taken: int
    note: str


@dataclass(frozen=True, slots=True)
class Account:
    """Why a cycle may go on for ever."""

    states: int
    lines: tuple[Line, ...]

    def __str__(self) -> str:
        width = max(len(line.action) for line in self.lines)
        rows = [
            f"  {line.action:{width}}  enabled in {line.enabled} of {self.states}, "
            f"taken {line.taken}: {line.note}"
            for line in self.lines
        ]
        return "\n".join(["Why this may go on for ever, action by action:", *rows])


def account(graph: Explored, way: Way[Edge], assumed: frozenset[Assumption]) -> Account:
    """The account of a cycle, from what is enabled in its states and what is taken."""
    numbers = [source for source, _, _ in way]
    taken: dict[str, int] = {}
    enabled: dict[str, int] = {}
    example: dict[str, Action] = {}
    for number in set(numbers):
        for edge, _ in graph.out[number]:
            example.setdefault(_kind(edge.action), edge.action)
        kinds = {_kind(edge.action) for edge, _ in graph.out[number]}
        for kind in kinds:
            enabled[kind] = enabled.get(kind, 0) + numbers.count(number)
    for _, edge, _ in way:
        taken[_kind(edge.action)] = taken.get(_kind(edge.action), 0) + 1
    unpaused = sum(
        edge.schedules and graph.standing[source].pause == UNPAUSED for source, edge, _ in way
    )
    lines = [
        Line(kind, enabled[kind], taken.get(kind, 0), note)
        for kind, action in example.items()
        for note in [_note(action, taken.get(kind, 0), unpaused, assumed)]
    ]
    lines.sort(key=lambda line: (not line.taken, line.action not in ENGINE, line.action))
    return Account(len(numbers), tuple(lines))


ENGINE = ("step", "schedule", "update")


def _kind(action: Action) -> str:
    return "evict_blocks" if isinstance(action, Evict) else str(action)


def _note(action: Action, taken: int, unpaused: int, assumed: frozenset[Assumption]) -> str:
    """What fairness asks of an action, and whether the cycle does it."""
    match action:
        case Step() | Schedule():
            if not taken:
                return "never taken, because it is not assumed that the engine steps"
            return f"the engine keeps stepping, {unpaused} of them unpaused, as it must"
        case Update() | Unloaded():
            return "what is in flight comes back, as it must" if taken else "nothing is in flight"
        case Reset(reset_running) if reset_running and Assumption.RESETS in assumed:
            return "left out: such resets are assumed to end"
        case Add() if not taken:
            return "nobody need arrive"
        case Compiled() | Offer() | Received() | Sent() | Send() | End() if (
            BROUGHT_BY[type(action)] in assumed
        ):
            return "it comes, as it must" if taken else "not awaited all the way round"
        case Abort() if not taken:
            return "nobody need be aborted"
        case Send() | End() if not taken:
            return "nobody need send anything"
        case (
            Add()
            | Abort()
            | Reset()
            | Evict()
            | Pause()
            | Compiled()
            | ResetEncoder()
            | Send()
            | End()
            | Offer()
            | Received()
            | Sent()
        ):
            return "the world may do so for ever" if taken else "need never happen"


def steps(graph: Explored, assumed: frozenset[Assumption], source: int, edge: Edge) -> bool:
    """Whether an edge is a step that a fair run takes again and again."""
    if Assumption.STEPS not in assumed:
        return True
    if not edge.schedules:
        return False
    return Assumption.UNPAUSED not in assumed or graph.standing[source].pause == UNPAUSED


def steps_for_runners(
    graph: Explored, assumed: frozenset[Assumption], source: int, edge: Edge
) -> bool:
    """The same for those who run: pausing admissions does not stop them."""
    if Assumption.STEPS not in assumed:
        return True
    if not edge.schedules:
        return False
    return Assumption.UNPAUSED not in assumed or graph.standing[source].pause != PAUSED_ALL


def allowed(graph: Explored, assumed: frozenset[Assumption], who: str, edge: Edge) -> bool:
    """Whether the world may take an edge again and again while `who` hopes to be served."""
    match edge.action:
        case Reset(reset_running):
            return not reset_running or Assumption.RESETS not in assumed
        case Add(other):
            q, r = template(graph, other), template(graph, who)
            if Assumption.ARRIVALS in assumed and goes_before(graph, q, r):
                return False
            return Assumption.ADAPTERS not in assumed or not takes_place(graph, q, r)
        case _:
            return True


def brings(graph: Explored, assumed: frozenset[Assumption]) -> tuple[Take[Edge], ...]:
    """What a cycle must take, whatever it is about: whoever is owed something gets it, or is not
    owed it all the way round.
    """
    ever = frozenset[tuple[Owed, str]]().union(*(at.owed for at in graph.standing))
    return tuple(
        lambda source, edge, debt=(owed, r), kinds=kinds: (
            debt not in graph.standing[source].owed
            or edge.action in tuple(kind(debt[1]) for kind in kinds)
        )
        for which, (owed, kinds) in BRINGS.items()
        if which in assumed
        for r in sorted(r for what, r in ever if what is owed)
    )


def template(graph: Explored, id: str) -> Template:
    """What is known of a request."""
    return next(t for t in graph.scope.templates if t.id == id)


def goes_before(graph: Explored, other: Template, who: Template) -> bool:
    """Whether `other` is tried before `who`, who is there when it arrives: by its place in a
    PRIORITY queue, or because it joins the skipped queue at once.
    """
    if graph.scope.config.policy == "priority":
        return place(other) <= place(who)
    return other.grammar


def place(t: Template) -> tuple[int, float, str]:
    """Where a request stands in a PRIORITY queue."""
    return (t.priority, t.arrival, t.id)


def takes_place(graph: Explored, other: Template, who: Template) -> bool:
    """Whether the adapter of `other` may keep that of `who` from running."""
    capped = graph.scope.config.max_loras > 0 and who.adapter != 0
    return capped and other.adapter not in (0, who.adapter)
