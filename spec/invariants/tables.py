"""Block tables, and the lookup that fills them."""

from nullblock.spec.drafts import computable, tokens_ahead
from nullblock.spec.fields import (
    ADVANCE,
    DECIDED,
    LEAVING,
    PREEMPTED,
    RUN_PHASE,
    RUNNING,
    WAIT_PHASE,
    WAITING,
)
from nullblock.spec.groups import in_table, is_pending
from nullblock.spec.hybrid import (
    adopted,
    computed_blocks,
    covered,
    has_blocks,
    has_cached,
    of_all,
    scannable,
    wanted,
)
from nullblock.spec.invariants.ledger import invariant, within
from nullblock.spec.kernel import State, Value, both, either, implies, ite, neg
from nullblock.spec.loaded import was_loaded_whole
from nullblock.spec.remote import computes_no_more, keeps_what_it_has, loads_later, was_loaded
from nullblock.spec.sessions import chain, continues, may_hold
from nullblock.spec.sizes import is_hashless
from nullblock.spec.state import is_head, start


@invariant("TABLE-1")
def table_lengths(s: State) -> Value:
    """A table has no fewer blocks than are cached of it. Upstream: 46281."""
    return s.k.forall("T", lambda t: both(s.ncached[t] >= 0, s.ncached[t] <= s.tlen[t]))


@invariant("TABLE-2")
def position_inverts_table(s: State) -> Value:
    """No block stands twice in one table. Upstream: 44409."""
    return s.k.forall("TI", lambda t, i: implies(in_table(s, t, i), s.pos[t, s.tab[t, i]] == i))


@invariant("TABLE-3")
def table_inverts_position(s: State) -> Value:
    """A block with a position in a table stands there."""
    return s.k.forall(
        "TB",
        lambda t, b: implies(
            s.pos[t, b] >= 0, both(s.pos[t, b] < s.tlen[t], s.tab[t, s.pos[t, b]] == b)
        ),
    )


@invariant("TABLE-4")
def owners_hold(s: State) -> Value:
    """The owners of a block are the tables in which it stands."""
    return s.k.forall("TB", lambda t, b: s.k.mem(s.own[b], t) == (s.pos[t, b] >= 0))


@invariant("TABLE-5")
def cached_prefix_carries_hashes(s: State) -> Value:
    """The cached blocks of a table carry the request's chain hashes, in order, and the others
    none. Upstream: 49377, 53498.
    """
    return s.k.forall(
        "TB",
        lambda t, b: implies(
            s.pos[t, b] >= 0,
            ite(
                neg(is_hashless(s, t, s.pos[t, b])),
                either(
                    s.hsh[b] == chain(s, t, s.pos[t, b]),
                    both(s.evicted == 1, s.hsh[b] == s.k.NOHASH),
                ),
                s.hsh[b] == s.k.NOHASH,
            ),
        ),
    )


@invariant("TABLE-6")
def unhashed_is_exclusive(s: State) -> Value:
    """A block that may still be written has one holder. Upstream: TensorRT-LLM#8830."""
    return s.k.forall(
        "TTB",
        lambda t, u, b: implies(
            both(
                s.pos[t, b] >= s.ncached[t],
                s.pos[t, b] >= 0,
                s.pos[u, b] >= 0,
                neg(computes_no_more(s, s.k.owner(t))),
            ),
            t == u,
        ),
    )


@invariant("TABLE-7")
def holders_run(s: State) -> Value:
    """Only running requests hold blocks, those on their way in or out, that are loaded or kept,
    and sessions that wait. Upstream: 46283.
    """
    return s.k.forall(
        "T",
        lambda t: implies(
            s.tlen[t] > 0,
            either(
                s.stage[s.k.owner(t)] >= RUNNING,
                both(s.looking == 2, s.k.owner(t) == s.lr),
                may_hold(s, s.k.owner(t)),
                was_loaded(s, s.k.owner(t)),
                was_loaded_whole(s, s.k.owner(t)),
            ),
        ),
    )


@invariant("TABLE-8")
def running_has_room(s: State) -> Value:
    """A running request has a slot for every token that is computed or scheduled. Upstream:
    45856, nano-vllm#233.
    """
    return s.k.forall(
        "R",
        lambda r: implies(s.stage[r] == RUNNING, has_blocks(s, r, s.comp[r] + s.sched[r])),
    )


def is_uncomputed(s: State, t: Value, b: Value) -> Value:
    """Whether block b stands in table t with content that is still to be computed."""
    lies = both(s.pos[t, b] >= 0, s.pos[t, b] >= computed_blocks(s, t))
    return both(lies, neg(computes_no_more(s, s.k.owner(t))))


@invariant("TABLE-9")
def uncomputed_is_exclusive(s: State) -> Value:
    """Outside the waiting phase a block whose content is still to be computed has one holder,
    hashed or not. Upstream: 29387, 49250.
    """
    return either(
        s.phase == WAIT_PHASE,
        s.phase == DECIDED,
        s.phase == ADVANCE,
        s.k.forall(
            "TTB",
            lambda t, u, b: implies(
                both(is_uncomputed(s, t, b), s.pos[u, b] >= 0),
                t == u,
            ),
        ),
    )


