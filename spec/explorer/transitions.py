"""What holds of every half step and event, comparing the state before with the state after; and of
every state between them, what takes the true content of blocks.

They are written in the words of the kernel: the explorer evaluates them on every transition, and
`nullblock.spec.theorems.steps` proves the same text for any size.
"""

from collections.abc import Callable

from nullblock.spec.catalogue import register
from nullblock.spec.drafts import relied_on
from nullblock.spec.encoder import lacks_item
from nullblock.spec.explorer.actions import Action, Reset, Schedule, Sent, Update
from nullblock.spec.fields import KEPT, PAUSED_ALL, RUNNING, TOKEN, UNPAUSED, WAITING
from nullblock.spec.flight import begins, in_flight
from nullblock.spec.groups import is_null, stands_still
from nullblock.spec.kernel import State, Value, both, either, implies, ite, least, neg
from nullblock.spec.remote import goes_on, is_sent, is_transferring
from nullblock.spec.sessions import blocks_are_kept
from nullblock.spec.state import is_waiting, last_in_flight, live
from nullblock.spec.waiting import comes_before, has_to_wait, nobody_to_serve

Transition = Callable[[State, State, Action], Value]
"""Of the state before, the state after, and what happened between them."""
TRANSITIONS: dict[str, Transition] = {}
CLAIMS: dict[str, Callable[[State], Value]] = {}


def transition(id: str) -> Callable[[Transition], Transition]:
    """Register a statement about one half step or event."""

    def enter(f: Transition) -> Transition:
        register(id, "invariant", f)
        TRANSITIONS[id] = f
        return f

    return enter


def claim(id: str) -> Callable[[Callable[[State], Value]], Callable[[State], Value]]:
    """Register a statement about states between events."""

    def enter(f: Callable[[State], Value]) -> Callable[[State], Value]:
        register(id, "invariant", f)
        CLAIMS[id] = f
        return f

    return enter


def _first(s: State) -> Value:
    """The first entry of the step scheduled last; it goes on to `nframe`."""
    return begins(s, s.steps - 1)


def _in_step(s: State, r: Value) -> Value:
    """Whether r is scheduled in that step."""
    return s.k.among(s.frame, _first(s), s.nframe, r)


def _stays(was: State, s: State, r: Value) -> Value:
    """Whether r stays in the running list."""
    return both(was.stage[r] == RUNNING, s.stage[r] == RUNNING, neg(s.k.mem(s.preempted, r)))


def keeps_computed(was: State, s: State, r: Value) -> Value:
    """Whether r has lost no more computed tokens than drafts of it were rejected."""
    lost = was.comp[r] - s.comp[r]
    return both(0 <= lost, lost <= s.slip[r] - was.slip[r])


def owed(s: State, i: Value) -> Value:
    """Whether entry i of the oldest step in flight owes its request a token that it will take."""
    r = s.frame[i]
    return both(s.due[i] == TOKEN, goes_on(s, r), s.born[i] == s.arr[r], s.drop[r] == 0)


def _due(s: State) -> tuple[Value, Value]:
    """The entries of the oldest step in flight."""
    return s.cur, ite(in_flight(s) > 0, s.fend[s.oldest], s.cur)


@transition("PREEMPT-7")
def preempted_is_not_scheduled(was: State, s: State, done: Action) -> Value:
    """No request is both preempted and scheduled in one step."""
    if not isinstance(done, Schedule):
        return True
    return s.k.forall(
        "I",
        lambda i: neg(s.k.mem(s.preempted, s.frame[i])),
        span=lambda: (_first(s), s.nframe),
    )


@transition("RUN-20")
def progress(was: State, s: State, done: Action) -> Value:
    """A step that finds a request to serve, and no other step in flight, schedules a token or
    preempts somebody; who awaits something that is not there is nobody to serve, and sessions that
    wait may hold what it takes. While blocks are loaded or sent, or the remote side has to look
    first, there may be no room meanwhile.

    Upstream: 39734, 35541, 51299, prompts of max_model_len: requests that wait or run for ever.
    """
    if not isinstance(done, Schedule):
        return True
    return implies(
        both(_first(s) >= s.nframe, s.turned == 0, in_flight(s) <= 1),
        either(
            s.pause == PAUSED_ALL,
            is_transferring(s),
            both(
                s.nr == 0,
                either(s.pause != UNPAUSED, nobody_to_serve(s), blocks_are_kept(s)),
            ),
        ),
    )


