"""Whom the waiting phase passes over, and what becomes of the queues when others leave."""

from nullblock.spec.kernel import State, Value, both
from nullblock.spec.machine.remote import let_loaded_go_on
from nullblock.spec.remote import awaits_load
from nullblock.spec.rules.waiting import order_heap, pass_again, pass_by, promote
from nullblock.spec.sessions import may_stand_twice
from nullblock.spec.waiting import has_come, has_to_wait, is_heap


def passed_over(s: State, r: Value) -> Value:
    """Let r, whose turn it is, go on if it has what it awaits; pass it over if it has to wait all
    the same. Returns whether it was passed over (WAIT-44, WAIT-45, WAIT-55).
    """
    if not s.k.skips:
        return False
    if both(may_stand_twice(s), s.k.mem(s.passed, r)):
        pass_again(s, r)
        return True
    if has_come(s, r):
        if awaits_load(s, r):
            let_loaded_go_on(s, r)
        else:
            promote(s, r)
    if not has_to_wait(s, r):
        return False
    pass_by(s, r)
    return True


def order_queues(s: State) -> None:
    """All who are aborted at once have left: the queues are in order again (WAIT-54)."""
    if both(is_heap(s), s.loose != 0):
        order_heap(s)
