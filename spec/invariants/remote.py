"""What always holds of loads, of those who wait for them, and of blocks that are kept."""

from nullblock.spec.fields import (
    BOTH_WAYS,
    IDLE,
    KEPT,
    LEAVING,
    LOAD,
    PREEMPTED,
    REMOTE,
    SEND,
    UPDATE,
    WAITING,
    WHOLLY,
)
from nullblock.spec.groups import is_null
from nullblock.spec.hybrid import has_blocks, holds_nothing
from nullblock.spec.invariants.ledger import invariant, within
from nullblock.spec.kernel import State, Value, both, either, implies, ite, neg
from nullblock.spec.loaded import loaded_to
from nullblock.spec.remote import is_received
from nullblock.spec.sessions import may_hold
from nullblock.spec.sizes import full_of
from nullblock.spec.waiting import is_skipped


@invariant("REMOTE-30")
def loaded_into_is_owned(s: State) -> Value:
    """A block that a load of several steps writes to is held by its request alone, which has not
    gone on, and nobody can hit it: none is used again while a transfer is live. Upstream: 46283,
    45357.
    """
    if not s.k.connector:
        return True

    def owned(t: Value, i: Value) -> Value:
        b = s.tab[t, i]
        return both(i < s.tlen[t], s.k.card(s.own[b]) == 1, s.hsh[b] == s.k.NOHASH)

    return s.k.forall(
        "TI",
        lambda t, i: implies(is_received(s, s.k.owner(t)), either(is_null(s, t, i), owned(t, i))),
        span=lambda t: (full_of(s, t, s.loadfrom[s.k.owner(t)]), loaded_to(s, t)),
    )


@invariant("REMOTE-31")
def unloaded_is_not_hit(s: State) -> Value:
    """A block that is reported as not loaded is not in the prefix cache while the output is
    applied that it is reported with.
    """
    if not s.k.connector:
        return True
    return s.k.forall("B", lambda b: implies(s.invalid[b] != 0, s.hsh[b] == s.k.NOHASH))


@invariant("REMOTE-39")
def loaded_waits(s: State) -> Value:
    """Of those that wait only sessions, and whoever is loaded, or was, have computed tokens and
    hold blocks, as many as their tokens fill or more; who is no session stands in the skipped
    queue then.
    """
    if not s.k.connector:
        return True

    def waits(r: Value) -> Value:
        waiting = either(s.stage[r] == WAITING, s.stage[r] == PREEMPTED)
        away = either(s.looking == 0, r != s.lr)
        has = either(s.comp[r] != 0, neg(holds_nothing(s, r)), s.awaits[r] == REMOTE)
        return both(
            implies(
                both(waiting, away, has),
                both(
                    either(may_hold(s, r), is_skipped(s, r)),
                    has_blocks(s, r, s.comp[r]),
                    s.comp[r] <= s.ntok[r],
                ),
            ),
            implies(s.awaits[r] == REMOTE, either(waiting, s.stage[r] == LEAVING)),
            within(0, s.failed[r], WHOLLY + 1),
            implies(s.failed[r] != 0, s.awaits[r] == REMOTE),
            implies(
                both(waiting, away, s.comp[r] == 0, s.awaits[r] != REMOTE), holds_nothing(s, r)
            ),
        )

    return s.k.forall("R", waits)


@invariant("REMOTE-33")
def kept_has_ended(s: State) -> Value:
    """A request whose blocks are kept has ended: it is in no queue, is owed nothing, and is kept
    for a load, to be sent, or for both; of others nothing is kept. Upstream: 46240.
    """
    if not s.k.connector:
        return True
    return s.k.forall(
        "R",
        lambda r: ite(
            s.stage[r] == KEPT,
            both(
                within(LOAD, s.kept_for[r], BOTH_WAYS + 1),
                s.rank[r] == 0,
                s.skip[r] == 0,
                s.sched[r] == 0,
                s.ph[r] == 0,
                s.awaits[r] == 0,
                implies(s.loadto[r] != 0, s.kept_for[r] != SEND),
            ),
            either(s.kept_for[r] == 0, s.stage[r] == LEAVING),
        ),
    )


@invariant("REMOTE-37")
def nobody_is_left_lost(s: State) -> Value:
    """While a step is decided nobody lacks blocks: who did went back, started over or ended with
    the update that reported it.
    """
    if not s.k.connector:
        return True
    return implies(
        both(s.phase != UPDATE, s.phase != IDLE),
        both(s.k.card(s.missing) == 0, s.k.card(s.seen) == 0),
    )
