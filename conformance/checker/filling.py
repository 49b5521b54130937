"""For whom a load leaves room, where judging begins in the middle: no state tells it of all.

A load over several steps leaves room for the rest of what others load or compute of their prompt
(REMOTE-40), from their admission on. Who has gone back since, took a chunk, or lost what it was
loaded, looks like who has not.
"""

from typing import Any

from nullblock.spec.drafts import placeholders
from nullblock.spec.fields import REMOTE, RUNNING


class Unknown:
    """Of whom it is assumed, and not known. Memory: those in the state that judging began with."""

    def __init__(self) -> None:
        self.assumed: dict[int, int] = {}
        """By request: 1, that room is left for it."""
        self.counted: int | None = None
        """One of them, where the step that is decided may have come out so because of it."""

    def restore(self, s: Any) -> None:
        """Judging begins in this state, which has everything else but who is kept."""
        self.assumed = {}
        if not s.k.sem.loads_leave_room:
            return
        for r in s.k.requests:
            loads, runs = s.awaits[r] == REMOTE, s.stage[r] == RUNNING
            rest = s.comp[r] < s.ntok[r] + placeholders(s, r)
            begun = rest if runs else s.comp[r] > 0
            s.filling[r] = int(loads or begun)
            if not loads and (begun or not runs):
                self.assumed[r] = s.filling[r]

    def asked(self, s: Any) -> None:
        """A load over several steps may begin: what is assumed counts, unless it is known."""
        known = (r for r, n in self.assumed.items() if s.filling[r] != n or _is_past(s, r, n))
        for r in list(known):
            del self.assumed[r]
        self.counted = min(self.assumed, default=None)


def _is_past(s: Any, r: int, assumed: int) -> bool:
    """Whether r, for which no room was left, has been admitted or is gone."""
    return not assumed and (r not in s.k.requests or s.rank[r] == 0)
