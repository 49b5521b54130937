"""What scopes with layers that see only a part of the past have to reach."""

from collections.abc import Callable
from typing import Any

from nullblock.spec.groups import accepts
from nullblock.spec.hybrid import awaits_state
from nullblock.spec.in_turn import cut_twice
from nullblock.spec.kernel import State, both
from nullblock.spec.sizes import full_of, is_left_out

GROUP_WITNESSES: dict[str, str] = {
    "outlived-freed": "a running request gives back a block that no later token of it sees",
    "outlived-freed-in-vain": "it does, and its slots are not free all the same",
    "hit-behind-nulls": "a hit is adopted that stands behind null blocks",
    "nulls-dropped": "a table with null blocks is released",
    "left-out": "a request is admitted with blocks that count as cached and that no hit can need",
    "hit-of-sizes": "a prefix hit has different numbers of blocks in two groups",
    "cut-twice": "a short run of small blocks is hit for less than is cached of it",
    "state-awaited": "a request is turned away because the step computes the state that it hit",
    "gap-left": "null blocks are left before the state that a step ends with",
    "inner-kept": "a state within a step is kept besides that at its end",
    "state-moved": "a state beside the one at hand moves along",
    "cut-to-blocks": "a step is cut to whole blocks, because states are kept at its end alone",
    "cut-to-nothing": "nothing of a step is left once it is cut to whole blocks",
    "zeroed": "workers are told to zero blocks",
    "capped-by-window": "a request whose whole sequence would not fit at once is admitted",
}


def has_left_out(s: State, r: Any) -> Any:
    """Whether a block counts as cached of a table of r, and can be part of no hit."""
    if not s.k.several:
        return False

    def among(t: Any) -> Any:
        return s.k.exists("I", lambda i: both(0 <= i, i < s.ncached[t], is_left_out(s, t, i)))

    return s.k.exists("G", lambda g: among(s.k.table(r, g)))


def hits_differ(s: State, r: Any) -> Any:
    """Whether the lookup of r has hit more blocks of one group than of another."""
    if not s.k.several:
        return False
    first = full_of(s, s.k.table(r, 0), s.span)
    return s.k.exists("G", lambda g: full_of(s, s.k.table(r, g), s.span) != first)


def is_cut_twice(s: State) -> Any:
    """Whether the kind of layers that was asked last says less than full attention, because a run
    in its small blocks is cut to whole units before its last is dropped, and after.
    """
    if not s.k.in_turn:
        return False
    t = s.k.table(s.lr, s.k.lead(s.kind - 1))
    drops, longer = s.k.drops_of(t), s.reach[s.kind - 1] + s.k.span_unit
    whole = both(longer <= s.reach[0], longer + s.k.size_of(t) < s.ntok[s.lr])
    return both(whole, cut_twice(s, t, longer, drops) > 0, accepts(s, t, longer, drops))


class GroupWatch:
    """Notes them."""

    reached: set[str]
    gave_back: set[Any]
    """Who has given blocks back in this step."""

    def group_handlers(self) -> dict[str, Callable[[State], None]]:
        """What is called after which rule of groups."""
        return {
            "GROUP-6": self.let_go,
            "GROUP-7": self.null_dropped,
            "GROUP-60": self.kind_asked,
            "WAIT-7": self.asked_in_group,
            "GROUP-30": self.growth_noted,
            "GROUP-31": self.gap_left,
            "GROUP-32": self.state_moved,
            "WAIT-11": self.decided_in_group,
        }

    def let_go(self, s: State) -> None:
        """GROUP-6: a block is given back."""
        self.reached.add("outlived-freed")
        self.gave_back.add(s.actor)

    def null_dropped(self, s: State) -> None:
        """GROUP-7: a null block leaves a table."""
        self.reached.add("nulls-dropped")

    def adopted_in_group(self, s: State) -> None:
        """POOL-11: a hit is touched."""
        if s.na > 1 and s.hit[s.na - 2] == s.k.NULL:
            self.reached.add("hit-behind-nulls")
        if hits_differ(s, s.actor):
            self.reached.add("hit-of-sizes")

    def admitted_to_group(self, s: State, r: Any) -> None:
        """WAIT-9: a request runs."""
        if s.k.windowed and s.k.blocks(s.ntok[r]) > s.k.usable:
            self.reached.add("capped-by-window")
        if has_left_out(s, r):
            self.reached.add("left-out")

    def kind_asked(self, s: State) -> None:
        """GROUP-60: a kind of layers has said how far a hit reaches."""
        if is_cut_twice(s):
            self.reached.add("cut-twice")

    def asked_in_group(self, s: State) -> None:
        """WAIT-7: a request asks for slots."""
        if awaits_state(s):
            self.reached.add("state-awaited")
        if both(s.k.split > 0, s.goal < s.ntok[s.actor], s.asked < s.budget):
            self.reached.add("cut-to-blocks")

    def growth_noted(self, s: State) -> None:
        """GROUP-30: an aligned table is to get longer."""
        if s.k.keeps_inner and any(s.inner[t] == s.goal for t in s.k.tables(s.actor)):
            self.reached.add("inner-kept")

    def gap_left(self, s: State) -> None:
        """GROUP-31: a place is passed over."""
        self.reached.add("gap-left")

    def state_moved(self, s: State) -> None:
        """GROUP-32: a state beside is moved."""
        self.reached.add("state-moved")

    def decided_in_group(self, s: State) -> None:
        """WAIT-11: the step is decided."""
        if s.nzero > 0:
            self.reached.add("zeroed")

    def preempted_in_group(self, s: State) -> None:
        """PREEMPT-2: a victim leaves."""
        if s.actor in self.gave_back:
            self.reached.add("outlived-freed-in-vain")
