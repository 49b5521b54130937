"""Every state of a scope and every transition between them, with what liveness asks about them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from nullblock.spec.explorer.actions import Action, Schedule, Step, actions
from nullblock.spec.explorer.model import Scope, beginning
from nullblock.spec.explorer.result import Progress
from nullblock.spec.explorer.search import Search, Violation
from nullblock.spec.fields import RUNNING
from nullblock.spec.kernel import Engines, State
from nullblock.spec.profiles import Semantics
from nullblock.spec.remote import is_received, is_sent
from nullblock.spec.sessions import awaits_grammar, awaits_input, holds_while_waiting
from nullblock.spec.state import head, is_waiting, live
from nullblock.spec.waiting import lacks

Requests = frozenset[str]


class Owed(Enum):
    """What a request may wait for that the world around the engine brings."""

    GRAMMAR = "its grammar"
    CHUNK = "its next chunk, or to hear that there is none"
    ANSWER = "word of what the remote side holds"
    LOAD = "the end of a load"
    SEND = "the end of a send"
    WAY = "an end, where its blocks are in the way of the head of the queue"


@dataclass(frozen=True, slots=True)
class Standing:
    """What a state is to liveness: who waits, runs and is owed something, whose turn it is, and
    the pause state.
    """

    waiting: Requests
    running: Requests
    owed: frozenset[tuple[Owed, str]]
    """What the world has yet to bring, and to whom: to some who have ended, too."""
    head: str | None
    pause: int

    @property
    def live(self) -> Requests:
        """Whoever the engine knows."""
        return self.waiting | self.running


@dataclass(frozen=True, slots=True)
class Edge:
    """One action, and what happened to whom on the way."""

    action: Action
    preempted: Requests = frozenset()
    overtaken: Requests = frozenset()
    """Who waited, when somebody was admitted who comes after them in the queue's own order."""

    @property
    def schedules(self) -> bool:
        """Whether the engine decides a step here."""
        return isinstance(self.action, Step | Schedule)


@dataclass(slots=True)
class Explored:
    """The graph of a scope: states by their number, in the order in which they were found."""

    scope: Scope
    semantics: Semantics
    standing: list[Standing] = field(default_factory=list)
    out: list[list[tuple[Edge, int]]] = field(default_factory=list)
    origin: list[tuple[int, Action | None]] = field(default_factory=list)
    raised: int = 0
    """Transitions that a guard or a broken promise ended: they lead nowhere."""
    complete: bool = True
    """Whether every reachable state was seen."""
    witnesses: frozenset[str] = frozenset()

    @property
    def transitions(self) -> int:
        """How many transitions there are."""
        return sum(map(len, self.out)) + self.raised

    def way(self, number: int) -> list[Action]:
        """A shortest way to a state."""
        back: list[Action] = []
        while True:
            number, action = self.origin[number]
            if action is None:
                return back[::-1]
            back.append(action)


class Observer:
    """Notes who is preempted and who is overtaken, beside the search's own watch."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.begin()

    def begin(self) -> None:
        """Another transition."""
        self.preempted: set[str] = set()
        self.overtaken: set[str] = set()

    def __call__(self, s: State, id: str) -> None:
        """A rule has fired."""
        self.search.watch.rule(s, id)
        if id == "PREEMPT-2":
            self.preempted.add(s.leaver)
        elif id == "WAIT-9":
            mine = seniority(s, s.actor)
            waiting = (q for q in s.k.requests if is_waiting(s, q))
            self.overtaken.update(q for q in waiting if seniority(s, q) < mine)


def seniority(s: State, r: Any) -> Any:
    """What puts a request before another one: arrival, or under PRIORITY its place there. Unlike
    its rank it does not change while the request lives.
    """
    return s.k.order(r) if s.k.priority else s.arr[r]


def standing(s: State) -> Standing:
    """What a state is to liveness."""
    known = [r for r in s.k.requests if live(s, r)]
    return Standing(
        frozenset(r for r in known if s.stage[r] != RUNNING),
        frozenset(r for r in known if s.stage[r] == RUNNING),
        frozenset(owed(s)),
        head(s),
        s.pause,
    )


def owed(s: State) -> Iterator[tuple[Owed, str]]:
    """What the world has yet to bring, and to whom."""
    for r in s.k.requests:
        if awaits_grammar(s, r):
            yield Owed.GRAMMAR, r
        if awaits_input(s, r) and lacks(s, r):
            yield Owed.CHUNK, r
        if s.unsure[r]:
            yield Owed.ANSWER, r
        if is_received(s, r):
            yield Owed.LOAD, r
        if is_sent(s, r):
            yield Owed.SEND, r
        if is_in_the_way(s, r):
            yield Owed.WAY, r


def is_in_the_way(s: State, r: str) -> bool:
    """Whether r waits with its blocks, as sessions do, behind a head that lacks some; and nobody
    runs, who would give back more.
    """
    return bool(s.nr == 0 and holds_while_waiting(s, r) and head(s) not in (None, r))


def explored(
    scope: Scope,
    semantics: Semantics,
    *,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Explored:
    """The graph of a scope, without checking any statement on the way.

    `limit`: give up at so many states.
    """
    search = Search(scope, semantics, claims=frozenset())
    observer = Observer(search)
    outer, Engines.after_rule = Engines.after_rule, observer
    try:
        graph = _grow(Explored(scope, semantics), search, observer, limit, progress)
    finally:
        Engines.after_rule = outer
    graph.witnesses = frozenset(search.watch.reached)
    return graph


def _grow(
    graph: Explored,
    search: Search,
    observer: Observer,
    limit: int | None,
    progress: Progress | None,
) -> Explored:
    known: dict[Standing, Standing] = {}

    def enter(s: State, origin: tuple[int, Action | None]) -> int:
        graph.origin.append(origin)
        it = standing(s)
        graph.standing.append(known.setdefault(it, it))
        graph.out.append([])
        return len(graph.origin) - 1

    first = beginning(graph.scope, graph.semantics)
    search.seen[search.identity.key(first)[0]] = enter(first, (0, None))
    level = [(0, first)]
    while level:
        following: list[tuple[int, State]] = []
        for number, s in level:
            for action, key, t in _successors(graph, search, observer, s):
                target = search.seen.get(key)
                if target is None:
                    target = search.seen[key] = enter(t, (number, action))
                    following.append((target, t))
                edge = Edge(action, frozenset(observer.preempted), frozenset(observer.overtaken))
                graph.out[number].append((edge, target))
            if progress is not None and number % 256 == 0:
                progress(len(graph.origin), search.count)
            if limit is not None and len(graph.origin) >= limit:
                graph.complete = False
                return graph
        level = following
    return graph


def _successors(
    graph: Explored, search: Search, observer: Observer, s: State
) -> Iterator[tuple[Action, tuple[int, ...], State]]:
    """What may happen in a state, and the states that it leads to."""
    for action in actions(s, graph.scope):
        observer.begin()
        try:
            key, t, _ = search.successor(s, action)
        except Violation:
            graph.raised += 1
            continue
        yield action, key, t
