"""The readings of Mamba layers in the mode `align`: of a step only the state at its end is kept.

A table has the state that a step ends with and, behind it, those beside for drafts; before it
null blocks, among them the state that the step began with. When a step needs more places, nulls
fill them, the states beside move along, and one block is taken. A state can be hit only if a step
ended with its block, so that prefills are cut to whole blocks.

Each reading asks `s.k.aligns` first, and where that is off says what the core says; whoever has no
such layers need not read on.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.fields import RUNNING
from nullblock.spec.kernel import State, Value, both, either, implies, ite, least, neg
from nullblock.spec.mamba import beside
from nullblock.spec.sessions import continues, may_hold, prompt
from nullblock.spec.sizes import needed


def is_aligned(s: State, t: Value) -> Value:
    """Whether table t keeps the states at ends of steps alone."""
    return s.k.aligned_of(t) if s.k.aligns else False


def places(s: State, t: Value) -> Value:
    """Places of an aligned table that it had before this step."""
    return ite(s.grows[t] != 0, s.grows[t] - 1, s.tlen[t])


def runs(s: State, t: Value) -> Value:
    """Whether table t has had a state of its own: its request runs, or is a session that goes
    on, with nothing computed if its prompt was empty.
    """
    r = s.k.owner(t)
    held = both(may_hold(s, r), s.nhit == 0, s.ext == 0, places(s, t) > 0)
    return either(s.stage[r] == RUNNING, continues(s, r), held, was_given(s, t))


def was_given(s: State, t: Value) -> Value:
    """Whether table t has places from a load: those count as a state of its own, in lines that
    load states.
    """
    if not (s.k.connector and s.k.sem.long_tables_stay):
        return False
    is_looked_up = both(s.looking != 0, s.lr == s.k.owner(t))
    return both(places(s, t) > 0, either(neg(is_looked_up), s.holds_some == 1))


@clause("GROUP-27")
def lacking_states(s: State, t: Value, done: Value, tokens: Value, hits: Value) -> Value:
    """However many tokens a step computes, an aligned table that gets longer takes one block, and
    at its first time those beside. So many have to be free, too, for one that takes those beside
    alone (GROUP-66); and one more, where the step from `done` on keeps an inner state (GROUP-72).

    Source: MambaManager.get_num_blocks_to_allocate. In vllm-0.32.0 no more than it gets longer by;
    and one that is longer than it needs to be makes up for what other tables lack.
    """
    n = needed(s, t, tokens) - s.tlen[t] - hits
    most = ite(runs(s, t), 1, 1 + beside(s, t)) + inner_states(s, t, done, tokens)
    if s.k.sem.long_tables_stay:
        return least(n, most)
    return ite(n > 0, most, 0)


def inner_end(s: State, t: Value, tokens: Value) -> Value:
    """Where an inner state of a step that ends with so many tokens ends: with the last block
    before its last token.
    """
    return (tokens - 1) // s.k.split * s.k.split


def spans_blocks(s: State, done: Value, end: Value, alignment: Value) -> Value:
    """Whether a step from a block's end on computes a whole block before an inner state's end,
    which is so many tokens from its begin, or a multiple of that.

    Source: is_mamba_prefill_checkpoint_valid.
    """
    size = s.k.split
    begins = both(alignment > 0, done % size == 0, done + size <= end)
    return both(begins, (end - done) % ite(alignment > 0, alignment, 1) == 0)


@clause("GROUP-72")
def inner_states(s: State, t: Value, done: Value, tokens: Value) -> Value:
    """Of a step that ends behind another block of its own, the state at that block's end is kept
    too, where workers can: 1, else 0. The block is not there yet, or one for drafts.

    So a prefill need not end a step there for a prefix of it to be hit. Source:
    MambaManager._needs_internal_checkpoint. vllm-0.22.1 keeps none.
    """
    if not s.k.keeps_inner:
        return 0
    end = inner_end(s, t, tokens)
    i = end // s.k.split - 1
    free = either(i >= s.tlen[t], both(runs(s, t), i >= s.tlen[t] - beside(s, t)))
    at = ite(both(0 <= i, i < s.tlen[t]), s.tab[t, i], s.k.NULL)
    spans = spans_blocks(s, done, end, s.k.inner_of(t))
    return ite(both(spans, either(free, at == s.k.NULL)), 1, 0)


def noted_inner(s: State, t: Value) -> Value:
    """1, if it is noted that the step which table t grows for keeps an inner state; else 0."""
    if not s.k.keeps_inner:
        return 0
    return ite(both(s.grows[t] != 0, s.inner[t] == s.goal), 1, 0)


def has_inner(s: State, t: Value, tokens: Value) -> Value:
    """Whether the last step of table t's request kept one, and ended with so many tokens."""
    return both(tokens > 0, s.inner[t] == tokens) if s.k.keeps_inner else False


