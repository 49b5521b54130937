"""Whether requests are served in the end: on the same graph of states, a cycle instead of a state.

Steps are deterministic. So what happens when nothing more arrives is one path through the graph,
and a request that waits or runs for ever shows as a cycle on it: a state that steps lead back to,
with a request that is still there. Starvation by arrivals that never stop is not looked for.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from nullblock.spec.catalogue import CATALOGUE, register
from nullblock.spec.explorer.actions import Action, Schedule, Step, Update, actions, perform
from nullblock.spec.explorer.identity import Identity
from nullblock.spec.explorer.model import Scope, beginning
from nullblock.spec.explorer.search import CONFUSED, Counterexample, Result, Search, explore
from nullblock.spec.kernel import Broken, Disabled, State
from nullblock.spec.profiles import NORMATIVE, Semantics
from nullblock.spec.state import UNPAUSED, live

SERVED = "LIFE-15"
Progress = Callable[[int, int], None]
Edges = dict[int, tuple[Action, int]]
"""Where a step, or half of one, leads from a state in which somebody has to be served."""


@dataclass(frozen=True, slots=True)
class Lasso(Counterexample):
    """A counterexample that goes on for ever: its last actions lead back to where they began."""

    repeats: int
    """How many actions, counted from the end, make the cycle."""


@dataclass(frozen=True, slots=True)
class Liveness:
    """What the search for a cycle has found."""

    states: int
    transitions: int
    seconds: float
    lasso: Lasso | None
    complete: bool
    """Whether every reachable state was seen."""


def unserved(s: State) -> bool:
    """Whether somebody waits or runs, and may expect to be served."""
    return bool(s.pause == UNPAUSED and any(live(s, r) for r in s.k.requests))


def served_in_the_end(edges: Edges) -> bool:
    """Left alone and unpaused, the engine serves every request to its end.

    Upstream: 39734, 35541, 51299, self-preemption: requests that wait, run or start over for ever.
    """
    return cycle(edges) is None


register(SERVED, "invariant", served_in_the_end)


def cycle(edges: Edges) -> tuple[int, list[Action]] | None:
    """The cycle whose first state was found earliest: that state, and the actions round it."""
    settled: set[int] = set()
    found: list[int] = []
    for start in edges:
        way: dict[int, None] = {}
        at = start
        while at in edges and at not in settled and at not in way:
            way[at] = None
            at = edges[at][1]
        if at in way:
            ring = list(way)[list(way).index(at) :]
            found.append(min(ring))
        settled |= way.keys()
    if not found:
        return None
    first = min(found)
    return first, list(_round(edges, first))


def _round(edges: Edges, first: int) -> Iterator[Action]:
    at = first
    while True:
        action, at = edges[at]
        yield action
        if at == first:
            return


class _Graph:
    """Every state of a scope, how it was reached first, and where steps lead."""

    def __init__(self, scope: Scope, semantics: Semantics) -> None:
        self.scope = scope
        self.identity = Identity()
        self.first = beginning(scope, semantics)
        # Whether loops keep their outlines is for `explore` to check.
        self.first.k.checks = False
        self.seen: dict[Any, int] = {self.identity.key(self.first)[0]: 0}
        self.origin: list[tuple[int, Action | None]] = [(0, None)]
        self.edges: Edges = {}
        self.transitions = 0

    def explore(self, limit: int | None, progress: Progress | None) -> bool:
        """Visit the states, nearest first; returns whether all were."""
        level = [(0, self.first)]
        while level:
            following: list[tuple[int, State]] = []
            for index, s in level:
                following += self.visit(index, s)
                if progress is not None and index % 256 == 0:
                    progress(len(self.origin), self.transitions)
                if limit is not None and len(self.origin) >= limit:
                    return False
            level = following
        return True

    def visit(self, index: int, s: State) -> Iterator[tuple[int, State]]:
        """The states that are new after one of the actions in s."""
        for action in actions(s, self.scope):
            t = s.copy()
            self.transitions += 1
            try:
                perform(t, action)
            except (Disabled, Broken, *CONFUSED):
                continue  # A machine that raises is what `explore` looks for.
            key = self.identity.key(t)[0]
            number = self.seen.setdefault(key, len(self.origin))
            if isinstance(action, Step | Schedule | Update) and unserved(s):
                self.edges[index] = (action, number)
            if number == len(self.origin):
                self.origin.append((index, action))
                yield number, t

    def way(self, index: int) -> list[Action]:
        """The actions that lead to a state."""
        back: list[Action] = []
        while True:
            index, action = self.origin[index]
            if action is None:
                return back[::-1]
            back.append(action)


def explore_liveness(
    scope: Scope,
    semantics: Semantics = NORMATIVE,
    *,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Liveness:
    """A shortest way into a cycle of steps in which somebody is never served, or none.

    `limit` and `progress`: as in `explore`.
    """
    begun = time.perf_counter()
    graph = _Graph(scope, semantics)
    complete = graph.explore(limit, progress)
    found = cycle(graph.edges)
    lasso = None
    if found is not None:
        first, ring = found
        way = tuple(Search(scope, semantics, frozenset()).named([*graph.way(first), *ring]))
        lasso = Lasso(SERVED, CATALOGUE[SERVED].sentence, None, way, len(ring))
    return Liveness(
        len(graph.origin), graph.transitions, time.perf_counter() - begun, lasso, complete
    )


def explore_whole(
    scope: Scope, semantics: Semantics = NORMATIVE, *, progress: Progress | None = None
) -> Result:
    """What `explore` finds, and where that is nothing, what `explore_liveness` finds."""
    result = explore(scope, semantics, progress=progress)
    if result.counterexample is not None or not result.complete:
        return result
    served = explore_liveness(scope, semantics, progress=progress)
    seconds = result.seconds + served.seconds
    return replace(result, counterexample=served.lasso, seconds=seconds)
