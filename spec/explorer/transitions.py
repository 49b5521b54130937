"""What holds of every step and event, and of every state in a finite scope.

The first need the state before, the second a finite domain or the true content of blocks; so they
stand beside the invariants of `nullblock.spec.invariants`, which the prover handles. The explorer
checks them all.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nullblock.spec.catalogue import register
from nullblock.spec.explorer.actions import Action, Schedule, Update
from nullblock.spec.fields import PAUSED_ALL, RUNNING, TOKEN, UNBORN, UNPAUSED, WAITING
from nullblock.spec.kernel import State
from nullblock.spec.state import ahead, begins, in_flight, last_in_flight, live


@dataclass(frozen=True, slots=True)
class Before:
    """What is remembered of the state before an action."""

    running: tuple[Any, ...]
    table: dict[Any, tuple[int, ...]]
    computed: dict[Any, int]
    tokens: dict[Any, int]
    stage: dict[Any, int]
    owed: dict[Any, int]
    """Of those who take a token from the oldest step in flight: the position it was sampled
    for.
    """


def before(s: State) -> Before:
    """What the statements below need to know of the state before."""
    running = tuple(s.run[i] for i in range(s.nr))
    return Before(
        running,
        {r: tuple([s.tab[r, i] for i in range(s.tlen[r])]) for r in running},
        {r: s.comp[r] for r in running},
        type(s.ntok)(s.ntok),
        type(s.stage)(s.stage),
        _owed(s),
    )


def _owed(s: State) -> dict[Any, int]:
    if not in_flight(s):
        return {}
    entries = range(s.cur, s.fend[s.oldest])
    return {
        s.frame[i]: s.spot[i]
        for i in entries
        if s.due[i] == TOKEN
        and s.stage[s.frame[i]] != UNBORN
        and s.born[i] == s.arr[s.frame[i]]
        and not s.drop[s.frame[i]]
    }


Transition = Callable[[Before, State, Action], bool]
TRANSITIONS: dict[str, Transition] = {}
CLAIMS: dict[str, Callable[[State], bool]] = {}


def transition(id: str) -> Callable[[Transition], Transition]:
    """Register a statement about one half step or event."""

    def enter(f: Transition) -> Transition:
        register(id, "invariant", f)
        TRANSITIONS[id] = f
        return f

    return enter


def claim(id: str) -> Callable[[Callable[[State], bool]], Callable[[State], bool]]:
    """Register a statement about states between events."""

    def enter(f: Callable[[State], bool]) -> Callable[[State], bool]:
        register(id, "invariant", f)
        CLAIMS[id] = f
        return f

    return enter


def _entries(s: State) -> range:
    """The entries of the step scheduled last."""
    return range(begins(s, s.steps - 1), s.nframe)


def _frame(s: State) -> list[Any]:
    return [s.frame[i] for i in _entries(s)]


@transition("PREEMPT-7")
def preempted_is_not_scheduled(was: Before, s: State, done: Action) -> bool:
    """No request is both preempted and scheduled in one step."""
    return not isinstance(done, Schedule) or not any(map(s.preempted.__contains__, _frame(s)))


@transition("RUN-20")
def progress(was: Before, s: State, done: Action) -> bool:
    """A step that finds a request to serve, and no other step in flight, schedules a token or
    preempts somebody.

    Upstream: 39734, 35541, 51299, prompts of max_model_len: requests that wait or run for ever.
    """
    if not isinstance(done, Schedule) or _frame(s) or s.turned > 0 or in_flight(s) > 1:
        return True
    if s.pause == UNPAUSED:
        return bool(s.nr == 0 and s.nwait == 0)
    return bool(s.pause == PAUSED_ALL or s.nr == 0)


@transition("RUN-21")
def nobody_passed_over(was: Before, s: State, done: Action) -> bool:
    """While token budget is left the running phase schedules every request that has work.

    Unless a request preempted itself. Upstream: 49097.
    """
    if not isinstance(done, Schedule) or s.budget == 0 or s.halted or s.pause == PAUSED_ALL:
        return True
    frame = _frame(s)
    return all(
        r in frame
        or last_in_flight(s, r)
        or min(s.ntok[r] + ahead(s, r), s.k.max_len - 1) <= s.comp[r]
        for r in (s.run[i] for i in range(s.nr))
    )


@transition("RUN-22")
def running_order_is_kept(was: Before, s: State, done: Action) -> bool:
    """Requests leave the running list anywhere, join it at its end, and never change places."""
    now = [s.run[i] for i in range(s.nr)]
    stayed = [r for r in was.running if r in now]
    return now[: len(stayed)] == stayed


@transition("RUN-23")
def budget_bounds_step(was: Before, s: State, done: Action) -> bool:
    """The tokens of a step are at least one a request and no more than the budget in all."""
    if not isinstance(done, Schedule):
        return True
    grants = [s.grant[i] for i in _entries(s)]
    return all(n > 0 for n in grants) and sum(grants) <= s.k.budget


@transition("RUN-24")
def schedule_order(was: Before, s: State, done: Action) -> bool:
    """Requests are scheduled once each, in the order of the running list."""
    if not isinstance(done, Schedule):
        return True
    frame = _frame(s)
    return frame == [s.run[i] for i in range(s.nr) if s.run[i] in frame]


@transition("TABLE-10")
def tables_grow(was: Before, s: State, done: Action) -> bool:
    """While a request stays in the running list its block table is only appended to."""
    return all(
        tuple([s.tab[r, i] for i in range(min(len(table), s.tlen[r]))]) == table
        for r, table in was.table.items()
        if s.stage[r] == RUNNING and r not in s.preempted
    )


@transition("UPD-14")
def computed_grows(was: Before, s: State, done: Action) -> bool:
    """A running request gains just the computed tokens it is granted, and loses none."""
    entries = _entries(s) if isinstance(done, Schedule) else ()
    granted = {s.frame[i]: s.grant[i] for i in entries}
    return all(
        s.comp[r] == n + granted.get(r, 0)
        for r, n in was.computed.items()
        if s.stage[r] == RUNNING and r not in s.preempted
    )


@transition("UPD-15")
def tokens_have_owners(was: Before, s: State, done: Action) -> bool:
    """A request takes one token for an output it owes, and none that was never scheduled.

    Upstream: request ids used again while an output is in flight.
    """
    if not isinstance(done, Update):
        return True
    return all(
        s.ntok[r] == n + (r in was.owed) and (s.ntok[r] == n or was.stage[r] != WAITING)
        for r, n in was.tokens.items()
        if n and live(s, r)
    )


@transition("UPD-23")
def tokens_in_their_places(was: Before, s: State, done: Action) -> bool:
    """A request takes the token that was sampled for the position it is given.

    Upstream: 38624: a request that is preempted and resumed with its output in flight samples a
    position twice.
    """
    if not isinstance(done, Update):
        return True
    return all(
        (s.ntok[r] - 1 if live(s, r) else was.tokens[r]) == spot for r, spot in was.owed.items()
    )


@claim("HASH-18")
def sharing_agrees(s: State) -> bool:
    """Requests that share a block agree on all that identifies it: tokens, adapter and salt, from
    the start.

    Upstream: 44701.
    """
    return all(
        s.k.truth(q, j) == s.k.truth(r, i)
        for r in s.k.requests
        for i in range(s.tlen[r])
        for q in s.k.requests
        if q != r
        for j in range(s.tlen[q])
        if s.tab[q, j] == s.tab[r, i]
    )


@claim("HASH-19")
def no_orphans(s: State) -> bool:
    """Every cached block has some cached block with its parent's hash, unless hashes were evicted
    from outside.
    """
    if s.evicted:
        return True
    hashes = {h for h in s.hsh.values() if h is not None}
    return all(s.k.par(h) == s.k.ROOT or s.k.par(h) in hashes for h in hashes)
