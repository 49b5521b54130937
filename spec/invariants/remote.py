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
from nullblock.spec.loaded import loaded_to, was_loaded_whole
from nullblock.spec.lost import is_missing
from nullblock.spec.remote import computes_no_more, is_received
from nullblock.spec.sessions import may_hold
from nullblock.spec.sizes import full_of, tokens_of
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


@invariant("REMOTE-58")
def loaded_into_is_not_zeroed(s: State) -> Value:
    """No block that a load of several steps writes to is among those that workers are told to
    zero: what comes first would be wiped, and the request go on from zeros. Upstream: 48481.
    """
    if not (s.k.connector and s.k.mamba):
        return True

    def stays(t: Value, i: Value) -> Value:
        return s.k.forall("I", lambda j: s.zero[j] != s.tab[t, i], span=lambda: (0, s.nzero))

    return s.k.forall(
        "TI",
        lambda t, i: implies(is_received(s, s.k.owner(t)), either(is_null(s, t, i), stays(t, i))),
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
    queue then. Of a prompt of one token, loaded as a whole, it is computed again, so that none
    counts as computed.
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
                both(waiting, away, s.comp[r] == 0, s.awaits[r] != REMOTE),
                either(holds_nothing(s, r), was_loaded_whole(s, r)),
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


@invariant("REMOTE-55")
def nobody_counts_on_lost(s: State) -> Value:
    """While an output is applied nobody counts on a block that was reported with it as not loaded,
    in any table, but who gives all back before it computes. Upstream: 49250.

    Where somebody computes it again where it is, as in vllm-0.22.1, others who share it count on
    that.
    """
    if not (s.k.connector and s.k.sem.failed_loads_start_over):
        return True
    return s.k.forall(
        "TI",
        lambda t, i: implies(
            both(s.phase == UPDATE, is_missing(s, t, i)), computes_no_more(s, s.k.owner(t))
        ),
        span=lambda t: (0, s.tlen[t]),
    )


@invariant("REMOTE-56")
def behind_lost_is_uncached(s: State) -> Value:
    """Of who was found to lack a block nothing is cached, of any table, from that block on, once
    it is on its way out or the output is applied: it was computed from what is not there. Unless
    it is being taken back at this moment.
    """
    if not (s.k.connector and s.k.sem.failed_loads_start_over):
        return True

    def is_taken_back(t: Value) -> Value:
        return s.ncached[t] > full_of(s, t, s.comp[s.k.owner(t)])

    def uncached(t: Value, i: Value, u: Value) -> Value:
        b = s.tab[t, i]
        return s.k.forall(
            "I",
            lambda j: implies(
                both(s.invalid[s.tab[u, j]] != 0, tokens_of(s, t, i + 1) > tokens_of(s, u, j)),
                s.hsh[b] == s.k.NOHASH,
            ),
            span=lambda: (0, s.tlen[u]),
        )

    def wholly(t: Value, u: Value) -> Value:
        r = s.k.owner(t)
        went = either(s.phase == UPDATE, both(s.leaving != 0, r == s.leaver))
        of_lost = both(s.k.mem(s.seen, r), r == s.k.owner(u), went, neg(is_taken_back(t)))
        places = s.k.forall("I", lambda i: uncached(t, i, u), span=lambda: (0, s.tlen[t]))
        return implies(of_lost, places)

    return s.k.forall("TT", wholly)
