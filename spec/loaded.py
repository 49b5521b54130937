"""Remote KV in tables: which blocks a load writes to, and what is taken, kept and given back for
it where there are several groups, or layers that see only a part of the past.

With a window what a load brings begins with what the next token sees (`next_token`). Each reading
says of one group of full attention what `nullblock.spec.remote` says.
"""

from nullblock.spec.aligned import goes_back, goes_back_at_last, is_aligned
from nullblock.spec.catalogue import clause
from nullblock.spec.fields import RUNNING
from nullblock.spec.groups import in_table, is_null, passed, tokens_passed
from nullblock.spec.hybrid import comes_next, next_token, pending
from nullblock.spec.kernel import State, Value, both, either, ite, least
from nullblock.spec.mamba import settled_states
from nullblock.spec.remote import is_received, loads_later
from nullblock.spec.sizes import blocks_of, full_of, hit_tokens, needed


def loaded_to(s: State, t: Value) -> Value:
    """One after the last place of table t that a load writes to; 0: no load is under way."""
    return blocks_of(s, t, s.loadto[s.k.owner(t)])


def was_loaded_whole(s: State, r: Value) -> Value:
    """Whether r may hold blocks and have nothing computed: all its tokens, one, were loaded."""
    return both(s.comp[r] == 0, s.ntok[r] == 1) if s.k.connector else False


def is_written_to(s: State, t: Value, b: Value) -> Value:
    """Whether a load writes to block b of table t: one over several steps, or one within the step
    whose output comes next.
    """
    r = s.k.owner(t)
    first = full_of(s, t, s.loadfrom[r])
    inside = both(s.pos[t, b] >= 0, first <= s.pos[t, b], s.pos[t, b] < loaded_to(s, t))
    now = s.k.among(s.frame, s.cur, s.fend[s.oldest], r)
    return both(inside, either(is_received(s, r), both(s.stage[r] == RUNNING, now)))


def may_be_lost(s: State, b: Value) -> Value:
    """Whether block b is among those that are loaded, so that it may be reported as not loaded."""
    return s.k.exists("T", lambda t: is_written_to(s, t, b))


def lacks_window(s: State, r: Value) -> Value:
    """Whether r, of whose load so much is left, lacks what its next token sees: it was not to be
    loaded.
    """
    if not s.k.windowed:
        return False
    i = passed(s, r, s.left)
    return both(i < s.tlen[r], is_null(s, r, i))


def keeps_nothing(s: State, r: Value) -> Value:
    """Whether nothing is kept of what was loaded for r, who lacks some of it."""
    if s.k.several:
        return True
    return either(s.cutoff < s.ncached[r], s.left == 0, lacks_window(s, r))


def to_load(s: State, t: Value) -> Value:
    """Blocks that table t of the actor has for what is hit and loaded; 0: nothing is loaded, or
    nothing of it is seen there.

    One group takes them with the others (`nullblock.spec.slots.room`); of several each takes them
    before any takes others (REMOTE-51). Whoever holds blocks already takes what its tokens need,
    and no more. In vllm-0.22.1 they are seen unless a whole block is not.
    Source: SingleTypeKVCacheManager.allocate_new_computed_blocks.
    """
    if either(s.ext == 0, s.holds_some == 1):
        return 0
    n = hit_tokens(s) + s.ext
    unseen = tokens_passed(s, t, next_token(s)) == n
    if not s.k.sem.hits_precede_loads:
        unseen = both(unseen, passed(s, t, next_token(s)) > 0)
    return ite(unseen, 0, blocks_of(s, t, n))


def outgrows(s: State, t: Value) -> Value:
    """Whether an aligned table of the actor would get more places for what is loaded than its
    tokens need: of a prompt longer than max_model_len. vLLM raises there.
    """
    if not s.k.aligns or s.k.sem.long_tables_stay:
        return False
    later = loads_later(s, s.k.owner(t))
    needs = needed(s, t, ite(later, least(s.goal, s.k.max_len), s.goal))
    return both(is_aligned(s, t), to_load(s, t) > needs)


@clause("REMOTE-57")
def stays_unzeroed(s: State, t: Value) -> Value:
    """Whether the next block of table t of the actor is one that a load over several steps writes
    to: workers do not zero it, since the load may be there first.

    Source: KVCacheManager.allocate_slots, skip_zeroing_group_ids. In vllm-0.22.1 they zero it, and
    may wipe what was loaded (upstream 48481).
    """
    if not (s.k.connector and s.k.sem.loads_not_zeroed):
        return False
    return both(loads_later(s, s.k.owner(t)), s.tlen[t] < to_load(s, t))


def lacks_to_load(s: State, t: Value) -> Value:
    """Whether the next block that is loaded into is for table t of the actor.

    Source: KVCacheCoordinator.allocate_new_computed_blocks. In vllm-0.22.1 the tables behind it
    may have hits to adopt.
    """
    before = comes_next(s, t, lambda u: s.tlen[u] >= to_load(s, u))
    adopted = pending(s, t) == 0 if not s.k.sem.hits_precede_loads else s.na == s.nhit
    return both(adopted, before, s.tlen[t] < to_load(s, t))


def left_behind(s: State, t: Value) -> Value:
    """The leading blocks of table t of a request that ends that no token would see.

    Source: Scheduler._connector_finished. vllm-0.32.0 counts nothing that is in flight.
    """
    return passed(s, t, settled_at_end(s, t))


def settled_at_end(s: State, t: Value) -> Value:
    """How many tokens of table t count as computed then."""
    r = s.k.owner(t)
    if s.k.sem.windows_await_outputs:
        settled = s.comp[r] - s.aloft[r]
        return ite(settled > 0, settled, 0)
    return settled_states(s, t, s.comp[r])


def is_left_behind(s: State, t: Value, i: Value) -> Value:
    """Whether table t of a request that ends holds a block at place i that no token would see: in
    an aligned table one that goes back now (GROUP-28), or is taken for such (GROUP-68).
    """
    if is_aligned(s, t):
        goes = goes_back(s, t, i, left_behind(s, t))
        last = goes_back_at_last(s, t, i, settled_at_end(s, t))
        return both(in_table(s, t, i), either(goes, last))
    return both(in_table(s, t, i), i < left_behind(s, t))


def holds_left_behind(s: State, t: Value) -> Value:
    """Whether it holds such a block."""
    return s.k.exists("I", lambda i: is_left_behind(s, t, i), by=("outlived", t))


def last_left_behind(s: State, t: Value) -> Value:
    """The last place of one."""
    return s.k.first("I", lambda i: is_left_behind(s, t, i), lambda i: -i, by=("outlived", t))
