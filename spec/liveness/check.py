"""Looks for a cycle that breaks a statement about what happens in the end, and tells it."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from heapq import nsmallest

from nullblock.spec.catalogue import CATALOGUE
from nullblock.spec.explorer.actions import Action
from nullblock.spec.explorer.model import Scope
from nullblock.spec.explorer.result import Lasso, Progress
from nullblock.spec.explorer.search import Search
from nullblock.spec.explorer.story import Story, tell
from nullblock.spec.liveness.cycles import Graph, Way, components, does_all, ring, within
from nullblock.spec.liveness.fairness import EVERY, Account, Assumption, account, brings
from nullblock.spec.liveness.graph import Edge, Explored, explored
from nullblock.spec.liveness.properties import PROPERTIES, Pattern
from nullblock.spec.profiles import NORMATIVE, Semantics

CANDIDATES = 64
"""Edges through which a shortest cycle is sought, in one component."""
TURNS = 3
"""How often a scenario goes round a cycle, so that one sees that it is one."""


@dataclass(frozen=True, slots=True)
class Starvation(Lasso):
    """A way into a cycle in which somebody is never served, and why it may go on for ever."""

    complaint: str
    account: Account
    turns: tuple[Action, ...]
    """The way into the cycle and some turns of it, for a scenario."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was looked at for one statement in one scope, and what was found."""

    id: str
    sentence: str
    states: int
    """States in which a cycle that breaks it could lie, for one request or another."""
    steps: int
    """Edges there that such a cycle would have to take."""
    components: int
    """Strongly connected components of what is left, each judged by itself."""
    lasso: Starvation | None


@dataclass(frozen=True, slots=True)
class Liveness:
    """All findings of one scope."""

    scope: str
    states: int
    transitions: int
    raised: int
    seconds: float
    assumed: frozenset[Assumption]
    findings: tuple[Finding, ...]
    missing: frozenset[str]
    """Witnesses that the scope promised and did not reach."""
    complete: bool

    @property
    def lasso(self) -> Starvation | None:
        """The shortest of the lassos; of equals the most telling."""
        found = [f.lasso for f in self.findings if f.lasso is not None]
        return min(found, key=lambda lasso: len(lasso.actions), default=None)

    @property
    def passed(self) -> bool:
        """Every statement holds, everything was seen, and the pass is not vacuous."""
        return self.complete and self.lasso is None and not self.missing


def check(
    scope: Scope,
    semantics: Semantics = NORMATIVE,
    *,
    assumed: frozenset[Assumption] = EVERY,
    claims: frozenset[str] | None = None,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Liveness:
    """Every statement about what happens in the end, in one scope, under some assumptions.

    `claims`: only these IDs. `limit`: give up at so many states.
    """
    began = time.perf_counter()
    graph = explored(scope, semantics, limit=limit, progress=progress)
    judge = Judge(graph, assumed)
    findings = tuple(judge.finding(id) for id in PROPERTIES if claims is None or id in claims)
    return Liveness(
        scope=scope.name,
        states=len(graph.out),
        transitions=graph.transitions,
        raised=graph.raised,
        seconds=time.perf_counter() - began,
        assumed=assumed,
        findings=findings,
        missing=scope.witnesses - graph.witnesses if graph.complete else frozenset(),
        complete=graph.complete,
    )


class Judge:
    """Judges one graph."""

    def __init__(self, graph: Explored, assumed: frozenset[Assumption]) -> None:
        self.graph, self.assumed = graph, assumed
        self.brought = brings(graph, assumed)

    def finding(self, id: str) -> Finding:
        """One statement, for everybody."""
        states = steps = parts = 0
        best: tuple[int, Way[Edge], Pattern] | None = None
        for pattern in PROPERTIES[id](self.graph, self.assumed):
            left = self.left(pattern)
            states += len(left)
            steps += sum(
                any(take(v, e) for take in pattern.takes) for v in left for e, _ in left[v]
            )
            closed = [within(left, c) for c in components(left)]
            parts += len(closed)
            for part in closed:
                if does_all(part, (*pattern.takes, *self.brought)):
                    length, way = self.shortest(part, pattern)
                    if best is None or length < best[0]:
                        best = length, way, pattern
        lasso = self.lasso(id, *best[1:]) if best else None
        return Finding(id, CATALOGUE[id].sentence, states, steps, parts, lasso)

    def left(self, pattern: Pattern) -> Graph[Edge]:
        """What is left of the graph where nobody of the pattern is served."""
        standing, out = self.graph.standing, self.graph.out
        inside = [pattern.inside(at) for at in standing]
        return {
            v: [(e, t) for e, t in out[v] if inside[t] and pattern.along(v, e)]
            for v in range(len(out))
            if inside[v]
        }

    def shortest(self, part: Graph[Edge], pattern: Pattern) -> tuple[int, Way[Edge]]:
        """A short way into a fair component and round a cycle, and how long both are: the best of
        the cycles through the edges that it must take and that are found first.
        """
        sources = (v for v in part if any(pattern.takes[0](v, e) for e, _ in part[v]))
        ways = []
        for first in nsmallest(CANDIDATES, sources):
            way = ring(part, first, (*pattern.takes, *self.brought))
            turn = min(range(len(way)), key=lambda i: way[i][0])
            way = way[turn:] + way[:turn]
            ways.append((len(self.graph.way(way[0][0])) + len(way), way))
        return min(ways, key=lambda found: found[0])

    def lasso(self, id: str, way: Way[Edge], pattern: Pattern) -> Starvation:
        """The lasso that goes into a cycle and round it."""
        graph = self.graph
        stem, cycle = graph.way(way[0][0]), [edge.action for _, edge, _ in way]
        search = Search(graph.scope, graph.semantics, claims=frozenset())
        turns = search.named([*stem, *cycle * TURNS])
        return Starvation(
            breaks=id,
            sentence=CATALOGUE[id].sentence,
            rule=None,
            actions=tuple(turns[: len(stem) + len(cycle)]),
            repeats=len(cycle),
            complaint=pattern.complaint,
            account=account(graph, way, self.assumed),
            turns=tuple(turns),
        )


def story(found: Starvation, scope: Scope, semantics: Semantics) -> Story:
    """A lasso, told action by action. Raises Untold if it does not come out."""
    return replace(tell(found, scope, semantics), values=(found.complaint,))


def lines(found: Starvation, scope: Scope, semantics: Semantics) -> Iterator[str]:
    """The story of a lasso, and why it may go on for ever."""
    yield from story(found, scope, semantics).lines()
    yield str(found.account)
