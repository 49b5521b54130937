"""Speculative decoding: drafts that wait, are scheduled, and are in flight."""

from nullblock.spec.drafts import tokens_ahead
from nullblock.spec.fields import CHUNK, RUNNING
from nullblock.spec.hybrid import has_blocks, of_all
from nullblock.spec.invariants.flight import awaited, end_awaited, first_awaited
from nullblock.spec.invariants.ledger import invariant, within
from nullblock.spec.kernel import State, Value, both, either, implies, least, neg
from nullblock.spec.pooling import has_its_vector
from nullblock.spec.sizes import full_of


@invariant("DRAFT-12")
def drafts_wait_for_a_step(s: State) -> Value:
    """Only a running request has drafts, no more than there may be, none once it is scheduled, and
    none while it is not known how many tokens are in flight for it.
    """
    return s.k.forall(
        "R",
        lambda r: both(
            within(0, s.spec[r], s.k.num_spec + 1),
            implies(s.spec[r] > 0, both(s.stage[r] >= RUNNING, s.sched[r] == 0)),
            implies(
                either(s.spec[r] > 0, s.drafted[r] > 0),
                both(s.old[r] == 0, either(s.k.asynchronous, s.ph[r] == 0)),
            ),
        ),
    )


@invariant("DRAFT-13")
def drafts_are_scheduled(s: State) -> Value:
    """The drafts that a step verifies are the last of the tokens that it computes of a request,
    behind one at least that is known or in flight.
    """
    return s.k.forall(
        "R",
        lambda r: both(
            within(0, s.drafted[r], s.k.num_spec + 1),
            implies(
                s.drafted[r] > 0,
                both(
                    s.drafted[r] < s.sched[r],
                    s.comp[r] + s.sched[r] == s.ntok[r] + tokens_ahead(s, r) + s.drafted[r],
                ),
            ),
        ),
    )


@invariant("DRAFT-14")
def drafts_are_granted(s: State) -> Value:
    """The drafts of an entry in flight are among the tokens it computes, and one that is short of
    a token has none.
    """
    return s.k.forall(
        "I",
        lambda i: both(
            within(0, s.ndraft[i], s.grant[i]),
            s.ndraft[i] <= s.k.num_spec,
            implies(s.due[i] == CHUNK, s.ndraft[i] == 0),
        ),
        span=lambda: (s.cur, s.nframe),
    )


@invariant("DRAFT-15")
def drafts_are_counted(s: State) -> Value:
    """The drafts in flight of a request are those of the outputs that it will take, and no fewer
    than none. Upstream: 46066, 49860.
    """

    def counted(r: Value, place: Value) -> Value:
        i = s.entry[r, place]
        return both(
            s.cum[r, place] <= s.flown[r],
            implies(place + 1 == end_awaited(s, r), s.cum[r, place] == s.flown[r]),
            implies(within(s.cur, i, s.nframe), s.landed[r] + s.ndraft[i] <= s.cum[r, place]),
        )

    def in_order(r: Value, place: Value, later: Value) -> Value:
        i = s.entry[r, later]
        return implies(
            both(place < later, within(s.cur, i, s.nframe)),
            s.cum[r, place] + s.ndraft[i] <= s.cum[r, later],
        )

    return both(
        s.k.forall(
            "R",
            lambda r: both(
                s.pd[r] >= 0,
                s.pd[r] == s.flown[r] - s.landed[r],
                implies(either(s.k.num_spec == 0, s.ph[r] == 0), s.pd[r] == 0),
            ),
        ),
        s.k.forall("RI", counted, span=lambda r: awaited(s, r)),
        s.k.forall("RII", in_order, span=lambda r: awaited(s, r)),
    )


@invariant("DRAFT-20")
def drafts_are_told_apart(s: State) -> Value:
    """Between two outputs that a request will take no drafts are in flight but those of the later
    one.
    """

    def apart(r: Value, place: Value, later: Value) -> Value:
        i = s.entry[r, later]
        return implies(
            both(later == place + 1, within(s.cur, i, s.nframe)),
            s.cum[r, later] == s.cum[r, place] + s.ndraft[i],
        )

    def leads(r: Value, place: Value) -> Value:
        i = s.entry[r, place]
        return implies(
            both(place == first_awaited(s, r), within(s.cur, i, s.nframe)),
            s.cum[r, place] == s.landed[r] + s.ndraft[i],
        )

    return both(
        s.k.forall("RI", leads, span=lambda r: awaited(s, r)),
        s.k.forall("RII", apart, span=lambda r: awaited(s, r)),
    )


@invariant("DRAFT-16")
def runs_are_told_apart(s: State) -> Value:
    """Where there may be drafts, a request counts the outputs in flight from before its last
    admission; what they may still bring is not computed ahead, and all others are of tokens that
    are computed now. Upstream: 41190, 49620.
    """
    return both(
        s.k.forall("R", lambda r: within(0, s.old[r], s.ph[r] + 1)),
        s.k.forall(
            "RI",
            lambda r, place: implies(
                both(s.k.num_spec > 0, within(s.cur, s.entry[r, place], s.nframe)),
                both(
                    s.stage[r] >= RUNNING,
                    s.spot[s.entry[r, place]] - s.slip[r] <= s.comp[r],
                ),
            ),
            span=lambda r: (first_awaited(s, r) + s.old[r], end_awaited(s, r)),
        ),
        implies(both(s.open != 0, s.old[s.taker] > 0), s.comp[s.taker] < s.ntok[s.taker]),
    )


@invariant("DRAFT-17")
def room_to_look_ahead(s: State) -> Value:
    """A running request that is scheduled has a slot for every draft that may be proposed next,
    as far as max_model_len goes, where drafts take slots.
    """
    return s.k.forall(
        "R",
        lambda r: implies(
            both(s.sched[r] > 0, s.fresh[r] == 0),
            has_blocks(s, r, least(s.comp[r] + s.sched[r] + s.k.lookahead, s.k.max_len)),
        ),
    )


@invariant("DRAFT-18")
def new_token_is_not_cached(s: State) -> Value:
    """No block is cached for a token that has just been taken: only what is verified is
    published.
    """
    known = s.ntok[s.taker] - 1
    return implies(
        both(s.open != 0, neg(has_its_vector(s, s.taker))),
        of_all(s, s.taker, lambda t: s.ncached[t] <= full_of(s, t, known)),
    )


@invariant("DRAFT-21")
def computed_below_max_len(s: State) -> Value:
    """What is computed of a request, and scheduled, drafts included, stays below max_model_len."""
    return s.k.forall("R", lambda r: s.comp[r] + s.sched[r] < s.k.max_len)
