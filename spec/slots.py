"""The readings of slots: of the request that asks for some, what this step needs for it."""

from nullblock.spec.aligned import is_aligned
from nullblock.spec.drafts import lookahead
from nullblock.spec.hybrid import comes_next
from nullblock.spec.kernel import State, Value, both, ite, least
from nullblock.spec.loaded import to_load
from nullblock.spec.sizes import cached_of, needed


def slots(s: State) -> Value:
    """Tokens for which the actor's tables must have blocks."""
    return least(s.goal + lookahead(s), s.k.max_len)


def room(s: State, t: Value) -> Value:
    """Blocks that the actor's table t must have: of one group those to load into among them, be
    they more than there are slots, as for a prompt longer than max_model_len.
    """
    n = needed(s, t, s.goal if is_aligned(s, t) else slots(s))
    if not s.k.connector or s.k.several:
        return n
    loaded = to_load(s, t)
    return ite(loaded > n, loaded, n)


def lacks_place(s: State, t: Value) -> Value:
    """Whether the actor's table t is the first that needs more places, with every hit adopted."""
    before = comes_next(s, t, lambda u: s.tlen[u] >= room(s, u))
    return both(s.leaving == 0, s.na == s.nhit, s.tlen[t] < room(s, t), before)


def filled(s: State, r: Value) -> Value:
    """Tokens of the actor r that are known and that this step computes, or an earlier one has."""
    return least(s.goal, s.ntok[r])


def hashable(s: State, t: Value) -> Value:
    """Blocks of the actor's table t that are cached with what this step fills."""
    return cached_of(s, t, filled(s, s.k.owner(t)))
