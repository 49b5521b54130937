"""What `schedule()` does to the state before it, for any number of blocks, requests and tokens.

The statements are those of `nullblock.spec.explorer.transitions`, word for word.
"""

from nullblock.spec.drafts import relied_on
from nullblock.spec.explorer.actions import Action, Add, Schedule
from nullblock.spec.explorer.transitions import TRANSITIONS, keeps_computed
from nullblock.spec.fields import ADVANCE, RUN_PHASE, RUNNING, WAIT_PHASE
from nullblock.spec.flight import begins
from nullblock.spec.invariants.ledger import within
from nullblock.spec.kernel import State, Value, both, either, implies, least, neg
from nullblock.spec.rules.steps import begin_step, end_advance
from nullblock.spec.state import last_in_flight
from nullblock.spec.theorems.outline import Outline, Relation


def under_way(s: State) -> Value:
    """A step is being scheduled."""
    return both(s.phase >= RUN_PHASE, s.phase <= ADVANCE)


def remained(was: State, s: State, r: Value) -> Value:
    """r ran before, and has not been preempted since."""
    return both(was.stage[r] == RUNNING, neg(s.k.mem(s.preempted, r)))


def scheduled(was: State, s: State, r: Value) -> Value:
    """r has an entry in the step."""
    return s.k.among(s.frame, was.nframe, s.nframe, r)


def frames(was: State, s: State) -> Value:
    """The step's entries begin where those of the steps before end."""
    return both(
        begins(s, s.steps) == was.nframe,
        was.nframe <= s.nframe,
        implies(s.phase != ADVANCE, s.nframe == was.nframe),
        implies(s.phase == ADVANCE, both(0 <= s.at, s.at <= s.nr)),
    )


def preempted_left(was: State, s: State) -> Value:
    """Whoever was preempted does not run, and the step counts a preemption."""
    return s.k.forall(
        "R",
        lambda r: implies(s.k.mem(s.preempted, r), both(s.stage[r] != RUNNING, s.turned > 0)),
    )


def remain_running(was: State, s: State) -> Value:
    """Who ran and was not preempted runs, with no fewer blocks."""
    return s.k.forall(
        "R",
        lambda r: implies(
            remained(was, s, r), both(s.stage[r] == RUNNING, was.tlen[r] <= s.tlen[r])
        ),
    )


def tables_extend(was: State, s: State) -> Value:
    """Its blocks are those it had."""
    return s.k.forall(
        "RI",
        lambda r, i: implies(remained(was, s, r), s.tab[r, i] == was.tab[r, i]),
        span=lambda r: (0, was.tlen[r]),
    )


def order_kept(was: State, s: State) -> Value:
    """Who ran before comes first, in the order of before."""
    return TRANSITIONS["RUN-22"](was, s, Schedule())


def entries_in_order(was: State, s: State) -> Value:
    """The entries are of running requests that the index has passed, in list order."""
    return both(
        s.k.forall(
            "I",
            lambda i: both(
                s.stage[s.frame[i]] == RUNNING,
                s.run[s.ix[s.frame[i]]] == s.frame[i],
                within(0, s.ix[s.frame[i]], s.at),
                s.grant[i] > 0,
            ),
            span=lambda: (was.nframe, s.nframe),
        ),
        s.k.forall(
            "II",
            lambda i, j: implies(i < j, s.ix[s.frame[i]] < s.ix[s.frame[j]]),
            span=lambda: (was.nframe, s.nframe),
        ),
    )


def computed_waits(was: State, s: State) -> Value:
    """Who is not advanced yet has computed what it had."""
    return s.k.forall(
        "R",
        lambda r: implies(
            both(remained(was, s, r), either(s.phase != ADVANCE, s.at <= s.ix[r])),
            s.comp[r] == was.comp[r],
        ),
    )


def computed_advances(was: State, s: State) -> Value:
    """Who is advanced has computed its grant besides; who has no entry, nothing."""
    return both(
        s.k.forall(
            "I",
            lambda i: implies(
                remained(was, s, s.frame[i]),
                s.comp[s.frame[i]] == was.comp[s.frame[i]] + s.grant[i],
            ),
            span=lambda: (was.nframe, s.nframe),
        ),
        s.k.forall(
            "R",
            lambda r: implies(
                both(remained(was, s, r), s.comp[r] != was.comp[r]), scheduled(was, s, r)
            ),
        ),
    )


def accounts(was: State, s: State) -> Value:
    """What is granted and not advanced yet, and what the entries grant, make up what is used."""
    return both(
        s.used <= s.k.budget,
        s.used == s.k.summed("R", s.sched) + s.k.total(s.grant, was.nframe, s.nframe),
    )


def has_no_work(s: State, r: Value) -> Value:
    """r cannot be given a token."""
    return either(
        last_in_flight(s, r), least(s.ntok[r] + relied_on(s, r), s.k.max_len - 1) <= s.comp[r]
    )


def visited_are_served(was: State, s: State) -> Value:
    """Whom the running phase has passed is scheduled or has no work, while budget is left."""
    return either(
        s.budget == 0,
        s.halted == 1,
        s.k.forall(
            "R",
            lambda r: implies(
                both(s.stage[r] == RUNNING, either(s.phase != RUN_PHASE, s.ix[r] < s.at)),
                either(s.sched[r] > 0, scheduled(was, s, r), has_no_work(s, r)),
            ),
        ),
    )


def budget_in_range(was: State, s: State) -> Value:
    """Once the running phase is over its budget only shrinks."""
    return implies(s.phase > WAIT_PHASE, s.budget >= 0)


def between_steps(s: State) -> Value:
    """No step is being scheduled."""
    return neg(under_way(s))


def only_leave(was: State, s: State) -> Value:
    """Who runs ran before, with the same blocks and as much computed, rejected drafts aside."""
    return both(
        s.k.forall(
            "R",
            lambda r: implies(
                s.stage[r] == RUNNING,
                both(
                    was.stage[r] == RUNNING,
                    was.tlen[r] == s.tlen[r],
                    keeps_computed(was, s, r),
                ),
            ),
        ),
        s.k.forall(
            "RI",
            lambda r, i: implies(s.stage[r] == RUNNING, s.tab[r, i] == was.tab[r, i]),
            span=lambda r: (0, was.tlen[r]),
        ),
    )


def scheduling(relations: tuple[Relation, ...], given: tuple[str, ...]) -> Outline:
    """An outline of `schedule()`."""
    return Outline(begin_step, end_advance, (), under_way, relations, given)


def elsewhere(relations: tuple[Relation, ...], given: tuple[str, ...]) -> Outline:
    """An outline of whatever happens outside `schedule()`: outputs, arrivals, aborts, resets."""
    return Outline(None, None, (begin_step,), between_steps, relations, given)


def said(id: str, done: Action) -> dict[str, Relation]:
    """A statement about a transition, of what `done` stands for."""
    return {id: lambda was, s: TRANSITIONS[id](was, s, done)}


SCHEDULE, EVENT = Schedule(), Add("")
"""`schedule()`, and anything else: no statement here asks what it is."""
