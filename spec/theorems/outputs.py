"""Statements about outputs, proved of `update_from_output()`."""

from functools import partial

from nullblock.spec.explorer.actions import Update
from nullblock.spec.explorer.transitions import TRANSITIONS, owed
from nullblock.spec.fields import ADVANCE, BACK, LEAVING, RUNNING, UNBORN, UPDATE, WAITING
from nullblock.spec.flight import begins
from nullblock.spec.kernel import State, Value, both, either, implies, neg
from nullblock.spec.rules.steps import begin_update, end_update
from nullblock.spec.theorems.outline import Outline, Relation, kept_by_every_rule
from nullblock.spec.theorems.theorem import Found, theorem


def once_a_step(s: State) -> Value:
    """No request is twice in one step in flight."""
    return both(
        s.k.forall(
            "III",
            lambda n, i, j: implies(
                both(s.oldest <= n, n < s.steps, begins(s, n) <= i, i < j, j < s.fend[n]),
                s.frame[i] != s.frame[j],
            ),
        ),
        s.k.forall(
            "II",
            lambda i, j: implies(
                both(s.phase == ADVANCE, begins(s, s.steps) <= i, i < j, j < s.nframe),
                s.frame[i] != s.frame[j],
            ),
        ),
    )


def advanced_in_order(s: State) -> Value:
    """While a step is advanced its entries are of running requests that the index has passed."""
    return implies(
        s.phase == ADVANCE,
        both(
            0 <= s.at,
            s.at <= s.nr,
            s.k.forall(
                "I",
                lambda i: implies(
                    both(begins(s, s.steps) <= i, i < s.nframe),
                    both(
                        s.stage[s.frame[i]] == RUNNING,
                        s.run[s.ix[s.frame[i]]] == s.frame[i],
                        0 <= s.ix[s.frame[i]],
                        s.ix[s.frame[i]] < s.at,
                    ),
                ),
            ),
        ),
    )


def new_ones_owe_nothing(s: State) -> Value:
    """A request that was never admitted is owed nothing."""
    return s.k.forall(
        "R", lambda r: implies(s.stage[r] == WAITING, both(s.ph[r] == 0, s.drop[r] == 0))
    )


KEPT = (once_a_step, advanced_in_order, new_ones_owe_nothing)
FRAMES = (
    *("RUN-8", "RUN-9", "RUN-10", "RUN-12", "RUN-14", "RUN-19", "UPD-11", "UPD-20"),
    *("LIFE-12", "LIFE-17"),
)


@theorem(
    "THEOREM-6",
    engine="Z3, unbounded; induction over the rules",
    rests_on=FRAMES,
    canaries={
        "nothing is known of the step that is advanced": lambda: kept_by_every_rule(
            "canary", (once_a_step,), FRAMES
        ),
    },
)
def once_in_every_step() -> Found:
    """A request has one entry at most in each step in flight, and owes nothing before it was first
    admitted.
    """
    return kept_by_every_rule("THEOREM-6", KEPT, FRAMES)


def under_way(s: State) -> Value:
    """An output is being applied."""
    return s.phase == UPDATE


def same_entries(was: State, s: State) -> Value:
    """The entries of the oldest step are what they were, up to where it ended."""
    return both(
        was.steps > was.oldest,
        was.oldest == s.oldest,
        was.steps == s.steps,
        s.upto == was.fend[was.oldest],
        was.cur <= s.cur,
        s.cur <= s.upto,
        s.k.forall(
            "I",
            lambda i: both(
                s.frame[i] == was.frame[i],
                s.due[i] == was.due[i],
                s.born[i] == was.born[i],
                implies(s.cur < i, s.ndraft[i] == was.ndraft[i]),
            ),
            span=lambda: (was.cur, s.upto),
        ),
        s.k.forall(
            "II",
            lambda i, j: implies(i < j, was.frame[i] != was.frame[j]),
            span=lambda: (was.cur, s.upto),
        ),
    )


def position(s: State, i: Value) -> Value:
    """Where entry i says that its token will be, while it is the next of its request to be
    settled: behind the known tokens and its drafts.
    """
    return s.ntok[s.frame[i]] + s.ndraft[i] + s.slip[s.frame[i]]


