"""What has to be free: for the tokens of a step, and at the gate for all of a waiting request,
before it is given any of it.
"""

from nullblock.spec import later
from nullblock.spec.aligned import is_aligned
from nullblock.spec.catalogue import clause
from nullblock.spec.groups import in_all
from nullblock.spec.hybrid import (
    awaits_state,
    foreseen,
    lacking,
    lacking_whole,
    left_out_from,
    left_out_to,
    next_token,
)
from nullblock.spec.kernel import State, Value, both, ite, least
from nullblock.spec.sessions import chain
from nullblock.spec.slots import slots
from nullblock.spec.state import is_cached


@clause("ALLOC-1")
def fits(s: State, r: Value) -> Value:
    """Slots are given if the blocks still missing, plus the hits that stand in the free queue, are
    free: all or nothing.

    Source: KVCacheManager.allocate_slots, get_num_blocks_to_allocate.
    """
    if awaits_state(s):
        return False
    kept_free = later.headroom(s) + later.set_aside(s, r)
    return lacking(s, r, slots(s)) + s.nevict + free_states(s, r) + kept_free <= s.nfree


@clause("WAIT-3")
def fits_whole(s: State, r: Value) -> Value:
    """With full-sequence reservation a request is admitted only if all the tokens it has now would
    fit.

    Source: scheduler_reserve_full_isl. For a resumed request that includes its output.
    """
    if not s.k.reserve:
        return True
    whole = least(s.ntok[r], s.k.max_len)
    free = s.nevict + free_unforeseen(s, r) + free_states(s, r)
    return lacking_whole(s, r, whole) + free + later.headroom(s) <= s.nfree


def free_unforeseen(s: State, r: Value) -> Value:
    """Free blocks that are hit and left out behind a load, where the gate does not foresee it."""
    if not (s.k.spans and s.k.connector and s.k.caching):
        return 0
    if next_token(s) <= s.k.max_len:
        return 0

    def of(t: Value) -> Value:
        first, end = left_out_from(s, t), left_out_to(s, t)
        known = foreseen(s, t)
        return s.k.count("I", lambda i: both(first <= i, known <= i, i < end, is_free(s, t, i)))

    return in_all(s, r, lambda t: 0 if is_aligned(s, t) else of(t))


def free_states(s: State, r: Value) -> Value:
    """Free states that are hit and left out behind a load: an aligned table is taken to need its
    last one all the same, in lines that load states.

    Source: MambaManager.get_num_blocks_to_allocate, which asks all that is hit. Only in
    vllm-0.32.0.
    """
    if not (s.k.aligns and s.k.connector and s.k.caching and s.k.sem.long_tables_stay):
        return 0

    def of(t: Value) -> Value:
        first, end = left_out_from(s, t), left_out_to(s, t)
        return s.k.count("I", lambda i: both(first <= i, i == end - 1, is_free(s, t, i)))

    return ite(s.looking == 0, 0, in_all(s, r, lambda t: of(t) if is_aligned(s, t) else 0))


def is_free(s: State, t: Value, i: Value) -> Value:
    """Whether the block that table t would hit at place i is free."""
    h = chain(s, t, i)
    return s.k.exists("B", lambda b: both(s.ref[b] == 0, is_cached(s, b, h)))
