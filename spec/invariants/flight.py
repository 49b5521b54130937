"""Steps in flight: their entries, and the tokens they owe."""

from nullblock.spec.fields import ADVANCE, CHUNK, RUNNING, TOKEN, UNBORN, UPDATE
from nullblock.spec.flight import owes_token
from nullblock.spec.hybrid import has_blocks
from nullblock.spec.invariants.ledger import invariant, within
from nullblock.spec.kernel import State, Value, both, either, implies
from nullblock.spec.state import longest

Span = tuple[Value, Value]


def entries(s: State) -> Span:
    """The entries in flight."""
    return s.cur, s.nframe


def first_awaited(s: State, r: Value) -> Value:
    """The place of the first output that r is to take."""
    return s.base[r] + s.drop[r]


def end_awaited(s: State, r: Value) -> Value:
    """The place behind the last."""
    return first_awaited(s, r) + s.ph[r]


def awaited(s: State, r: Value) -> Span:
    """The places of the outputs that r is to take."""
    return first_awaited(s, r), end_awaited(s, r)


def owed(s: State, r: Value) -> Span:
    """The places of r's outputs in flight: those to be dropped, then those to be taken."""
    return s.base[r], end_awaited(s, r)


@invariant("UPD-11")
def steps_in_range(s: State) -> Value:
    """Steps in flight follow one another, and an update settles the oldest, entry by entry."""
    return both(
        0 <= s.cur,
        s.cur <= s.nframe,
        s.oldest <= s.steps,
        s.k.forall(
            "I",
            lambda n: both(s.cur <= s.fend[n], s.fend[n] <= s.nframe),
            span=lambda: (s.oldest, s.steps),
        ),
        s.k.forall(
            "II",
            lambda n, m: implies(n < m, s.fend[n] <= s.fend[m]),
            span=lambda: (s.oldest, s.steps),
        ),
        implies(
            s.phase != ADVANCE,
            either(
                both(s.oldest == s.steps, s.cur == s.nframe),
                both(s.oldest < s.steps, s.fend[s.steps - 1] == s.nframe),
            ),
        ),
        implies(
            s.phase == UPDATE,
            both(s.oldest < s.steps, s.upto == s.fend[s.oldest], s.cur <= s.upto),
        ),
    )


@invariant("UPD-12")
def entries_in_range(s: State) -> Value:
    """An entry in flight computes a token at least, owes a chunk or a token, and is of a request
    that arrived before.
    """
    return s.k.forall(
        "I",
        lambda i: both(
            s.grant[i] > 0,
            either(s.due[i] == CHUNK, s.due[i] == TOKEN),
            s.born[i] < s.aclk,
        ),
        span=lambda: entries(s),
    )


@invariant("UPD-19")
def outputs_are_counted(s: State) -> Value:
    """The tokens that a request is to take or to drop are in flight: as many as it counts, never
    fewer than none. Upstream: 30142, 46066, 47900, 48245, 57562.
    """
    return both(
        s.k.forall("R", lambda r: both(s.ph[r] >= 0, s.drop[r] >= 0)),
        s.k.forall(
            "RI",
            lambda r, place: both(
                within(s.cur, s.entry[r, place], s.nframe),
                s.frame[s.entry[r, place]] == r,
                owes_token(s, s.entry[r, place]),
                s.nth[s.entry[r, place]] == place,
            ),
            span=lambda r: owed(s, r),
        ),
    )


@invariant("UPD-20")
def owed_is_counted(s: State) -> Value:
    """A token in flight that a request is owed is one of those that it counts, the first of which
    comes first.
    """

    def counted(i: Value) -> Value:
        first, last = owed(s, s.frame[i])
        return both(
            within(first, s.nth[i], last),
            s.entry[s.frame[i], s.nth[i]] == i,
            s.entry[s.frame[i], first] <= i,
        )

    return s.k.forall(
        "I", lambda i: implies(owes_token(s, i), counted(i)), span=lambda: entries(s)
    )


@invariant("UPD-21")
def outputs_in_order(s: State) -> Value:
    """The outputs of a request come in the order in which they are counted, those to be dropped
    first.
    """
    return s.k.forall(
        "RII",
        lambda r, i, j: implies(i < j, s.entry[r, i] < s.entry[r, j]),
        span=lambda r: owed(s, r),
    )


@invariant("UPD-22")
def token_for_its_position(s: State) -> Value:
    """A token to be taken was sampled for the position it will have, if the model agrees with the
    drafts before it. Upstream: 38624.
    """
    return s.k.forall(
        "RI",
        lambda r, place: implies(
            both(within(s.cur, s.entry[r, place], s.nframe), owes_token(s, s.entry[r, place])),
            s.spot[s.entry[r, place]] - s.slip[r]
            == s.ntok[r] + place - first_awaited(s, r) + s.cum[r, place] - s.landed[r],
        ),
        span=lambda r: awaited(s, r),
    )


@invariant("LIFE-17")
def owed_in_bounds(s: State) -> Value:
    """A request is owed no token beyond its limits, where there are no drafts that may be taken
    meanwhile, and none once it is gone.
    """
    return s.k.forall(
        "R",
        lambda r: both(
            implies(s.stage[r] == UNBORN, both(s.ph[r] == 0, s.drop[r] == 0, s.arr[r] == 0)),
            implies(
                s.stage[r] != UNBORN,
                both(
                    either(s.k.num_spec > 0, s.ntok[r] + s.ph[r] <= longest(s, r) + 1),
                    s.arr[r] > 0,
                ),
            ),
        ),
    )


@invariant("TABLE-11")
def writes_stay_held(s: State) -> Value:
    """What a step in flight writes for a request that has kept running stays in its table: no
    such block is given away before the output has come. Upstream: 45357, 47574.
    """
    return s.k.forall(
        "I",
        lambda i: implies(
            both(
                s.stage[s.frame[i]] == RUNNING,
                s.born[i] == s.arr[s.frame[i]],
                s.since[s.frame[i]] <= i,
            ),
            both(
                s.spot[i] - s.slip[s.frame[i]] <= s.comp[s.frame[i]],
                has_blocks(s, s.frame[i], s.spot[i] - s.slip[s.frame[i]]),
            ),
        ),
        span=lambda: entries(s),
    )
