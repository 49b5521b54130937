"""Why everybody is served under PRIORITY too: what one step does for those before the chief.

Under PRIORITY a chief may run behind requests that are less urgent, or wait while these run. Then
its rank has more parts, compared after its own: how many stand before it in the line, and the
rank of the first of those. No step adds anybody to them, because whoever is admitted stands
behind all who run, and nobody is admitted before a chief that waits. And every step serves the
first: it is taken off the list, or its rank falls, or a token for it is in flight. So those
before the chief get fewer and fewer, until it is first itself, or waits alone; then LIVE-7 is
about it.
"""

from nullblock.spec.fields import PAUSED_ALL, RUN_PHASE, RUNNING, WAIT_PHASE
from nullblock.spec.kernel import State, Value, both, either, implies, ite, neg
from nullblock.spec.liveness.ranking import (
    Mark,
    Piece,
    gains,
    gone,
    has_arrived,
    is_lower,
    not_passed_by,
    still_comes_first,
    theorem,
    waits,
)


def before(s: State, r: Value) -> Value:
    """How many stand before a request: in the running list, or, while it waits, all who run."""
    return ite(s.stage[r] == RUNNING, s.ix[r], s.nr)


def may_serve(s: State, m: Mark) -> Value:
    """An engine about to begin a step, not wholly paused, and the first of the running list."""
    return both(
        s.pause != PAUSED_ALL, m.arr > 0, s.nr > 0, s.run[0] == m.r, s.stage[m.r] == RUNNING
    )


def is_served_first(s: State, m: Mark) -> Value:
    """While running requests are served, it is the first of them or runs no longer."""
    runs = both(neg(gone(s, m)), s.stage[m.r] == RUNNING, s.phase == RUN_PHASE)
    return implies(runs, both(s.nr > 0, s.run[0] == m.r))


def stays_out(s: State, m: Mark) -> Value:
    """Once it was taken off the list in this step, the step admits nobody."""
    deciding = either(s.phase == RUN_PHASE, s.phase == WAIT_PHASE)
    return implies(both(neg(gone(s, m)), s.stage[m.r] != RUNNING, deciding), s.turned > 0)


@theorem("LIVE-12")
def first_is_served(s: State, m: Mark) -> Value:
    """Without drafts, and where nobody waits for anything but its turn, every step that finds
    somebody running, and not everything paused, takes the first of the running list off it, or
    lowers its rank, or a token for it is in flight.
    """
    return either(s.stage[m.r] != RUNNING, is_lower(s, m))


def stands(s: State, m: Mark) -> Value:
    """The chief runs, or waits, behind no more than there were."""
    r = m.r
    return implies(
        neg(gone(s, m)),
        both(either(s.stage[r] == RUNNING, waits(s, m)), before(s, r) <= m.before),
    )


@theorem("LIVE-13")
def line_shortens(s: State, m: Mark) -> Value:
    """Without drafts, and where nobody waits for anything but its turn, before a request that
    nobody comes before there never stand more than there were, and unless they get fewer the first
    of the running list stays the first.

    As long as no reset is under way and, under PRIORITY, nobody arrives that comes before it.
    """
    q = m.first
    stays = both(s.stage[q] == RUNNING, s.arr[q] == m.first_arr, s.nr > 0, s.run[0] == q)
    fewer = before(s, m.r) < m.before
    return implies(
        both(neg(gone(s, m)), m.before > 0),
        both(before(s, m.r) <= m.before, either(fewer, stays)),
    )


SERVE_KEEPS: tuple[Piece, ...] = (has_arrived, is_served_first, stays_out, not_passed_by, gains)
"""What holds of the first of the running list from the beginning of a step to that of the next."""
LINE_KEEPS: tuple[Piece, ...] = (has_arrived, still_comes_first, stands, line_shortens)
"""What holds of any chief, over any number of steps and updates, resets aside."""
