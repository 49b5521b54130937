"""What the connector of a scenario is asked by the specification, for whoever records it."""

from collections.abc import Callable
from typing import Any

from nullblock.conformance.adapters.spec_remote import RemoteKV
from nullblock.conformance.engine import Fields
from nullblock.spec.carriers import Zero
from nullblock.spec.fields import REMOTE, RUNNING, WAIT_PHASE
from nullblock.spec.remote import is_offered_nothing
from nullblock.spec.sizes import hit_tokens
from nullblock.spec.waiting import has_no_place, lacks


class Heard:
    """Implements :class:`nullblock.conformance.engine.Heard`: the maps that say what the remote
    side holds note who is looked up in them.
    """

    def __init__(self, s: Any, remote: RemoteKV) -> None:
        self.s, self.remote = s, remote
        self.asked: dict[str, Fields] = {}
        s.remote, s.unsure = _Told(s.remote, self.looked_up), _Told(s.unsure, self.doubted)

    def looked_up(self, r: str, held: int) -> None:
        """What is held of r was read: it is asked for, now that its local hit is known."""
        s = self.s
        if s.looking == (1 if s.k.spans else 2) and r == s.lr and s.comp[r] == 0:
            over_steps = s.k.loads_over_steps(r)
            local, most = hit_tokens(s), s.ntok[r] - (0 if over_steps else 1)
            tokens = max(min(held, most) - local, 0)
            told: Fields = {"id": r, "local": local, "tokens": tokens}
            self.asked[r] = told | ({"over_steps": True} if over_steps and tokens else {})

    def doubted(self, r: str, unsure: int) -> None:
        """Whether that is known was read: where it is not, it is asked all the same."""
        s = self.s
        tried = unsure and s.phase == WAIT_PHASE and s.comp[r] == 0
        if tried and not lacks(s, r) and not has_no_place(s, r):
            self.asked.setdefault(r, {"id": r})

    def take(self) -> list[Fields] | None:
        """The answers in the step just scheduled; None: nobody was asked."""
        s, (found, self.asked) = self.s, (self.asked, {})
        for r, told in found.items():
            waits = s.awaits[r] == REMOTE
            loads = told.get("tokens") and not is_offered_nothing(s, r)
            if loads and (waits or s.stage[r] == RUNNING):
                told["begins"] = True
                if waits:
                    told["blocks"] = [
                        [s.tab[t, i] for i in range(s.tlen[t])] for t in s.k.tables(r)
                    ]
        return list(found.values()) or None

    def lost(self) -> list[str]:
        """Who ended with the last update because blocks were not loaded, in order."""
        return self.remote.order if self.s.k.fails_loads else []


class _Told(Zero):
    """A map that tells what is read of whom."""

    def __init__(self, known: dict[Any, Any], read: Callable[[Any, int], None]) -> None:
        super().__init__(known)
        self.read = read

    def __getitem__(self, r: Any) -> Any:
        n = self.get(r, 0)
        self.read(r, n)
        return n