@transition("WAIT-50")
def overtaken_for_a_reason(was: State, s: State, done: Action) -> Value:
    """Whoever is admitted overtakes only who waits for something else than its turn."""
    if not isinstance(done, Schedule):
        return True
    return s.k.forall(
        "RR",
        lambda q, r: implies(
            both(
                both(is_waiting(was, q), is_waiting(s, q)),
                both(is_waiting(was, r), s.stage[r] == RUNNING),
                comes_before(was, q, r),
            ),
            has_to_wait(s, q),
        ),
    )


@transition("RUN-28")
def nobody_passed_over(was: State, s: State, done: Action) -> Value:
    """While token budget is left the running phase schedules every request that has work, and
    whose next token stands for no item that cannot be had.

    Unless a request preempted itself. Upstream: 49097.
    """
    if not isinstance(done, Schedule):
        return True

    def served(r: Value) -> Value:
        return either(
            _in_step(s, r),
            last_in_flight(s, r),
            least(s.ntok[r] + relied_on(s, r), s.k.max_len - 1) <= s.comp[r],
            lacks_item(s, r),
        )

    return implies(
        both(s.budget != 0, s.halted == 0, s.pause != PAUSED_ALL),
        s.k.forall("I", lambda i: served(s.run[i]), span=lambda: (0, s.nr)),
    )


@transition("RUN-22")
def running_order_is_kept(was: State, s: State, done: Action) -> Value:
    """Requests leave the running list anywhere, join it at its end, and never change places."""
    return s.k.forall(
        "II",
        lambda i, j: implies(
            both(i < j, was.stage[s.run[j]] == RUNNING),
            both(was.stage[s.run[i]] == RUNNING, was.ix[s.run[i]] < was.ix[s.run[j]]),
        ),
        span=lambda: (0, s.nr),
    )


@transition("RUN-23")
def budget_bounds_step(was: State, s: State, done: Action) -> Value:
    """The tokens of a step are at least one a request and no more than the budget in all."""
    if not isinstance(done, Schedule):
        return True
    return both(
        s.k.forall("I", lambda i: s.grant[i] > 0, span=lambda: (_first(s), s.nframe)),
        s.k.total(s.grant, _first(s), s.nframe) <= s.k.budget,
    )


@transition("RUN-24")
def schedule_order(was: State, s: State, done: Action) -> Value:
    """Requests are scheduled once each, in the order of the running list."""
    if not isinstance(done, Schedule):
        return True
    return both(
        s.k.forall(
            "I",
            lambda i: both(s.stage[s.frame[i]] == RUNNING, s.run[s.ix[s.frame[i]]] == s.frame[i]),
            span=lambda: (_first(s), s.nframe),
        ),
        s.k.forall(
            "II",
            lambda i, j: implies(i < j, s.ix[s.frame[i]] < s.ix[s.frame[j]]),
            span=lambda: (_first(s), s.nframe),
        ),
    )


@transition("TABLE-10")
def tables_grow(was: State, s: State, done: Action) -> Value:
    """While a request stays in the running list its block table is only appended to, and no block
    in it changes but those that no token sees any more.
    """
    return both(
        s.k.forall("T", lambda t: implies(_stays(was, s, s.k.owner(t)), was.tlen[t] <= s.tlen[t])),
        s.k.forall(
            "TI",
            lambda t, i: implies(_stays(was, s, s.k.owner(t)), stands_still(was, s, t, i)),
            span=lambda t: (0, was.tlen[t]),
        ),
    )


@transition("UPD-14")
def computed_grows(was: State, s: State, done: Action) -> Value:
    """A running request gains just the computed tokens it is granted, and loses none but those of
    drafts that are rejected.
    """
    if not isinstance(done, Schedule):
        return s.k.forall("R", lambda r: implies(_stays(was, s, r), keeps_computed(was, s, r)))
    return both(
        s.k.forall(
            "I",
            lambda i: implies(
                _stays(was, s, s.frame[i]),
                s.comp[s.frame[i]] == was.comp[s.frame[i]] + s.grant[i],
            ),
            span=lambda: (_first(s), s.nframe),
        ),
        s.k.forall(
            "R",
            lambda r: implies(both(_stays(was, s, r), s.comp[r] != was.comp[r]), _in_step(s, r)),
        ),
    )


def is_silent(s: State, i: Value) -> Value:
    """Whether the oldest step in flight returns without a token for its entry i."""
    return s.k.lacks_output(s, s.frame[i], i) if s.k.silences else False


def comes(s: State, i: Value) -> Value:
    """Whether the token that entry i owes its request comes with the step."""
    return both(owed(s, i), neg(is_silent(s, i)))


def stays_away(s: State, i: Value) -> Value:
    """Whether it does not."""
    return both(owed(s, i), is_silent(s, i))


