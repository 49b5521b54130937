"""Why everybody is served: what one step does for the request that nobody comes before.

The rank of a request is what is left of it, compared in this order: outputs still to come, tokens
still to be computed, steps until its first token in flight comes back; none is ever negative. Of
the request that nobody comes before, the *chief*, every step that is begun lowers the rank, or a
token for it is in flight; and every update that brings such a token lowers it too. Nothing else
raises it, resets aside. So it finishes, somebody else becomes chief, and so on.

Under PRIORITY that is said of a chief that is first in the running list, or waits while nobody
runs. Of any other one it is said that it keeps what it has once it runs, and that nobody else is
admitted while it waits; `nullblock.spec.liveness.line` says why those before it get fewer.

All that is said of configurations without drafts in which nobody waits for anything but its turn
(`is_plain`). With drafts an update may take back tokens that a step counted as computed, and
nothing is proved here: that everybody is served is then checked in bounded scopes
(`nullblock explore --liveness`).

The statements are about a state and a mark: what was so of the chief when a step, or an update,
began. They are written in the words of the specification: `nullblock.spec.liveness.proof` proves
that every rule keeps them, and the tests run the same text on every step of bounded scopes.
"""

from collections.abc import Callable
from dataclasses import dataclass

from nullblock.spec.catalogue import register
from nullblock.spec.drafts import placeholders
from nullblock.spec.fields import (
    AWAY,
    LEAVING,
    PREEMPTED,
    RESETTING,
    RUN_PHASE,
    RUNNING,
    UNBORN,
    UNPAUSED,
    UPDATE,
    WAIT_PHASE,
    WAITING,
)
from nullblock.spec.kernel import State, Value, both, either, implies, ite, neg
from nullblock.spec.state import longest


@dataclass(frozen=True, slots=True)
class Mark:
    """The chief, and what was so of it when a step or an update began."""

    r: Value
    arr: Value
    ntok: Value
    comp: Value
    entry: Value
    """The entry of its first token in flight that it will take; of no meaning if there is none."""
    before: Value
    """How many stood before it: in the running list, or, if it waited, all who ran."""
    first: Value
    """Who was first in the running list; of no meaning if nobody was."""
    first_arr: Value


Piece = Callable[[State, Mark], Value]
THEOREMS: dict[str, Piece] = {}


def theorem(id: str) -> Callable[[Piece], Piece]:
    """Register a statement about what a step or an update does for the chief."""

    def enter(f: Piece) -> Piece:
        register(id, "liveness", f)
        THEOREMS[id] = f
        return f

    return enter


def mark(s: State, r: Value) -> Mark:
    """The mark of a request as it is now."""
    entry = s.entry[r, s.base[r] + s.drop[r]]
    before = ite(s.stage[r] == RUNNING, s.ix[r], s.nr)
    first = s.run[0]
    return Mark(r, s.arr[r], s.ntok[r], s.comp[r], entry, before, first, s.arr[first])


def gone(s: State, m: Mark) -> Value:
    """Whether the chief has finished or was aborted; its id may be used again."""
    return either(s.arr[m.r] != m.arr, both(s.stage[m.r] == LEAVING, s.leaving == AWAY))


def waits(s: State, m: Mark) -> Value:
    """Whether the chief stands in the queue."""
    return either(s.stage[m.r] == WAITING, s.stage[m.r] == PREEMPTED)


def comes_first(s: State, m: Mark) -> Value:
    """Nobody comes before the chief: under FCFS nobody arrived before, under PRIORITY nobody has
    an earlier place in the queue. Equals have places too, so there always is a chief.
    """
    if not s.k.priority:
        return s.k.forall("R", lambda q: implies(s.stage[q] != UNBORN, m.arr <= s.arr[q]))
    return s.k.forall(
        "R",
        lambda q: implies(both(s.stage[q] != UNBORN, q != m.r), s.k.order(m.r) < s.k.order(q)),
    )


def leads(s: State, m: Mark) -> Value:
    """Running, the chief is first in the list."""
    return implies(s.stage[m.r] == RUNNING, both(s.nr > 0, s.run[0] == m.r))


def awaits_alone(s: State, m: Mark) -> Value:
    """While the chief waits, nobody runs."""
    return implies(waits(s, m), s.nr == 0)


def stands_first(s: State, m: Mark) -> Value:
    """The chief leads those who run, or nobody does. Under FCFS that follows from its coming
    first.
    """
    return both(leads(s, m), awaits_alone(s, m))


def is_plain(s: State) -> Value:
    """What every part of the argument takes for granted of the configuration: no drafts, and
    nobody who waits for anything but its turn.
    """
    return both(s.k.num_spec == 0, s.k.in_order)


