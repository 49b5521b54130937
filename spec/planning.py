"""Whose encoder inputs are planned, and who lets go of what: readings for the rules of encoder
inputs that ask what the core is about to do.
"""

from nullblock.spec.aligned import cut_first
from nullblock.spec.fields import IDLE, RUN_PHASE, UPDATE, WAIT_PHASE
from nullblock.spec.flight import concerns
from nullblock.spec.gate import fits, fits_whole
from nullblock.spec.kernel import State, Value, both, either, neg
from nullblock.spec.state import (
    chunk,
    has_no_tokens,
    is_waiting,
    may_chunk,
    start,
    to_enter,
    turn,
)


def runs_next(s: State, r: Value) -> Value:
    """Whether r is the running request whose turn it is."""
    return both(s.phase == RUN_PHASE, s.halted == 0, s.at < s.nr, r == s.run[s.at])


def enters_next(s: State, r: Value) -> Value:
    """Whether r is the waiting request whose prefix is looked up."""
    return both(s.phase == WAIT_PHASE, s.looking == 2, r == s.lr, s.na == 0, may_chunk(s, r))


def plans_nothing(s: State, r: Value) -> Value:
    """Whether no inputs are planned for r, who would enter: no block fits into the step, in lines
    that look at this first (GROUP-29).
    """
    if not (s.k.split and s.k.sem.blocks_before_items):
        return False
    return cut_first(s, r, start(s, r), chunk(s, to_enter(s, r))) == 0


def is_turned_away(s: State, r: Value) -> Value:
    """Whether r has been looked up and planned, and cannot enter for want of slots."""
    return both(
        s.phase == WAIT_PHASE,
        s.looking == 2,
        r == s.lr,
        s.na == 0,
        both(s.planning == 2, neg(has_no_tokens(s, r))),
        either(both(s.asked == 0, neg(fits_whole(s, r))), both(turn(s, r), neg(fits(s, r)))),
    )


def gives_up_all(s: State, r: Value) -> Value:
    """Whether r is to refer to no embeddings any more."""
    leaves = both(s.leaving != 0, r == s.leaver)
    waits = both(either(s.phase == IDLE, s.phase == UPDATE), is_waiting(s, r))
    return either(leaves, waits, is_turned_away(s, r))


def is_settled_next(s: State, r: Value) -> Value:
    """Whether the output that is applied next is r's, and concerns it."""
    return both(
        s.phase == UPDATE,
        both(s.open == 0, s.cur < s.upto, r == s.frame[s.cur]),
        concerns(s, s.cur),
    )
