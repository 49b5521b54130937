"""Where a turn ends: whether a session goes on, and whether it can.

Readings beside `nullblock.spec.sessions`, which those of the core plug in; these ask the core.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.fields import CONTINUE, ERROR
from nullblock.spec.kernel import State, Value, both, ite, neg
from nullblock.spec.sessions import has_chunk, kept
from nullblock.spec.state import can_serve


@clause("SESS-8")
def can_take(s: State, r: Value) -> Value:
    """A chunk that has no token, or could not be served to its limit, is refused, and ends its
    session.

    Source: our decision, as for LIFE-11; vllm-0.22.1 takes it.
    """
    if not s.k.sem.reject_unservable:
        return True
    n = s.k.chunk_len(r, s.turns[r] + 1)
    limit = s.k.chunk_limit(r, ite(s.k.sem.chunks_bring_limits, s.turns[r] + 1, 0))
    return both(1 <= n, can_serve(s, r, kept(s, r) + n, limit))


def goes_on(s: State, r: Value, why: Value) -> Value:
    """Whether r, which stops for that reason, is a session that does not end."""
    if not s.k.sessions:
        return False
    if neg(both(s.k.resumable(r), why != ERROR)):
        return False
    return can_take(s, r) if has_chunk(s, r) else s.ended[r] == 0


def is_refused(s: State, r: Value, why: Value) -> Value:
    """Whether r stops, and ends for the chunk that it would take next."""
    if not s.k.sessions:
        return False
    if neg(both(why != CONTINUE, why != ERROR, s.k.resumable(r), has_chunk(s, r))):
        return False
    return neg(can_take(s, r))
