"""`update_from_output()`: tokens come back, requests stop."""

from nullblock.spec.cache_events import stored
from nullblock.spec.fields import CONTINUE, HANDED, MOVED, RUNNING
from nullblock.spec.flight import caches_what_is_known, computed_for_sure, owes_token
from nullblock.spec.kernel import State, Value, both, loop, neg
from nullblock.spec.machine.blocks import cache_again, know_end
from nullblock.spec.machine.drafts import DRAFTS_LOOP, hear, take_drafts, verify, verify_anyhow
from nullblock.spec.machine.encoder import let_inputs_go, let_passed_go
from nullblock.spec.machine.events import abort
from nullblock.spec.machine.output import ends_told
from nullblock.spec.machine.remote import part, take_due_back
from nullblock.spec.machine.sessions import end_turn, leave_with_blocks, refuse_next
from nullblock.spec.machine.silence import go_without, returns_without
from nullblock.spec.machine.waiting import order_queues
from nullblock.spec.pooling import pools
from nullblock.spec.remote import anybody_lost, next_lost
from nullblock.spec.rules.clients import tell_ends
from nullblock.spec.rules.loads import give_up_on
from nullblock.spec.rules.pool import publish_known
from nullblock.spec.rules.pooling import take_vector
from nullblock.spec.rules.queues import finish, finish_waiting
from nullblock.spec.rules.remote import quit_for_good
from nullblock.spec.rules.steps import (
    begin_update,
    drop_token,
    end_update,
    go_on,
    pass_over,
    take_token,
)
from nullblock.spec.sessions import holds_while_waiting
from nullblock.spec.sizes import cached_of
from nullblock.spec.state import check_stop, index_of
from nullblock.spec.turns import goes_on

UPDATE_LOOP = (
    HANDED
    | MOVED
    | DRAFTS_LOOP
    | {"ntok", "comp", "ph", "drop", "base", "cur", "finished", "ends", "open", "taker"}
    | {"prev"}
)


def publish_what_is_known(s: State, r: Value) -> None:
    """Scheduling ahead, cache the blocks of a running request whose tokens are known by now
    (HASH-20).
    """
    if caches_what_is_known(s, r):
        for t in s.k.tables(r):
            publish_known_of(s, t)


def publish_known_of(s: State, t: Value) -> None:
    """Cache the blocks of one table of it."""
    r = s.k.owner(t)
    first = s.ncached[t]
    for _ in loop(
        s,
        until=lambda: s.ncached[t] >= cached_of(s, t, computed_for_sure(s, r)),
        decreases=lambda: cached_of(s, t, computed_for_sure(s, r)) - s.ncached[t],
        changes=frozenset({"hsh", "hstamp", "hclock", "ncached"}),
    ):
        publish_known(s, t)
    know_end(s, t)
    s.k.tell(stored, s, t, first)
    cache_again(s, t)


def settle(s: State, r: Value) -> None:
    """Apply the next output of the step to r, and let r go if it stops."""
    if neg(owes_token(s, s.cur)):
        let_passed_go(s, r)
        pass_over(s)
        return
    if pools(s, r):
        let_passed_go(s, r)
        take_vector(s, r)
        s.k.note(s, r, check_stop(s, r))
        let_stopped_go(s, r)
        return
    if returns_without(s, r):
        go_without(s, r)
        return
    if s.drop[r] > 0:
        verify_anyhow(s, r)
        let_passed_go(s, r)
        drop_token(s, r)
        return
    verify(s, r)
    let_passed_go(s, r)
    take_drafts(s, r)
    if s.open != 1:
        take_token(s, r)
    why = check_stop(s, r)
    s.k.note(s, r, why)
    publish_what_is_known(s, r)
    refuse_next(s, r, why)
    if why == CONTINUE:
        go_on(s, r)
        hear(s, r)
    elif goes_on(s, r, why):
        end_turn(s, r)
    else:
        let_stopped_go(s, r)


def let_stopped_go(s: State, r: Value) -> None:
    """Let r go, which stops, from wherever it stands."""
    if s.stage[r] == RUNNING:
        finish(s, index_of(s, r))
        let_inputs_go(s, r)
        part(s, r)
    elif s.k.connector:
        quit_for_good(s, r)
        let_inputs_go(s, r)
        part(s, r)
    elif holds_while_waiting(s, r):
        leave_with_blocks(s, r)
    else:
        let_inputs_go(s, r)
        finish_waiting(s, r)


def end_failed(s: State) -> None:
    """End those that lack blocks, where failed loads fail requests (REMOTE-29)."""
    if s.k.connector:
        if s.k.fails_loads:
            for _ in loop(
                s,
                until=lambda: neg(anybody_lost(s)),
                decreases=lambda: s.k.card(s.missing),
                changes=UPDATE_LOOP,
            ):
                end_lost(s, next_lost(s))
            order_queues(s)


def end_lost(s: State, r: Value) -> None:
    """End one of them."""
    give_up_on(s, r)
    abort(s, r)


def update_from_output(s: State) -> Value:
    """Apply the output of the oldest step in flight, request by request in schedule order (UPD-2
    to UPD-10, UPD-18). Returns whose ends clients are told, by client (None where none is).
    """
    take_due_back(s)
    begin_update(s)
    for _ in loop(
        s,
        until=lambda: s.cur >= s.upto,
        decreases=lambda: s.upto - s.cur,
        changes=UPDATE_LOOP,
        keep=lambda: both(s.leaving == 0, s.open == 0),
    ):
        settle(s, s.frame[s.cur])
    end_update(s)
    order_queues(s)
    end_failed(s)
    return let_hear(s)


def let_hear(s: State) -> Value:
    """Clients hear of the ends of their requests, those for failed loads among them (UPD-53)."""
    told = s.k.observe(ends_told, s)
    if s.k.tells_ends:
        tell_ends(s)
    return told