@invariant("TABLE-12")
def one_writer(s: State) -> Value:
    """Of those who hold a block and are not leaving, at most one has still to compute it: no two
    write one slot.
    """

    def to_compute(t: Value, b: Value) -> Value:
        return both(is_uncomputed(s, t, b), s.stage[s.k.owner(t)] != LEAVING)

    return s.k.forall(
        "TTB", lambda t, u, b: implies(both(to_compute(t, b), to_compute(u, b)), t == u)
    )


@invariant("HASH-22")
def full_blocks_are_cached(s: State) -> Value:
    """With prefix caching, every full block of a running request whose tokens are computed, or
    scheduled, and known is cached. Upstream: 11186.

    In step the drafts that were taken are cached when the request is scheduled next.
    """
    return implies(
        both(s.k.caching, either(s.k.asynchronous, s.k.num_spec == 0)),
        s.k.forall(
            "R",
            lambda r: implies(
                both(
                    s.stage[r] == RUNNING,
                    neg(both(s.k.asynchronous, s.open != 0, r == s.taker, s.old[r] == 0)),
                ),
                has_cached(
                    s,
                    r,
                    s.comp[r]
                    + s.sched[r]
                    - s.drafted[r]
                    - ite(s.old[r] > 0, 0, tokens_ahead(s, r)),
                ),
            ),
        ),
    )


@invariant("HASH-7")
def lookup_counters(s: State) -> Value:
    """A lookup counts its hits, those adopted, and those still in the free queue."""
    return both(
        0 <= s.looking,
        s.looking <= (3 if s.k.in_turn else 2),
        0 <= s.na,
        s.na <= s.nhit,
        s.nevict == s.k.card(s.evset),
        implies(s.looking == 0, both(s.nhit == 0, s.nevict == 0)),
        implies(s.looking == 1, s.na == 0),
    )


@invariant("HASH-8")
def pending_hits_match(s: State) -> Value:
    """A pending hit carries the wanted hash; if it is free it is counted as such."""
    return s.k.forall(
        "I",
        lambda i: implies(
            is_pending(s, i),
            both(
                s.hsh[s.hit[i]] == wanted(s, s.lr, i),
                implies(s.ref[s.hit[i]] == 0, s.k.mem(s.evset, s.hit[i])),
            ),
        ),
    )


@invariant("HASH-9")
def counted_hits_are_scanned(s: State) -> Value:
    """Every hit counted as free lies on the prefix scanned so far."""
    return implies(
        s.looking == 1,
        s.k.forall("B", lambda b: implies(s.k.mem(s.evset, b), s.k.depth(s.hsh[b]) <= s.nhit)),
    )


@invariant("ALLOC-2")
def looked_up_is_head(s: State) -> Value:
    """The request looked up is the one the waiting queue is served for, and holds just the hits
    it has adopted, or what was loaded.
    """
    r = s.lr
    return implies(
        s.looking > 0,
        both(
            s.phase == WAIT_PHASE,
            is_head(s, r),
            either(s.stage[r] == WAITING, s.stage[r] == PREEMPTED),
            s.turned == 0,
            s.blocked == 0,
            s.budget > 0,
            s.nr < s.k.max_seqs,
            either(
                s.comp[r] == covered(s),
                continues(s, r),
                keeps_what_it_has(s, r),
            ),
            of_all(s, r, lambda t: adopted(s, t) <= s.tlen[t]),
            s.nhit <= scannable(s, r),
            implies(
                both(either(s.asked == 0, s.na < s.nhit), neg(continues(s, r))),
                of_all(
                    s,
                    r,
                    lambda t: either(
                        both(s.tlen[t] == adopted(s, t), s.ncached[t] == adopted(s, t)),
                        keeps_what_it_has(s, r),
                        was_loaded_whole(s, r),
                    ),
                ),
            ),
            implies(s.asked == 0, s.na == 0),
        ),
    )


@invariant("ALLOC-3")
def asking_is_bounded(s: State) -> Value:
    """Whoever asks asks for at least one token and no more than the budget, up to a goal within
    its tokens. Upstream: TensorRT-LLM#12665.
    """
    r = s.actor
    return implies(
        s.asked != 0,
        both(
            1 <= s.asked,
            either(s.asked <= s.budget, loads_later(s, r)),
            s.goal == start(s, r) + s.asked,
            s.goal <= computable(s, r) + s.spec[r],
            s.goal < s.k.max_len,
            s.sched[r] == 0,
            either(
                both(
                    s.phase == RUN_PHASE,
                    s.halted == 0,
                    s.looking == 0,
                    within(0, s.at, s.nr),
                    s.run[s.at] == r,
                    s.stage[r] == RUNNING,
                ),
                both(s.looking == 2, r == s.lr),
            ),
        ),
    )
