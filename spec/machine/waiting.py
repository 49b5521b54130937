"""Whom the waiting phase passes over."""

from nullblock.spec.kernel import State, Value
from nullblock.spec.machine.remote import let_loaded_go_on
from nullblock.spec.remote import awaits_load
from nullblock.spec.rules.waiting import pass_by, promote
from nullblock.spec.waiting import has_come, has_to_wait


def passed_over(s: State, r: Value) -> Value:
    """Let r, whose turn it is, go on if it has what it awaits; pass it over if it has to wait all
    the same. Returns whether it was passed over (WAIT-44, WAIT-45).
    """
    if not s.k.skips:
        return False
    if has_come(s, r):
        if awaits_load(s, r):
            let_loaded_go_on(s, r)
        else:
            promote(s, r)
    if not has_to_wait(s, r):
        return False
    pass_by(s, r)
    return True
