"""The readings of several KV-cache groups: whose turn a table is, and how far a hit reaches.

The layers of a hybrid model are of several kinds. Each kind is a group, every request has a block
table of each group, and all take from one pool. Whatever is done to the tables of a request is
done to one group after the other. Each reading asks `s.k.several` first, and where that is off,
where the only table of a request goes by its name, says what the core says; whoever cares for one
group need not read on.
"""

from collections.abc import Callable

from nullblock.spec.aligned import is_aligned, lacking_states
from nullblock.spec.catalogue import clause
from nullblock.spec.cross import is_cross
from nullblock.spec.groups import (
    accepts,
    finds_less,
    held_alone,
    held_by_sinks,
    hits_alone,
    is_pending,
    missing,
    most_held,
    overlooked,
    passed,
)
from nullblock.spec.in_turn import hit_by, hits_nothing, reaches_on
from nullblock.spec.kernel import State, Value, both, either, implies, ite, least, neg
from nullblock.spec.mamba import is_made_now
from nullblock.spec.prompt_states import is_awaited
from nullblock.spec.sessions import chain
from nullblock.spec.sizes import blocks_of, cached_of, full_of, hit_tokens, needed, reached


def of_all(s: State, r: Value, holds: Callable[[Value], Value]) -> Value:
    """Whether something holds for each table of r."""
    return s.k.forall("G", lambda g: holds(s.k.table(r, g))) if s.k.several else holds(r)


def has_blocks(s: State, r: Value, tokens: Value) -> Value:
    """Whether each table of r has the blocks that so many tokens need."""
    return of_all(s, r, lambda t: s.tlen[t] >= places_for(s, t, tokens))


def places_for(s: State, t: Value, tokens: Value) -> Value:
    """Blocks that table t has for so many tokens at least: an aligned one has none for drafts to
    come, one of cross-attention layers those for what it attends to.
    """
    if is_cross(s, t):
        return needed(s, t, tokens)
    if is_aligned(s, t):
        return blocks_of(s, t, ite(s.asked != 0, least(tokens, s.goal), tokens))
    return blocks_of(s, t, tokens)


def has_cached(s: State, r: Value, tokens: Value) -> Value:
    """Whether the blocks that so many tokens fill are cached of each table of r."""
    return of_all(s, r, lambda t: s.ncached[t] >= cached_of(s, t, tokens))


def holds_nothing(s: State, r: Value) -> Value:
    """Whether the tables of r are empty."""
    return of_all(s, r, lambda t: s.tlen[t] == 0)


@clause("GROUP-13")
def comes_next(s: State, t: Value, done: Callable[[Value], Value]) -> Value:
    """Blocks are given back, taken, cached and released for one group after the other.

    Source: KVCacheCoordinator: remove_skipped_blocks, allocate_new_computed_blocks,
    allocate_new_blocks, cache_blocks, free.
    """
    return not s.k.several or s.k.forall(
        "G", lambda g: implies(g < s.k.group(t), done(s.k.table(s.k.owner(t), g)))
    )


