"""The readings of states that prompts can be hit by: of Mamba layers in the mode `align`, in lines
after vllm-0.22.1.

Each asks a switch first, and where that is off says what the core says.
"""

from nullblock.spec.aligned import has_inner, inner_end, is_aligned
from nullblock.spec.catalogue import clause
from nullblock.spec.groups import is_null
from nullblock.spec.kernel import State, Value, both, ite, least, neg
from nullblock.spec.sessions import prompt
from nullblock.spec.sizes import full_of


def awaits_prompts(s: State) -> Value:
    """Whether there are such states, and the line has rules for them."""
    return s.k.aligns and s.k.sem.prompt_states_awaited


def end_of_state(s: State, r: Value) -> Value:
    """Tokens before the last state that the prompt of r can be hit by; 0 or less: there is none.

    Source: get_mamba_prefill_checkpoint_position.
    """
    size, n = s.k.split, prompt(s, r)
    return n // size * size - size if s.k.looks_ahead else (n - 1) // size * size


def reached(s: State, t: Value, tokens: Value) -> Value:
    """Of so many tokens those that are offered to the prefix cache for table t: with marks of an
    EAGLE-like method all of them, since a block behind a hit is looked at.

    Source: HybridKVCacheCoordinator.get_num_cacheable_tokens.
    """
    if not s.k.several:
        return tokens
    hit = tokens // s.k.span_unit * s.k.span_unit
    return ite(both(s.k.marked_of(t) == 1, hit > 0), tokens, hit)


def has_prompt_state(s: State, t: Value, tokens: Value) -> Value:
    """Whether table t has the state of its request's prompt, and so many tokens end with it."""
    end = end_of_state(s, s.k.owner(t))
    i = full_of(s, t, end) - 1
    there = both(0 <= i, i < s.ncached[t], i < s.tlen[t], neg(is_null(s, t, i)))
    return both(is_aligned(s, t), end > 0, reached(s, t, tokens) == end, there)


def place_of_state(s: State, t: Value) -> Value:
    """Its place."""
    return full_of(s, t, end_of_state(s, s.k.owner(t))) - 1


def noted_place(s: State, t: Value, end: Value, tokens: Value) -> Value:
    """The place of the state of table t that is looked at when so many tokens are cached, those of
    a step that has ended with `end`; -1: of none. It is the inner state of that step, if it has
    kept one (GROUP-72).
    """
    of_prompt = ite(has_prompt_state(s, t, tokens), place_of_state(s, t), -1)
    if not s.k.keeps_inner:
        return of_prompt
    i = full_of(s, t, inner_end(s, t, end)) - 1
    there = both(i < s.ncached[t], i < s.tlen[t])
    inner = ite(both(is_aligned(s, t), there), ite(is_null(s, t, i), -1, i), -1)
    return ite(has_inner(s, t, end), inner, of_prompt)


@clause("GROUP-70")
def is_awaited(s: State, h: Value) -> Value:
    """The last state that a prompt can be hit by counts as computed in each step of its request
    that fills no further block, as long as the request has it: in none of them is it hit.

    Source: MambaManager._cache_partial_tail_block, cached_blocks_this_step. Only in vllm-0.32.0.
    """
    if not awaits_prompts(s):
        return False
    return s.k.exists("R", lambda r: both(s.sched[r] != 0, _awaits(s, r, h)), by=("awaited", h))


def _awaits(s: State, r: Value, h: Value) -> Value:
    """Whether h is that of a state of r's prompt, and r's step ends with it."""
    if not s.k.several:
        return _is_its_state(s, r, h)
    return s.k.exists("G", lambda g: _is_its_state(s, s.k.table(r, g), h))


def _is_its_state(s: State, t: Value, h: Value) -> Value:
    r = s.k.owner(t)
    tokens = least(least(s.comp[r], s.k.max_len) + s.sched[r], s.ntok[r])
    return both(has_prompt_state(s, t, tokens), s.hsh[s.tab[t, place_of_state(s, t)]] == h)