def first_kept(s: State, t: Value) -> Value:
    """The place of the first state that a growing table gets: nulls are before it."""
    return needed(s, t, s.goal) - beside(s, t) - 1 - noted_inner(s, t)


def state_before(s: State, t: Value, hits: Value) -> Value:
    """One after the place of the state that the step at hand begins with; 0: it begins with
    none.
    """
    return ite(runs(s, t), places(s, t) - beside(s, t), hits)


@clause("GROUP-68")
def noted_before(s: State, t: Value, hits: Value) -> Value:
    """What is noted of `state_before` when table t gets longer: where it had states beside and
    nothing before them, its new length, as if the state were the last of it.

    So it is of an empty prompt whose first step computes a token that there is not (GROUP-66).
    Source: MambaManager.allocate_new_blocks: last_state_block_idx, -1 there, which Python takes
    for the last.
    """
    first = state_before(s, t, hits)
    begun = either(beside(s, t) > 0, s.k.sem.long_tables_stay)
    alone = both(runs(s, t), first == 0, begun)
    return ite(alone, needed(s, t, s.goal), first)


def goes_back_at_last(s: State, t: Value, i: Value, settled: Value) -> Value:
    """Whether the last block of an aligned table goes back, for one before the first (GROUP-68):
    it does once any of its states is settled.
    """
    return both(s.before[t] == s.tlen[t], i == s.tlen[t] - 1, settled > 0)


def is_gap(s: State, t: Value) -> Value:
    """Whether the next place of an aligned table, which gets longer, lies before its states."""
    return s.tlen[t] < first_kept(s, t)


def next_to_move(s: State, t: Value) -> Value:
    """The place of the next state beside that may have to move along."""
    first = first_kept(s, t)
    had = places(s, t)
    end = ite(had > first, had, first)
    return had - beside(s, t) + s.tlen[t] - end


def moves_along(s: State, t: Value) -> Value:
    """Whether it lies before the new state, so that it has to."""
    first = first_kept(s, t)
    return both(runs(s, t), next_to_move(s, t) < least(places(s, t), first))


def grows_otherwise(s: State, t: Value) -> Value:
    """Whether something comes before a block is taken for an aligned table."""
    return either(is_gap(s, t), moves_along(s, t)) if is_aligned(s, t) else False


def next_swept(s: State, t: Value, passed: Value) -> Value:
    """The place right before those whose states the actor has given back of an aligned table, from
    the place of the last settled one on; negative: there is none.
    """
    return least(passed, s.tlen[t]) - 1 - s.swept[t]


@clause("GROUP-28")
def goes_back(s: State, t: Value, i: Value, passed: Value) -> Value:
    """Of an aligned table the states go back that stand right before the place of the last settled
    one, as far as no null block comes between, and then the one that its last growth began with.

    Source: MambaManager.remove_skipped_blocks. Another one stays until its request leaves: that
    takes steps of more than one block, and more states beside than a block has tokens. In
    vllm-0.32.0 all of them go back, whatever nulls there are between them.
    """
    if s.k.sem.gaps_swept:
        return i < passed
    nearest = next_swept(s, t, passed)
    sweeps = both(nearest >= 0, s.tab[t, nearest] != s.k.NULL)
    return ite(sweeps, i == nearest, both(i == s.before[t] - 1, i < passed))


def would_shrink(s: State, r: Value, n: Value) -> Value:
    """Whether an aligned table of r has more places than n more tokens need: where drafts that
    spanned a block's end were rejected, and fewer are scheduled; a session may enter so. vLLM
    raises there, up to 0.32.0, where the table stays as it is.
    """
    if not s.k.aligns or s.k.sem.long_tables_stay:
        return False
    tokens = least(s.comp[r], s.k.max_len) + n
    return neg(
        s.k.forall(
            "G",
            lambda g: implies(
                is_aligned(s, s.k.table(r, g)),
                needed(s, s.k.table(r, g), tokens) >= s.tlen[s.k.table(r, g)],
            ),
        )
    )


