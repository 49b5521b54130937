"""Whether requests are served in the end: on the same graph of states, a cycle instead of a state.

Steps are deterministic. So what happens when nothing more arrives is one path through the graph,
and a request that waits or runs for ever shows as a cycle on it: a state that steps lead back to,
with a request that is still there. Starvation by arrivals that never stop is not looked for.
"""

from collections.abc import Iterator

from nullblock.spec.catalogue import register
from nullblock.spec.explorer.actions import Action, Schedule, Step, Update
from nullblock.spec.fields import UNPAUSED
from nullblock.spec.kernel import State
from nullblock.spec.remote import is_transferring
from nullblock.spec.sessions import blocks_are_kept
from nullblock.spec.state import live
from nullblock.spec.waiting import lacks

SERVED = "LIFE-15"
STEPS = (Step, Schedule, Update)
"""What the engine does by itself."""
Edges = dict[int, tuple[Action, int]]
"""Where a step, or half of one, leads from a state in which somebody has to be served."""


def unserved(s: State) -> bool:
    """Whether somebody waits or runs, and may expect to be served: not while blocks are loaded or
    sent, which takes up room.
    """
    if blocks_are_kept(s) or is_transferring(s):
        # Sessions that wait for their turn may hold all that it takes (upstream 49439).
        return False
    return bool(s.pause == UNPAUSED and any(live(s, r) and not lacks(s, r) for r in s.k.requests))


def served_in_the_end(edges: Edges) -> bool:
    """Left alone and unpaused, the engine serves every request to its end that has what it
    awaits, while no session that waits holds blocks.

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
