"""From when requests of a session were sent to whom each of them waits for.

A replay is faster or slower than the recording, so recorded times order nothing by themselves.
What holds in any run: an agent sends one request after another, and whoever was sent after an
answer had come may depend on it. So a request waits for the one before of its agent, for the one
whose prefix it continues, and of the other agents for the last one that had ended by then.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from nullblock.conformance.workloads.content import Content
from nullblock.conformance.workloads.session import Session, Turn


@dataclass(frozen=True, slots=True)
class Sent:
    """A request as a session's recording tells of it."""

    agent: int
    t: float
    """Seconds since the session began."""
    took: float
    """Seconds until its answer was complete; 0 where that is not recorded."""
    think: float | None
    """Seconds between the answer before and this request, if recorded."""
    parent: int | None
    """The place in the session of the request whose prefix it continues."""
    content: Content
    output_length: int


def session(rows: Iterable[Sent]) -> Session:
    """The session that consists of these requests, in order of time."""
    seen: list[Sent] = []
    of: dict[int, list[int]] = {}
    """By agent, the places of its requests so far."""
    turns: list[Turn] = []
    for row in rows:
        after = set() if row.parent is None else {row.parent}
        for agent, places in of.items():
            if agent == row.agent:
                after.add(places[-1])
            else:
                after |= _last_ended(places, seen, row.t)
        turns.append(
            Turn(row.content, row.output_length, tuple(sorted(after)), _delay(row, after, seen))
        )
        of.setdefault(row.agent, []).append(len(seen))
        seen.append(row)
    return Session(tuple(turns))


def _last_ended(places: list[int], seen: list[Sent], t: float) -> set[int]:
    """Of one agent's requests the last that had ended at time t."""
    ended = (place for place in reversed(places) if seen[place].t + seen[place].took <= t)
    return set(islice(ended, 1))


def _delay(row: Sent, after: set[int], seen: list[Sent]) -> float:
    """Seconds between the last end that was waited for and the request."""
    if not after:
        return 0.0
    idle = max(0.0, row.t - max(seen[place].t + seen[place].took for place in after))
    return idle if row.think is None else min(idle, row.think)