@transition("UPD-15")
def tokens_have_owners(was: State, s: State, done: Action) -> Value:
    """A request takes a token for an output it owes, one more for each draft of it that the model
    agrees with, and none that was never scheduled.

    From a step that returns without it none is taken, and nobody stops or runs on (UPD-60,
    UPD-61). Upstream: request ids used again while an output is in flight.
    """
    if not isinstance(done, Update):
        return True

    def owes(r: Value) -> Value:
        nothing = s.k.forall(
            "I", lambda i: neg(both(was.frame[i] == r, comes(was, i))), span=lambda: _due(was)
        )
        return neg(nothing)

    def no_more(r: Value) -> Value:
        return s.k.forall(
            "I",
            lambda i: implies(
                both(was.frame[i] == r, owed(was, i)),
                s.ntok[r] <= was.ntok[r] + was.ndraft[i] + 1,
            ),
            span=lambda: _due(was),
        )

    def goes_without(r: Value) -> Value:
        return both(live(s, r), s.ntok[r] == was.ntok[r], s.stage[r] != RUNNING)

    return both(
        s.k.forall(
            "R",
            lambda r: implies(
                both(was.ntok[r] != 0, live(s, r)),
                either(
                    both(s.ntok[r] == was.ntok[r], neg(owes(r))),
                    both(s.ntok[r] > was.ntok[r], owes(r), no_more(r), was.stage[r] != WAITING),
                    both(s.turns[r] == was.turns[r] + 1, owes(r)),
                ),
            ),
        ),
        s.k.forall(
            "I",
            lambda i: implies(stays_away(was, i), goes_without(was.frame[i])),
            span=lambda: _due(was),
        ),
    )


@transition("UPD-23")
def tokens_in_their_places(was: State, s: State, done: Action) -> Value:
    """A request takes the token that was sampled for the position it is given.

    Upstream: 38624: a request that is preempted and resumed with its output in flight samples a
    position twice.
    """
    if not isinstance(done, Update):
        return True

    def position(r: Value, i: Value) -> Value:
        stays = both(live(s, r), s.turns[r] == was.turns[r], neg(is_silent(was, i)))
        last = was.ntok[r] + was.ndraft[i] + was.slip[r]
        return ite(stays, s.ntok[r] - 1 + s.slip[r], last)

    return s.k.forall(
        "I",
        lambda i: implies(owed(was, i), position(was.frame[i], i) == was.spot[i]),
        span=lambda: _due(was),
    )


def truth(s: State, t: Value, i: Value) -> Value:
    """What really identifies the i-th block of table t, whatever a profile hashes."""
    return s.k.content(t, i, s.past[s.k.owner(t)]) if s.k.sessions else s.k.truth(t, i)


@transition("REMOTE-38")
def sent_before_they_go(was: State, s: State, done: Action) -> Value:
    """Blocks that are kept to be sent stay until that is reported, whatever else they were kept
    for. Upstream: 46240.
    """
    if not s.k.connector or isinstance(done, Sent):
        return True
    return s.k.forall("R", lambda r: implies(is_sent(was, r), s.stage[r] == KEPT))


@transition("GROUP-35")
def reset_waits_for_nobody(was: State, s: State, done: Action) -> Value:
    """Beside sinks too, a reset of the prefix cache is done wherever no request holds a block.
    Upstream: 53696.
    """
    if either(s.k.sink_blocks == 0, not isinstance(done, Reset)):
        return True
    return s.k.forall(
        "B",
        lambda b: either(
            s.hsh[b] == s.k.NOHASH, s.k.exists("B", lambda c: s.ref[c] > 0, by="held")
        ),
    )


@claim("HASH-18")
def sharing_agrees(s: State) -> Value:
    """Requests that share a block agree on all that identifies it: tokens, adapter and salt, from
    the start.

    Upstream: 44701.
    """

    def agrees(t: Value, i: Value) -> Value:
        return s.k.forall(
            "TI",
            lambda u, j: implies(
                both(u != t, neg(is_null(s, t, i)), s.tab[u, j] == s.tab[t, i]),
                truth(s, u, j) == truth(s, t, i),
            ),
            span=lambda u: (0, s.tlen[u]),
        )

    return s.k.forall("TI", agrees, span=lambda t: (0, s.tlen[t]))


@claim("HASH-19")
def no_orphans(s: State) -> Value:
    """Every cached block has some cached block with its parent's hash, unless hashes were evicted
    from outside, or layers see only a part of the past.
    """
    return either(
        s.evicted == 1,
        s.k.windowed,
        s.k.forall(
            "B",
            lambda b: implies(
                both(s.hsh[b] != s.k.NOHASH, s.k.par(s.hsh[b]) != s.k.ROOT),
                s.k.exists("B", lambda c: s.hsh[c] == s.k.par(s.hsh[b])),
            ),
        ),
    )
