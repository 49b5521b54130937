"""The gate: whether all of a waiting request would fit, before it is given any of it."""

from nullblock.spec import later
from nullblock.spec.catalogue import clause
from nullblock.spec.groups import in_all
from nullblock.spec.hybrid import foreseen, lacking_whole, left_out_from, left_out_to, next_token
from nullblock.spec.kernel import State, Value, both, least
from nullblock.spec.sessions import chain
from nullblock.spec.state import is_cached


@clause("WAIT-3")
def fits_whole(s: State, r: Value) -> Value:
    """With full-sequence reservation a request is admitted only if all the tokens it has now would
    fit.

    Source: scheduler_reserve_full_isl. For a resumed request that includes its output.
    """
    if not s.k.reserve:
        return True
    whole = least(s.ntok[r], s.k.max_len)
    free = s.nevict + free_unforeseen(s, r)
    return lacking_whole(s, r, whole) + free + later.headroom(s) <= s.nfree


def free_unforeseen(s: State, r: Value) -> Value:
    """Free blocks that are hit and left out behind a load, where the gate does not foresee it."""
    if not (s.k.spans and s.k.connector and s.k.caching):
        return 0
    if next_token(s) <= s.k.max_len:
        return 0

    def is_free(t: Value, i: Value) -> Value:
        h = chain(s, t, i)
        return s.k.exists("B", lambda b: both(s.ref[b] == 0, is_cached(s, b, h)))

    def of(t: Value) -> Value:
        first, end = left_out_from(s, t), left_out_to(s, t)
        known = foreseen(s, t)
        return s.k.count("I", lambda i: both(first <= i, known <= i, i < end, is_free(t, i)))

    return in_all(s, r, of)
