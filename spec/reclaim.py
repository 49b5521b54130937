"""Remote KV: who gives loaded blocks back where nobody runs who could be preempted for them.

Whoever runs can be preempted, and ends; whoever waits with loaded blocks does neither until it is
its turn. So they may all lack what the others hold. `nullblock.spec.remote_departures` says why
this way out was chosen; what is written is in `nullblock.spec.rules.reclaim`.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.fields import REMOTE, RUN_PHASE, WAIT_PHASE
from nullblock.spec.gate import fits
from nullblock.spec.hybrid import holds_nothing
from nullblock.spec.kernel import State, Value, both, either, neg
from nullblock.spec.remote import is_received, is_sent
from nullblock.spec.sessions import num_taken
from nullblock.spec.state import is_head, is_waiting


def waits_loaded(s: State, r: Value) -> Value:
    """Whether r waits with blocks that were loaded, and is no session: that keeps its past."""
    away = either(s.phase != WAIT_PHASE, neg(is_head(s, r)))
    loads = both(s.awaits[r] == REMOTE, s.came[r] == 0)
    whole = both(is_waiting(s, r), neg(holds_nothing(s, r)), neg(loads))
    return both(whole, away, neg(s.k.resumable(r)))


def num_loaded(s: State) -> Value:
    """How many there are of those, but for the head that is tried."""
    return s.k.count("R", lambda r: waits_loaded(s, r))


@clause("REMOTE-45")
def last_loaded(s: State) -> Value:
    """Of those who wait with loaded blocks the one that arrived last gives them back first, or the
    one that comes last by priority, arrival time and id: the first keep what they have longest.

    Source: our decision; vLLM takes no blocks from those who wait.
    """
    return s.k.first(
        "R",
        lambda r: waits_loaded(s, r),
        lambda r: s.k.behind(r, num_taken(s, r)) if s.k.priority else -s.arr[r],
    )


def is_transferred(s: State) -> Value:
    """Whether blocks are loaded or sent: when that ends some may be free."""
    return s.k.exists("R", lambda r: either(is_received(s, r), is_sent(s, r)))


def lacks_alone(s: State) -> Value:
    """Whether somebody lacks slots for whom nobody else can be preempted: the head that may not
    enter while nobody runs, or the only one that runs.
    """
    if s.phase == RUN_PHASE:
        return both(s.asked != 0, s.nr == 1, neg(fits(s, s.actor)))
    return both(s.phase == WAIT_PHASE, s.blocked == 1, s.nr == 0)


def may_reclaim(s: State) -> Value:
    """Whether somebody gives loaded blocks back for that (REMOTE-46)."""
    if not s.k.connector:
        return False
    if not s.k.sem.loaded_blocks_come_back:
        return False
    return both(lacks_alone(s), num_loaded(s) > 0, neg(is_transferred(s)))
