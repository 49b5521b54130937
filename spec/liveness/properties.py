"""What must happen in the end, as statements: for each, the cycles that would break it.

A cycle breaks a statement if it stays where nobody is served, takes only what the world may do for
ever, and takes the steps that a fair engine takes. So each statement below is a pattern of such
cycles, and holds in a scope if there is none of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import permutations

from nullblock.spec.catalogue import register
from nullblock.spec.explorer.actions import Add
from nullblock.spec.liveness.cycles import Take
from nullblock.spec.liveness.fairness import Assumption, allowed, steps, steps_for_runners
from nullblock.spec.liveness.graph import Edge, Explored, Standing

Assumed = frozenset[Assumption]


@dataclass(frozen=True, slots=True)
class Pattern:
    """The cycles that would break a statement for somebody."""

    who: tuple[str, ...]
    """Whom it is about: the one who starves first. Empty: nobody in particular."""
    complaint: str
    """What is wrong with such a cycle."""
    inside: Callable[[Standing], bool]
    """The states it stays in."""
    along: Callable[[int, Edge], bool]
    """The edges it may take."""
    takes: tuple[Take[Edge], ...]
    """What it must take: for each of these at least one edge."""


Patterns = Callable[[Explored, Assumed], Iterator[Pattern]]
PROPERTIES: dict[str, Patterns] = {}
"""The most telling first: LIVE-1 alone says all that matters to a client."""


def liveness(id: str) -> Callable[[Patterns], Patterns]:
    """Register a statement about what happens in the end."""

    def enter(f: Patterns) -> Patterns:
        register(id, "liveness", f)
        PROPERTIES[id] = f
        return f

    return enter


def _names(graph: Explored) -> list[str]:
    return [t.id for t in graph.scope.templates]


@liveness("LIVE-4")
def nothing_is_parked(graph: Explored, assumed: Assumed) -> Iterator[Pattern]:
    """Nobody waits for ever while nobody else is there: what can never fit is not taken in.

    Upstream: 39734, 55130.
    """
    for r in _names(graph):
        yield Pattern(
            (r,),
            f"{r} waits for ever, and nobody else is there",
            lambda at, r=r: at.waiting == {r} and not at.running,  # type: ignore[misc]
            lambda _, edge, r=r: allowed(graph, assumed, r, edge),  # type: ignore[misc]
            (lambda at, edge: steps(graph, assumed, at, edge),),
        )


@liveness("LIVE-5")
def head_blocks_nobody(graph: Explored, assumed: Assumed) -> Iterator[Pattern]:
    """Nobody waits for ever behind one and the same head: a head that can never be admitted
    blocks no others, for there is none.

    Upstream: 39734, 35541, 45414.
    """
    for h, r in permutations(_names(graph), 2):
        yield Pattern(
            (r, h),
            f"{r} waits for ever behind {h}, which is never admitted",
            lambda at, h=h, r=r: at.head == h and r in at.waiting,  # type: ignore[misc]
            lambda _, edge, r=r: allowed(graph, assumed, r, edge),  # type: ignore[misc]
            (lambda at, edge: steps(graph, assumed, at, edge),),
        )


@liveness("LIVE-6")
def head_keeps_its_place(graph: Explored, assumed: Assumed) -> Iterator[Pattern]:
    """Nobody is overtaken again and again: a head that is merely short of blocks keeps its place,
    and those behind it wait.

    Upstream: 33522, 41951.
    """
    for r in _names(graph):
        yield Pattern(
            (r,),
            f"{r} waits for ever, and others are admitted before it that come after it",
            lambda at, r=r: r in at.waiting,  # type: ignore[misc]
            lambda _, edge, r=r: allowed(graph, assumed, r, edge),  # type: ignore[misc]
            (lambda _, edge, r=r: r in edge.overtaken,),  # type: ignore[misc]
        )


@liveness("LIVE-2")
def preemptions_end(graph: Explored, assumed: Assumed) -> Iterator[Pattern]:
    """Requests do not preempt one another for ever: while nobody arrives, preemptions come to an
    end.

    Upstream: 25538, 21809, 18115.
    """
    for r in _names(graph):
        yield Pattern(
            (r,),
            f"{r} is preempted again and again, though nobody arrives",
            lambda at, r=r: r in at.live,  # type: ignore[misc]
            lambda _, edge, r=r: (  # type: ignore[misc]
                not isinstance(edge.action, Add) and allowed(graph, assumed, r, edge)
            ),
            (lambda _, edge, r=r: r in edge.preempted,),  # type: ignore[misc]
        )


@liveness("LIVE-3")
def runners_finish(graph: Explored, assumed: Assumed) -> Iterator[Pattern]:
    """Nobody runs for ever: whoever is not preempted finishes, even while admissions are paused.

    Upstream: 51299.
    """
    for r in _names(graph):
        yield Pattern(
            (r,),
            f"{r} runs for ever",
            lambda at, r=r: r in at.running,  # type: ignore[misc]
            lambda _, edge, r=r: (  # type: ignore[misc]
                r not in edge.preempted and allowed(graph, assumed, r, edge)
            ),
            (lambda at, edge: steps_for_runners(graph, assumed, at, edge),),
        )


@liveness("LIVE-1")
def served(graph: Explored, assumed: Assumed) -> Iterator[Pattern]:
    """Every request that is accepted finishes or is aborted.

    Upstream: 39734, 35541, 51299, 25538.
    """
    for r in _names(graph):
        yield Pattern(
            (r,),
            f"{r} neither finishes nor is aborted",
            lambda at, r=r: r in at.live,  # type: ignore[misc]
            lambda _, edge, r=r: allowed(graph, assumed, r, edge),  # type: ignore[misc]
            (lambda at, edge: steps(graph, assumed, at, edge),),
        )