def blocks_within(s: State, done: Value, n: Value) -> Value:
    """Of n tokens those up to the last end of a block."""
    size = s.k.split
    if not s.k.sem.short_chunks_go_on:
        return n // size * size
    most = s.k.most_granted
    if s.k.threshold > 0:
        most = least(most, s.k.threshold)
    whole = (done + n) // size * size - done
    return ite(whole > 0, whole, ite(size <= most, 0, n))


def last_state(s: State, r: Value) -> Value:
    """Tokens before the last state of r that may be hit.

    Source: Scheduler._mamba_block_aligned_split, last_cache_position.
    """
    size = s.k.split
    if s.k.looks_ahead:
        last = s.ntok[r] // size * size
        return ite(last > size, last - size, 0)
    n = s.ntok[r]
    if s.k.sem.prefills_end_in_blocks:
        n = ite(n > 0, n - 1, 0)
    return n // size * size


def stopped(done: Value, end: Value, stop: Value) -> Value:
    """The end of a step that begins with so many tokens, if it may not run past a stop."""
    return ite(both(done < stop, stop < end), stop, end)


@clause("GROUP-29")
def whole_blocks(s: State, r: Value, done: Value, n: Value) -> Value:
    """A prefill ends its steps with a block, and one of them with the last that may be hit; where
    no block fits it waits for another step, unless none ever has room for one.

    What is behind that block is computed as it comes, and so is a decode. Under an EAGLE-like
    method it is the block before. Source: Scheduler._mamba_block_aligned_split. In vllm-0.22.1 it
    waits in any case (upstream 45414). In vllm-0.32.0 the last token is computed behind it, and
    steps before the last token end with blocks. Where the step that ends a prefill keeps an inner
    state (GROUP-72) it does not stop for one.
    """
    if not s.k.split:
        return n
    size, goal = s.k.split, prefill_end(s, r)
    last = ite(is_last_whole(s, done, n, goal), 0, last_state(s, r))
    bound = goal if s.k.sem.prefills_end_in_blocks else last
    end = done + ite(done + n < bound, blocks_within(s, done, n), n)
    whole = up_to_junction(s, r, done, stopped(done, end, last))
    if s.k.sem.prefills_end_in_blocks:
        whole = ite(done % size != 0, stopped(done, whole, (done // size + 1) * size), whole)
    return ite(done < goal, whole - done, n)


def is_last_whole(s: State, done: Value, n: Value, goal: Value) -> Value:
    """Whether n tokens end a prefill, and keep the state at its last block's end on the way."""
    if not s.k.splits_within:
        return False
    end = (goal - 1) // s.k.split * s.k.split
    return both(done + n >= goal, spans_blocks(s, done, end, s.k.splits_within))


def prefill_end(s: State, r: Value) -> Value:
    """How far r is computed before it decodes: its outputs again, if it was preempted."""
    return ite(prompt(s, r) < s.ntok[r] - 1, s.ntok[r] - 1, prompt(s, r))


@clause("GROUP-69")
def up_to_junction(s: State, r: Value, done: Value, end: Value) -> Value:
    """A prefill ends a step, too, where the kind of layers that is looked up first was hit up to,
    if that is more than what all kinds agree on: others have the same tokens, so that the state
    there may be hit. 0: nowhere.

    Source: HybridKVCacheCoordinator.find_longest_cache_hit, num_uncached_common_prefix_tokens;
    Request.shared_prefix_boundary. Only in vllm-0.32.0.
    """
    return stopped(done, end, s.junct[r]) if s.k.sem.chunks_end_at_junctions else end


def cut_first(s: State, r: Value, done: Value, n: Value) -> Value:
    """A step is cut to whole blocks before its encoder inputs are planned, in lines that do."""
    return whole_blocks(s, r, done, n) if s.k.sem.blocks_before_items else n


def cut_last(s: State, r: Value, done: Value, n: Value) -> Value:
    """And in others after that."""
    return n if s.k.sem.blocks_before_items else whole_blocks(s, r, done, n)