def may_begin(s: State, m: Mark) -> Value:
    """What the theorem is about: an unpaused engine about to begin a step, and a chief."""
    return both(
        s.pause == UNPAUSED,
        neg(gone(s, m)),
        s.stage[m.r] != UNBORN,
        m.arr > 0,
        comes_first(s, m),
        stands_first(s, m) if s.k.priority else True,
    )


def has_arrived(s: State, m: Mark) -> Value:
    """The chief arrived in the past, and no reset is under way."""
    return both(m.arr > 0, m.arr < s.aclk, s.phase != RESETTING)


def stays_chief(s: State, m: Mark) -> Value:
    """Nobody comes before the chief, and it stands first."""
    return implies(neg(gone(s, m)), both(comes_first(s, m), stands_first(s, m)))


def _untouched(s: State, m: Mark) -> Value:
    """Running, and the index has not come to it."""
    return both(s.stage[m.r] == RUNNING, s.phase == RUN_PHASE, s.at == 0)


def not_passed_by(s: State, m: Mark) -> Value:
    """Until the index comes to the chief, the whole budget is left, and it is as it was."""
    return implies(
        both(neg(gone(s, m)), _untouched(s, m)),
        both(
            s.comp[m.r] == m.comp,
            s.ntok[m.r] == m.ntok,
            s.sched[m.r] == 0,
            s.halted == 0,
            s.budget == s.k.budget,
        ),
    )


def is_admitted(s: State, m: Mark) -> Value:
    """A chief that waits is the head of the queue, with the whole budget and nobody in its way;
    and it waits no longer than the waiting phase.
    """
    r = m.r
    return implies(
        both(neg(gone(s, m)), waits(s, m)),
        both(
            either(s.phase == RUN_PHASE, s.phase == WAIT_PHASE),
            s.pause == UNPAUSED,
            s.at == 0,
            s.turned == 0,
            s.blocked == 0,
            s.halted == 0,
            s.budget == s.k.budget,
            s.ntok[r] == m.ntok,
            m.comp == 0,
            implies(both(s.looking > 0, s.na == 0), s.nevict <= s.nhit),
        ),
    )


def gains(s: State, m: Mark) -> Value:
    """Once the index has come to it the chief is scheduled for a token at least, has taken one, or
    one is in flight for it; and it never loses what it has.
    """
    r = m.r
    return implies(
        both(neg(gone(s, m)), s.stage[r] == RUNNING, neg(_untouched(s, m))),
        both(
            s.ntok[r] >= m.ntok,
            s.comp[r] >= m.comp,
            either(s.comp[r] + s.sched[r] > m.comp, s.ntok[r] > m.ntok, s.ph[r] > 0),
        ),
    )


def is_somewhere(s: State, m: Mark) -> Value:
    """The chief runs or waits until it is gone: it is never on its way back to the queue."""
    return either(gone(s, m), s.stage[m.r] == RUNNING, waits(s, m))


STEP_KEEPS: tuple[Piece, ...] = (
    has_arrived,
    is_somewhere,
    stays_chief,
    not_passed_by,
    is_admitted,
    gains,
)
"""What holds from the beginning of a step to the beginning of the next."""


def is_due(s: State, m: Mark) -> Value:
    """The first token in flight that the chief will take, and it did not take it yet: where the
    mark says, and not behind what is settled.
    """
    r = m.r
    return both(
        s.ntok[r] == m.ntok,
        s.ph[r] > 0,
        s.entry[r, s.base[r] + s.drop[r]] == m.entry,
        s.cur <= m.entry,
        m.entry < s.upto,
    )


def comes_back(s: State, m: Mark) -> Value:
    """While an output is applied that brings the chief a token, the token is still to come, or the
    chief has taken it.
    """
    return implies(
        both(neg(gone(s, m)), s.phase == UPDATE), either(is_due(s, m), s.ntok[m.r] > m.ntok)
    )


@theorem("LIVE-9")
def has_come_back(s: State, m: Mark) -> Value:
    """Without drafts, and where nobody waits for anything but its turn, an update that brings a
    request a token which it is to take leaves it with fewer outputs to come, or it is gone.
    """
    return implies(neg(gone(s, m)), either(s.phase == UPDATE, s.ntok[m.r] > m.ntok))


UPDATE_KEEPS: tuple[Piece, ...] = (has_arrived, comes_back, has_come_back)
"""What holds from the beginning of an update that brings the chief a token to its end."""


@theorem("LIVE-10")
def keeps_running(s: State, m: Mark) -> Value:
    """Without drafts, and where nobody waits for anything but its turn, a request that runs, and
    that nobody comes before, goes on running until it is gone, and keeps what is computed of it.

    As long as no reset preempts it and, under PRIORITY, nobody arrives that comes before it.
    """
    return either(
        gone(s, m),
        both(
            s.stage[m.r] == RUNNING,
            s.comp[m.r] >= m.comp,
            s.ntok[m.r] >= m.ntok,
        ),
    )


