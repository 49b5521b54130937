"""Requests that wait for something else than their turn: the skipped queue, who is passed over."""

from nullblock.spec.fields import LEAVING, REMOTE, WAIT_PHASE, WAITING
from nullblock.spec.invariants.ledger import invariant, within
from nullblock.spec.kernel import State, Value, both, either, implies, neg
from nullblock.spec.remote import most_awaited
from nullblock.spec.state import is_waiting
from nullblock.spec.waiting import (
    has_to_wait,
    in_line,
    is_put_aside,
    is_skipped,
    runs_with_adapter,
)


@invariant("WAIT-46")
def skipped_places(s: State) -> Value:
    """Only requests that wait stand in the skipped queue, at distinct places before its back, and
    none where nobody waits for anything but its turn.
    """
    return both(
        s.sback > 0,
        s.k.forall(
            "R",
            lambda r: both(
                within(0, s.skip[r], s.sback),
                implies(is_skipped(s, r), both(is_waiting(s, r), neg(s.k.in_order))),
            ),
        ),
        s.k.forall(
            "RR", lambda r, q: implies(both(is_skipped(s, r), s.skip[r] == s.skip[q]), r == q)
        ),
    )


@invariant("WAIT-47")
def who_awaits_is_skipped(s: State) -> Value:
    """A request that awaits something stands in the skipped queue and was not preempted; nothing
    has come for one that awaits nothing.
    """
    return s.k.forall(
        "R",
        lambda r: both(
            within(0, s.awaits[r], most_awaited(s) + 1),
            within(0, s.came[r], 2),
            implies(
                both(s.awaits[r] != 0, s.awaits[r] != REMOTE),
                both(is_put_aside(s, r), s.stage[r] == WAITING),
            ),
            implies(s.awaits[r] == REMOTE, either(is_put_aside(s, r), s.stage[r] == LEAVING)),
            implies(s.awaits[r] == 0, s.came[r] == 0),
        ),
    )


@invariant("WAIT-48")
def passed_over_for_a_reason(s: State) -> Value:
    """Whoever has been passed over in this step waits in the skipped queue, and still for
    something else than its turn; with the waiting phase that is forgotten.
    """
    return s.k.forall(
        "R",
        lambda r: implies(
            s.k.mem(s.passed, r),
            both(s.phase == WAIT_PHASE, is_put_aside(s, r), has_to_wait(s, r)),
        ),
    )


@invariant("WAIT-49")
def adapters_bound(s: State) -> Value:
    """No more different adapters belong to running requests than max_loras, where that is set."""
    if s.k.max_loras == 0:
        return True
    running = s.k.variety(
        "R", lambda r: runs_with_adapter(s, r), lambda r: s.k.adapter(r), by="running"
    )
    return running <= s.k.max_loras


@invariant("WAIT-51")
def line_length(s: State) -> Value:
    """Those who wait and have not been passed over in this step are counted."""
    return both(
        s.nline == s.k.card(s.lineset),
        s.k.forall("R", lambda r: s.k.mem(s.lineset, r) == in_line(s, r)),
    )


@invariant("WAIT-52")
def looked_up_waits_for_its_turn(s: State) -> Value:
    """The request looked up waits for nothing but its turn."""
    return implies(s.looking > 0, both(s.awaits[s.lr] == 0, neg(has_to_wait(s, s.lr))))
