"""Streaming sessions: what they are sent and take, and what they hold while they wait."""

from nullblock.spec.fields import UNBORN, WAITING
from nullblock.spec.invariants.ledger import invariant, within
from nullblock.spec.kernel import State, Value, both, either, implies, neg
from nullblock.spec.remote import awaits_load
from nullblock.spec.sessions import (
    awaits_input,
    has_chunk,
    holds_while_waiting,
    num_output,
    prompt,
)
from nullblock.spec.waiting import is_skipped


@invariant("SESS-20")
def chunks_are_counted(s: State) -> Value:
    """A session takes no more chunks than it is sent; who is none, or gone, is sent nothing."""
    if not s.k.sessions:
        return True
    return s.k.forall(
        "R",
        lambda r: both(
            0 <= s.turns[r],
            s.turns[r] <= s.sent[r],
            within(0, s.ended[r], 2),
            implies(
                either(s.stage[r] == UNBORN, neg(s.k.resumable(r))),
                both(s.sent[r] == 0, s.ended[r] == 0, s.grown[r] == 0, s.past[r] == 0),
            ),
        ),
    )


@invariant("SESS-21")
def waits_for_what_is_not_there(s: State) -> Value:
    """A session waits for a chunk only if none has arrived that it has not taken, nor its end."""
    if not s.k.sessions:
        return True
    return s.k.forall(
        "R",
        lambda r: implies(
            awaits_input(s, r),
            both(is_skipped(s, r), neg(has_chunk(s, r)), s.ended[r] == 0, num_output(s, r) > 0),
        ),
    )


@invariant("SESS-22")
def keeps_its_prompt(s: State) -> Value:
    """What a session has been sent and has kept is there: its prompt counts no token that it has
    not. Near upstream: 44526, 52765.
    """
    if not s.k.sessions:
        return True
    return s.k.forall(
        "R",
        lambda r: implies(s.stage[r] != UNBORN, both(s.lost[r] == 0, prompt(s, r) <= s.ntok[r])),
    )


@invariant("SESS-26")
def waits_with_what_it_computed(s: State) -> Value:
    """A session that waits with blocks has computed some of its tokens, not the last unless it
    waits for a load, and holds the blocks of those that it has. Upstream: 44526.
    """
    if not s.k.sessions:
        return True
    return s.k.forall(
        "R",
        lambda r: implies(
            both(holds_while_waiting(s, r), neg(both(s.looking > 0, r == s.lr))),
            both(
                either(awaits_load(s, r), within(1, s.comp[r], s.ntok[r])),
                s.tlen[s.k.table(r, 0)] >= s.k.blocks(s.comp[r]),
            ),
        ),
    )


@invariant("SESS-24")
def turns_take_their_own_outputs(s: State) -> Value:
    """Who waits for its turn, and was not preempted, is owed no output: those of a turn that is
    over are dropped. Upstream: 52693, 52765.
    """
    if not s.k.sessions:
        return True
    return s.k.forall(
        "R", lambda r: implies(s.stage[r] == WAITING, both(s.ph[r] == 0, s.spec[r] == 0))
    )


@invariant("SESS-25")
def turns_end_at_their_limits(s: State) -> Value:
    """A turn has no more outputs than its chunk asks for. Upstream: 37843."""
    if not s.k.sessions:
        return True
    return s.k.forall(
        "R",
        lambda r: implies(
            both(s.stage[r] != UNBORN, s.k.resumable(r)),
            num_output(s, r) <= s.k.chunk_limit(r, s.turns[r]),
        ),
    )