def still_comes_first(s: State, m: Mark) -> Value:
    """Nobody comes before the chief."""
    return implies(neg(gone(s, m)), comes_first(s, m))


@theorem("LIVE-11")
def is_let_by(s: State, m: Mark) -> Value:
    """Without drafts, and where nobody waits for anything but its turn, while a request waits
    that nobody comes before, no step admits anybody else.

    As long as, under PRIORITY, nobody arrives that comes before it.
    """
    return implies(
        both(neg(gone(s, m)), waits(s, m), either(s.phase == RUN_PHASE, s.phase == WAIT_PHASE)),
        s.adm == 0,
    )


RUN_KEEPS: tuple[Piece, ...] = (has_arrived, still_comes_first, keeps_running)
"""What holds of a chief that runs, over any number of steps and updates, resets aside."""
WAIT_KEEPS: tuple[Piece, ...] = (has_arrived, still_comes_first, is_let_by)
"""What holds of any chief, over any number of steps and updates, resets aside."""


@theorem("LIVE-7")
def is_lower(s: State, m: Mark) -> Value:
    """Without drafts, and where nobody waits for anything but its turn, every step that finds the
    engine unpaused lowers the rank of the request that nobody comes before, or a token for it is
    in flight.

    The rank: outputs to come, then tokens to compute. Under PRIORITY this is shown while that
    request is first in the running list, or nobody runs.
    """
    r = m.r
    return either(
        gone(s, m),
        both(
            s.ntok[r] >= m.ntok,
            s.comp[r] >= m.comp,
            either(s.ntok[r] > m.ntok, s.comp[r] > m.comp, s.ph[r] > 0),
        ),
    )


def awaits_nothing(s: State, m: Mark) -> Value:
    """With nothing in flight there is no token in flight for the chief: it would be there."""
    first = s.entry[m.r, s.base[m.r] + s.drop[m.r]]
    return either(s.ph[m.r] == 0, both(s.cur <= first, first < s.nframe))


@theorem("LIVE-8")
def is_strictly_lower(s: State, m: Mark) -> Value:
    """Without drafts, and where nobody waits for anything but its turn, when nothing is in flight
    before and after a step, the step has lowered that rank: the request is gone, has fewer outputs
    to come, or as many and fewer tokens to compute.
    """
    r = m.r
    return either(
        gone(s, m),
        s.ntok[r] > m.ntok,
        both(s.ntok[r] == m.ntok, s.comp[r] > m.comp),
    )


def is_bounded(s: State, m: Mark) -> Value:
    """The rank of a request between steps is never negative."""
    r = m.r
    return either(
        gone(s, m), both(s.ntok[r] <= longest(s, r), s.comp[r] < s.ntok[r] + placeholders(s, r))
    )


def pigeonhole(s: State, r: Value) -> Value:
    """If every block is free or at a place of its own in one table, the pool has no more blocks
    than are free and in that table: arithmetic, true of any maps whatever.
    """
    placed = s.k.forall(
        "B",
        lambda b: either(
            s.k.mem(s.freeset, b),
            both(0 <= s.pos[r, b], s.pos[r, b] < s.tlen[r], s.tab[r, s.pos[r, b]] == b),
        ),
    )
    return implies(placed, s.k.usable <= s.k.card(s.freeset) + s.tlen[r])


def alone(s: State, r: Value) -> Value:
    """Whether nobody but r can hold a block: nobody else runs, and nobody is half-way."""
    return both(
        s.leaving == 0,
        either(s.looking != 2, s.lr == r),
        either(s.nr == 0, both(s.nr == 1, s.run[0] == r)),
    )


def others_hold_nothing(s: State, r: Value) -> Value:
    """Alone, r holds all blocks that are held."""
    return implies(alone(s, r), s.k.forall("R", lambda q: implies(q != r, s.tlen[q] == 0)))


def the_rest_is_free(s: State, r: Value) -> Value:
    """Alone, every block is free or in r's table."""
    return implies(
        alone(s, r),
        s.k.forall(
            "B",
            lambda b: either(
                s.k.mem(s.freeset, b),
                both(0 <= s.pos[r, b], s.pos[r, b] < s.tlen[r], s.tab[r, s.pos[r, b]] == b),
            ),
        ),
    )


def room_for_one(s: State, r: Value) -> Value:
    """Alone, r has the whole pool: what it does not hold is free."""
    return implies(alone(s, r), s.k.usable <= s.nfree + s.tlen[r])