def sampled_for_the_next(was: State, s: State) -> Value:
    """A token that will be taken was sampled for the position after the last, if the model agrees
    with the drafts before it.
    """
    return s.k.forall(
        "I",
        lambda i: implies(
            owed(was, i),
            both(
                was.spot[i] == position(was, i),
                was.stage[was.frame[i]] != WAITING,
            ),
        ),
        span=lambda: (was.cur, s.upto),
    )


def only_end(was: State, s: State) -> Value:
    """Whoever is there was there, and arrived when it did."""
    return both(
        s.leaving != BACK,
        s.k.forall(
            "R",
            lambda r: implies(
                s.stage[r] != UNBORN,
                both(
                    was.stage[r] != UNBORN,
                    s.arr[r] == was.arr[r],
                    either(s.stage[r] == was.stage[r], s.stage[r] == LEAVING),
                ),
            ),
        ),
    )


def unsettled_is_unchanged(was: State, s: State) -> Value:
    """Whose entry is not settled yet, or who has none, has the tokens it had, and is to drop as
    many; of the one that is being settled drafts may be taken or rejected already.
    """

    def as_before(i: Value) -> Value:
        r = was.frame[i]
        return implies(
            s.stage[r] != UNBORN,
            both(
                s.drop[r] == was.drop[r],
                either(
                    both(s.ntok[r] == was.ntok[r], s.slip[r] == was.slip[r]),
                    both(
                        i == s.cur,
                        owed(was, i),
                        s.ntok[r] >= was.ntok[r],
                        s.slip[r] >= was.slip[r],
                    ),
                ),
                implies(owed(was, i), was.spot[i] == position(s, i)),
                implies(both(i == s.cur, s.open != 0, s.taker == r), s.ntok[r] > was.ntok[r]),
            ),
        )

    return both(
        s.k.forall("I", as_before, span=lambda: (s.cur, s.upto)),
        s.k.forall(
            "R",
            lambda r: implies(
                both(
                    s.stage[r] != UNBORN,
                    either(s.ntok[r] != was.ntok[r], s.slip[r] != was.slip[r]),
                ),
                either(
                    s.k.among(was.frame, was.cur, s.cur, r),
                    both(s.cur < s.upto, was.frame[s.cur] == r),
                ),
            ),
        ),
    )


def settled_took_its_token(was: State, s: State) -> Value:
    """Whose entry is settled has one token more if it was owed one to take, and the drafts of it
    that were taken, or else what it had.
    """

    def took(i: Value) -> Value:
        r = was.frame[i]
        return implies(
            s.stage[r] != UNBORN,
            either(
                both(
                    owed(was, i),
                    s.ntok[r] > was.ntok[r],
                    s.slip[r] >= was.slip[r],
                    s.ntok[r] - 1 + s.slip[r] == was.spot[i],
                ),
                both(neg(owed(was, i)), s.ntok[r] == was.ntok[r]),
            ),
        )

    return s.k.forall("I", took, span=lambda: (was.cur, s.cur))


RELATIONS: tuple[Relation, ...] = (
    same_entries,
    sampled_for_the_next,
    only_end,
    unsettled_is_unchanged,
    settled_took_its_token,
)
GIVEN = (
    *("LIFE-12", "LIFE-17", "RUN-9", "RUN-12", "UPD-11", "UPD-19", "UPD-20", "UPD-22"),
    *("WAIT-12", "DRAFT-14", "DRAFT-15", "DRAFT-20"),
)


def updating(relations: tuple[Relation, ...] = RELATIONS) -> Outline:
    """The outline of `update_from_output()`."""
    known = (once_a_step, new_ones_owe_nothing)
    return Outline(begin_update, end_update, (), under_way, relations, GIVEN, known)


def _shown(id: str) -> Found:
    return updating().shown(id, {id: lambda was, s: TRANSITIONS[id](was, s, Update())})


def nobody_takes(was: State, s: State) -> Value:
    """False: nobody takes a token."""
    return s.k.forall("R", lambda r: implies(s.stage[r] != UNBORN, s.ntok[r] == was.ntok[r]))


for _id in ("UPD-15", "UPD-23"):
    theorem(
        _id,
        engine="Z3, unbounded; induction over the rules of a half step",
        rests_on=(*GIVEN, "THEOREM-6"),
        assumes=(
            "an update is what happens from begin_update to end_update; nothing else happens"
            " meanwhile",
        ),
        canaries={
            "nobody takes a token": lambda: updating((nobody_takes,)).shown("canary", {}),
        },
    )(partial(_shown, _id))
