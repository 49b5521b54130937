"""The readings of slots: of the request that asks for some, what this step needs for it."""

from nullblock.spec.aligned import is_aligned
from nullblock.spec.drafts import lookahead
from nullblock.spec.fields import REMOTE
from nullblock.spec.flight import computed_for_sure
from nullblock.spec.hybrid import comes_next
from nullblock.spec.kernel import State, Value, both, ite, least
from nullblock.spec.loaded import to_load
from nullblock.spec.prompt_states import awaits_prompts, noted_place
from nullblock.spec.remote import tokens_when_loaded
from nullblock.spec.sessions import prompt
from nullblock.spec.sizes import cacheable, cached_of, full_of, needed


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


def known_now(s: State, r: Value) -> Value:
    """Tokens of r whose blocks are cached at this moment: those of an output that it takes, of a
    load that has ended, or of this step.
    """
    if both(s.open == 1, r == s.taker):
        return computed_for_sure(s, r)
    if both(s.awaits[r] == REMOTE, s.came[r] == 1):
        return tokens_when_loaded(s, r)
    return filled(s, r)


def prompt_end_of(s: State, t: Value) -> Value:
    """Tokens before the hash that ends last in the prompt of table t's request, if it ends within
    a block of t that several hashes cover (GROUP-41); 0: none.
    """
    return s.k.end_of(t, prompt(s, s.k.owner(t)))


def lacks_end(s: State, t: Value) -> Value:
    """Whether the block of table t in which its prompt ends is cached as far as that, is not full,
    and is not known by it (GROUP-67).
    """
    if not (s.k.several and s.k.sem.prompt_ends_cached):
        return False
    end = prompt_end_of(s, t)
    i = full_of(s, t, end)
    reached = both(0 < end, end <= cacheable(s, t, known_now(s, s.k.owner(t))))
    there = both(s.ncached[t] <= i, i < s.tlen[t])
    return both(reached, there, s.hsh[s.tab[t, i]] != s.k.end_hash(t, end))


def lacks_state(s: State, t: Value) -> Value:
    """Whether table t has the state that its prompt can be hit by, and it was evicted: it is
    cached again (GROUP-71).
    """
    if not awaits_prompts(s):
        return False
    i = place_again(s, t)
    return both(s.k.caching, i >= 0, s.hsh[s.tab[t, i]] == s.k.NOHASH)


def place_again(s: State, t: Value) -> Value:
    """The place of that state; -1: there is none."""
    r = s.k.owner(t)
    asks = both(s.asked != 0, r == s.actor)
    return noted_place(s, t, ite(asks, s.goal, s.comp[r] + s.sched[r]), known_now(s, r))