@clause("GROUP-14")
def agreed(s: State, r: Value) -> Value:
    """A prefix hit of several groups is the longest that each of them accepts, a multiple of the
    sizes of all their blocks.

    Source: HybridKVCacheCoordinator.find_longest_cache_hit, which finds it as a fixed point: one
    kind of layers after the other shortens what the others have left, until none does. With an
    EAGLE-like method what it finds is another thing (GROUP-60).
    """
    if hits_nothing(s, r):
        return 0
    if not s.k.several:
        return s.k.tokens(hits_alone(s, r))
    unit, less = s.k.span_unit, finds_less(s, r)
    last = ite(less, 0, (s.ntok[r] - 1) // unit)
    n = s.k.first(
        "I",
        lambda n: both(n <= last, of_all(s, r, lambda t: accepts(s, t, n * unit, 0))),
        lambda n: -n,
        by="hit",
    )
    return ite(less, -1, n * unit)


@clause("REMOTE-50")
def next_token(s: State) -> Value:
    """Where something is loaded, what the next token sees is reckoned from behind the load: the
    null block stands for what lies before that, hit or to be loaded, and counts as a hit.

    Of a prompt that is loaded as a whole the next token is its last one, which is computed again.
    Source: SingleTypeKVCacheManager.allocate_new_computed_blocks, get_num_blocks_to_allocate. In
    vllm-0.22.1 it is reckoned from behind the prompt, and the last token lacks what it sees.
    """
    if not s.k.connector:
        return hit_tokens(s)
    n = hit_tokens(s) + s.ext
    return least(n, s.ntok[s.lr] - 1) if s.k.sem.last_token_sees_back else n


def hits_of(s: State, t: Value) -> Value:
    """How many blocks of table t the lookup hits, nulls included."""
    hits = full_of(s, t, hit_by(s, t))
    if not (s.k.connector or s.k.in_turn):
        return hits
    nulls = nulls_before_load(s, t)
    return ite(nulls > hits, nulls, hits)


def nulls_before(s: State, t: Value, tokens: Value) -> Value:
    """The null blocks that table t begins with where so many tokens are hit or loaded: none where
    it has begun already.
    """
    return ite(s.holds_some == 1, 0, passed(s, t, tokens))


def nulls_before_load(s: State, t: Value) -> Value:
    """Those before whatever is hit and loaded."""
    return nulls_before(s, t, next_token(s))


def foreseen(s: State, t: Value) -> Value:
    """As many of those as the gate reckons with, which asks for no more than max_model_len
    tokens.

    Source: KVCacheManager.allocate_slots, full_sequence_must_fit.
    """
    return nulls_before(s, t, least(next_token(s), s.k.max_len))


def surplus(s: State, r: Value) -> Value:
    """How many more blocks are hit than what is agreed on and loaded takes: none where all hits
    end where all kinds agree (GROUP-65).
    """

    def of(t: Value) -> Value:
        n = hits_of(s, t) - blocks_of(s, t, hit_tokens(s) + s.ext)
        return ite(both(reaches_on(s, t), n > 0), n, 0)

    return s.k.sum_over("G", lambda g: of(s.k.table(r, g)))


def may_be_miscounted(s: State) -> Value:
    """Whether more blocks may count as free than there are (GROUP-65)."""
    return s.k.connector and s.k.in_turn and not s.k.sem.hits_cut_alike


def are_held(s: State) -> Value:
    """Whether blocks count as held where the prefix cache is to be emptied (LIFE-10).

    Source: BlockPool.reset_prefix_cache, which goes by how many count as free.
    """
    if may_be_miscounted(s):
        return s.nfree != s.k.usable + held_by_sinks(s)
    if held_by_sinks(s) > 0:
        return True
    return s.k.exists("B", lambda b: s.ref[b] > 0, by="held")


def left_out_from(s: State, t: Value) -> Value:
    """The first place of table t whose hit may be left out because the token behind a load does
    not see it.
    """
    return passed(s, t, hit_by(s, t))


def left_out_to(s: State, t: Value) -> Value:
    """One after the last such place."""
    hits, nulls = full_of(s, t, hit_by(s, t)), nulls_before_load(s, t)
    return least(hits, nulls)


def covered(s: State) -> Value:
    """Tokens that the hits adopted so far cover: of several groups none before the last has its
    hits.
    """
    if not s.k.several:
        return least(s.k.tokens(s.na), s.span) if s.k.spans else s.k.tokens(s.na)
    return ite(both(s.na > 0, s.na == s.nhit), s.span, 0)


def hits_before(s: State, r: Value, g: Value) -> Value:
    """How many hits the groups before g have together."""
    return s.k.sum_over("G", lambda h: ite(h < g, hits_of(s, s.k.table(r, h)), 0))


def hit_group(s: State, r: Value, i: Value) -> Value:
    """The group that hit i is for: hits are looked up, and adopted, group by group."""
    return s.k.first(
        "G",
        lambda g: either(g == s.k.last_group, i < hits_before(s, r, g + 1)),
        lambda g: g,
        by="group",
    )


def hit_table(s: State, r: Value, i: Value) -> Value:
    """The table that hit i is for."""
    return s.k.table(r, hit_group(s, r, i)) if s.k.several else r


def looks_for(s: State, t: Value) -> Value:
    """Whether the next hit to be looked up is for table t."""
    return s.k.group(t) == hit_group(s, s.k.owner(t), s.nhit) if s.k.several else True


def is_for(s: State, t: Value) -> Value:
    """Whether the next hit to be adopted is for table t."""
    return s.k.group(t) == hit_group(s, s.k.owner(t), s.na) if s.k.several else True


def hit_place(s: State, r: Value, i: Value) -> Value:
    """The place that hit i takes in its table."""
    return i - hits_before(s, r, s.k.group(hit_table(s, r, i))) if s.k.several else i


def wanted(s: State, r: Value, i: Value) -> Value:
    """The hash that hit i has."""
    if not s.k.several:
        return chain(s, r, i)
    return chain(s, hit_table(s, r, i), hit_place(s, r, i))


def all_hits(s: State, r: Value) -> Value:
    """How many hits the groups have together."""
    return hits_before(s, r, s.k.last_group + 1) if s.k.several else hits_of(s, r)


def scannable(s: State, r: Value) -> Value:
    """How many blocks a lookup may hit: all full ones of all tokens but the last."""
    return all_hits(s, r) if s.k.spans else s.k.full(s.ntok[r] - 1)


def adopted(s: State, t: Value) -> Value:
    """How many hits table t has adopted."""
    if not s.k.several:
        return s.na
    n = s.na - hits_before(s, s.k.owner(t), s.k.group(t))
    return ite(n > 0, least(n, hits_of(s, t)), 0)


def computed_blocks(s: State, t: Value) -> Value:
    """Blocks of table t whose content is computed: while hits are adopted, those of its own."""
    r = s.k.owner(t)
    if not s.k.several:
        return s.k.full(s.comp[r])
    adopts = both(s.looking == 2, r == s.lr, s.na < s.nhit)
    return ite(adopts, adopted(s, t), full_of(s, t, s.comp[r]))


def pending(s: State, t: Value) -> Value:
    """How many hits table t has still to adopt."""
    return hits_of(s, t) - adopted(s, t) if s.k.several else s.nhit - s.na


def lacking(s: State, r: Value, tokens: Value) -> Value:
    """Of the blocks that so many tokens need in each table of r, those that are neither there nor
    hit.
    """
    if not s.k.several:
        if s.k.aligns:
            return lacking_states(s, r, begun(s, r), s.goal, s.nhit - s.na)
        n = needed(s, r, tokens) - s.tlen[r] - (s.nhit - s.na) - overlooked(s, r)
        # What is loaded may go beyond max_model_len.
        return ite(n > 0, n, 0) if s.k.connector else n
    return s.k.sum_over("G", lambda g: lacks(s, s.k.table(r, g), tokens))


def lacks(s: State, t: Value, tokens: Value) -> Value:
    """The same of one table, where there are several."""
    if is_aligned(s, t):
        return lacking_states(s, t, begun(s, s.k.owner(t)), s.goal, pending(s, t))
    n = needed(s, t, tokens) - s.tlen[t] - pending(s, t) - overlooked(s, t)
    return ite(n > 0, n, 0)


def lacking_whole(s: State, r: Value, tokens: Value) -> Value:
    """Of the blocks that so many tokens need, those that the gate asks for (GROUP-3)."""
    if not s.k.several:
        if s.k.aligns:
            return lacking_states(s, r, least(begun(s, r), s.k.max_len), tokens, s.nhit - s.na)
        return missing(s, r, needed(s, r, tokens), taken_off(s, r), taken_alone(s, r))
    return s.k.sum_over("G", lambda g: lacks_whole(s, s.k.table(r, g), tokens))


def lacks_whole(s: State, t: Value, tokens: Value) -> Value:
    """The same of one table, where there are several."""
    if is_aligned(s, t):
        n = least(begun(s, s.k.owner(t)), s.k.max_len)
        return lacking_states(s, t, n, tokens, pending(s, t))
    return missing(s, t, needed(s, t, tokens), taken_off(s, t), taken_alone(s, t))


def begun(s: State, r: Value) -> Value:
    """Tokens of r that are computed, hit or loaded, before those that it asks for."""
    return reached(s, r) + ite(both(s.looking != 0, r == s.lr), s.ext, 0)


def taken_off(s: State, t: Value) -> Value:
    """How many hits the gate takes off what table t needs: of the nulls before a load those that
    it foresees; and what it overlooks.
    """
    if not (s.k.spans and s.k.connector):
        return pending(s, t) + overlooked(s, t)
    hits = full_of(s, t, hit_by(s, t))
    n = ite(foreseen(s, t) > hits, foreseen(s, t), hits)
    return n - adopted(s, t) + overlooked(s, t)


def taken_alone(s: State, t: Value) -> Value:
    """How many blocks table t holds, or would hold with its hits, that nobody else does."""
    if either(not s.k.windowed, not s.k.sem.gate_asks_behind_hits):
        return 0
    if not s.k.several:
        return held_alone(s, t) + s.nevict
    r = s.k.owner(t)
    free = s.k.count(
        "I",
        lambda i: both(is_pending(s, i), s.ref[s.hit[i]] == 0, hit_table(s, r, i) == t),
    )
    return held_alone(s, t) + free


@clause("GROUP-25")
def awaits_state(s: State) -> Value:
    """A state of Mamba layers that a step computes is not hit in it: whoever would start from one
    is not admitted, nor is anybody behind.

    Source: MambaManager.get_num_blocks_to_allocate, cached_blocks_this_step.
    """
    if not s.k.mamba:
        return False
    if s.looking == 0:
        return False

    def awaits(i: Value) -> Value:
        h = s.hsh[s.hit[i]]
        return both(is_pending(s, i), either(is_made_now(s, h), is_awaited(s, h)))

    hit = s.k.exists("I", awaits, by="pending")
    if not (s.k.spans and s.k.connector):
        return hit
    return either(hit, neg(of_all(s, s.lr, lambda t: has_its_states(s, t))))


def has_its_states(s: State, t: Value) -> Value:
    """Whether no state that this step computes is hit in table t and left out behind a load."""
    return s.k.forall(
        "I",
        lambda i: neg(is_made_now(s, chain(s, t, i))),
        span=lambda: (left_out_from(s, t), left_out_to(s, t)),
    )


def held_at_most(s: State, r: Value, tokens: Value) -> Value:
    """How many of the blocks that so many tokens need a request ever holds at once."""
    if not s.k.several:
        return table_at_most(s, r, tokens)
    return s.k.sum_over("G", lambda g: table_at_most(s, s.k.table(r, g), tokens))


def table_at_most(s: State, t: Value, tokens: Value) -> Value:
    """The same of one table."""
    if is_cross(s, t):
        return blocks_of(s, t, s.k.encoder_tokens(s.k.owner(t)))
    return most_held(s, t, needed(s, t, tokens))
