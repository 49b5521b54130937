"""The loop over the rules of tables that keep the states at ends of steps alone."""

from nullblock.spec.aligned import is_gap, moves_along, next_to_move
from nullblock.spec.fields import HANDED
from nullblock.spec.kernel import State, Value, loop
from nullblock.spec.rules.aligned import leave_gap, move_state, note_before
from nullblock.spec.rules.pool import push_new
from nullblock.spec.slots import room
from nullblock.spec.state import lru


def grow(s: State, t: Value) -> None:
    """Give the actor's table t its places: a gap, the states beside that move along, and what is
    missing then (GROUP-30 to GROUP-32, POOL-10).
    """
    if s.tlen[t] < room(s, t):
        note_before(s, t)
    for _ in loop(
        s,
        until=lambda: s.tlen[t] >= room(s, t),
        decreases=lambda: room(s, t) - s.tlen[t],
        changes=HANDED,
    ):
        if is_gap(s, t):
            leave_gap(s, t)
        elif moves_along(s, t):
            move_state(s, t, s.tab[t, next_to_move(s, t)])
        else:
            push_new(s, t, lru(s))
