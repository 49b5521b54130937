"""What holds between any two rules, in the normative profile. One text; the environment `s.k` supplies quantifiers and cardinalities.

Each invariant is a function of the state with an ID; its docstring is the sentence, and `Upstream:` names defects of real
engines that break it (the numbers are vLLM issues and pull requests).
"""

from collections.abc import Callable

from nullblock.spec.catalogue import register
from nullblock.spec.kernel import State, Value, both, either, implies, ite, neg
from nullblock.spec.state import (
    ADVANCE,
    BACK,
    CHUNK,
    DECIDED,
    IDLE,
    LEAVING,
    PREEMPTED,
    RESETTING,
    RUN_PHASE,
    RUNNING,
    TOKEN,
    UNBORN,
    UPDATE,
    WAIT_PHASE,
    WAITING,
    in_queue,
    is_head,
    is_waiting,
    kept,
    longest,
    servable,
    start,
)

Invariant = Callable[[State], Value]
INVARIANTS: dict[str, Invariant] = {}


def invariant(id: str) -> Callable[[Invariant], Invariant]:
    """Register an invariant under `id`."""

    def enter(f: Invariant) -> Invariant:
        register(id, "invariant", f)
        INVARIANTS[id] = f
        return f

    return enter


def invariants(s: State) -> dict[str, Value]:
    """Every invariant's value in s."""
    return {id: f(s) for id, f in INVARIANTS.items()}


def _within(lo: Value, i: Value, hi: Value) -> Value:
    return both(lo <= i, i < hi)


# -- the pool ----------------------------------------------------------------------------------------------------------
@invariant("POOL-1")
def no_negative_reference(s: State) -> Value:
    """No reference count is below zero. Upstream: 37076, double frees of the zoo's B101 kind."""
    return s.k.forall("B", lambda b: s.ref[b] >= 0)


@invariant("POOL-2")
def reference_counts_holders(s: State) -> Value:
    """A block's reference count is the number of requests that hold it. Upstream: hit without reference."""
    return s.k.forall("B", lambda b: s.ref[b] == s.k.card(s.own[b]))


@invariant("POOL-3")
def free_iff_unreferenced(s: State) -> Value:
    """A block stands in the free queue if and only if its reference count is zero. Upstream: B23, B30."""
    return s.k.forall("B", lambda b: in_queue(s, b) == (s.ref[b] == 0))


@invariant("QUEUE-1")
def stamps_in_range(s: State) -> Value:
    """A place in the free queue lies between its front and its back."""
    return both(
        s.back > 0,
        s.front < 0,
        s.k.forall("B", lambda b: both(s.front < s.stamp[b], s.stamp[b] < s.back)),
    )


@invariant("QUEUE-2")
def stamps_distinct(s: State) -> Value:
    """No two blocks stand at one place in the free queue, and so none stands there twice. Upstream: B107."""
    return s.k.forall(
        "BB", lambda b, c: implies(both(in_queue(s, b), s.stamp[b] == s.stamp[c]), b == c)
    )


@invariant("QUEUE-4")
def free_count(s: State) -> Value:
    """The count of free blocks is the length of the free queue. Upstream: B15, B25."""
    return s.nfree == s.k.card(s.freeset)


@invariant("QUEUE-5")
def free_set(s: State) -> Value:
    """The free set is the free queue."""
    return s.k.forall("B", lambda b: s.k.mem(s.freeset, b) == in_queue(s, b))


# -- hashes --------------------------------------------------------------------------------------------------------------
@invariant("HASH-2")
def insertion_stamps(s: State) -> Value:
    """A block has an insertion stamp if and only if it has a chain hash, and stamps are in the past."""
    return both(
        s.hclock > 0,
        s.k.forall(
            "B",
            lambda b: ite(
                s.hsh[b] == s.k.NOHASH,
                s.hstamp[b] == 0,
                both(s.k.valid(s.hsh[b]), s.hstamp[b] > 0, s.hstamp[b] < s.hclock),
            ),
        ),
    )


@invariant("HASH-3")
def insertion_stamps_distinct(s: State) -> Value:
    """No two blocks were cached at once, so that the first of several with one hash is well defined."""
    return s.k.forall(
        "BB", lambda b, c: implies(both(s.hstamp[b] > 0, s.hstamp[b] == s.hstamp[c]), b == c)
    )


@invariant("HASH-4")
def parent_outlives_free_child(s: State) -> Value:
    """A cached block in the free queue has its parent's hash cached, in use or later in the queue, so a miss at a block implies misses at every later one.

    Holds unless hashes were evicted from outside. Upstream: forward frees; the seed's lazy-eviction timeline.
    """
    return either(
        s.evicted == 1,
        s.k.forall(
            "B",
            lambda b: implies(
                both(s.ref[b] == 0, s.hsh[b] != s.k.NOHASH, s.k.par(s.hsh[b]) != s.k.ROOT),
                both(
                    s.hsh[s.pw[b]] == s.k.par(s.hsh[b]),
                    either(s.ref[s.pw[b]] > 0, s.stamp[s.pw[b]] > s.stamp[b]),
                ),
            ),
        ),
    )


@invariant("HASH-5")
def hashed_is_promised(s: State) -> Value:
    """A request's cached blocks are computed, in flight, or promised by the open step. Upstream: 43569, B11."""
    return s.k.forall(
        "R", lambda r: implies(s.stage[r] != LEAVING, s.ncached[r] <= s.k.full(kept(s, r)))
    )


@invariant("HASH-6")
def free_hash_is_computed(s: State) -> Value:
    """A free block that can be hit holds content that was computed: publish after write. Upstream: 43569, B11, B13."""
    return s.k.forall(
        "B", lambda b: implies(both(s.ref[b] == 0, s.hsh[b] != s.k.NOHASH), s.done[b] == 1)
    )


@invariant("HASH-17")
def free_child_has_computed_parent(s: State) -> Value:
    """The parent of a cached block in the free queue is computed for everybody who holds it."""
    return either(
        s.evicted == 1,
        s.k.forall(
            "RB",
            lambda r, b: implies(
                both(s.ref[b] == 0, s.hsh[b] != s.k.NOHASH, s.k.par(s.hsh[b]) != s.k.ROOT),
                s.pos[r, s.pw[b]] < s.k.full(s.comp[r]),
            ),
        ),
    )


# -- tables --------------------------------------------------------------------------------------------------------------
@invariant("TABLE-1")
def table_lengths(s: State) -> Value:
    """A table has no fewer blocks than are cached of it. Upstream: B33."""
    return s.k.forall("R", lambda r: both(s.ncached[r] >= 0, s.ncached[r] <= s.tlen[r]))


@invariant("TABLE-2")
def position_inverts_table(s: State) -> Value:
    """No block stands twice in one table. Upstream: B14."""
    return s.k.forall(
        "RI", lambda r, i: implies(_within(0, i, s.tlen[r]), s.pos[r, s.tab[r, i]] == i)
    )


@invariant("TABLE-3")
def table_inverts_position(s: State) -> Value:
    """A block with a position in a table stands there."""
    return s.k.forall(
        "RB",
        lambda r, b: implies(s.pos[r, b] >= 0, both(s.pos[r, b] < s.tlen[r], s.tab[r, s.pos[r, b]] == b)),
    )


@invariant("TABLE-4")
def owners_hold(s: State) -> Value:
    """The owners of a block are the requests in whose tables it stands."""
    return s.k.forall("RB", lambda r, b: s.k.mem(s.own[b], r) == (s.pos[r, b] >= 0))


@invariant("TABLE-5")
def cached_prefix_carries_hashes(s: State) -> Value:
    """The cached blocks of a table carry the request's chain hashes, in order, and the others none. Upstream: 49377, B58, B87."""
    return s.k.forall(
        "RB",
        lambda r, b: implies(
            s.pos[r, b] >= 0,
            ite(
                s.pos[r, b] < s.ncached[r],
                either(s.hsh[b] == s.k.want(r, s.pos[r, b]), both(s.evicted == 1, s.hsh[b] == s.k.NOHASH)),
                s.hsh[b] == s.k.NOHASH,
            ),
        ),
    )


@invariant("TABLE-6")
def unhashed_is_exclusive(s: State) -> Value:
    """A block that may still be written has one holder. Upstream: B26, B105."""
    return s.k.forall(
        "RRB",
        lambda r, q, b: implies(
            both(s.pos[r, b] >= s.ncached[r], s.pos[r, b] >= 0, s.pos[q, b] >= 0), r == q
        ),
    )


@invariant("TABLE-7")
def holders_run(s: State) -> Value:
    """Only running requests hold blocks, and those on their way in or out. Upstream: B79, B101."""
    return s.k.forall(
        "R",
        lambda r: implies(
            s.tlen[r] > 0, either(s.stage[r] >= RUNNING, both(s.looking == 2, r == s.lr))
        ),
    )


@invariant("TABLE-8")
def running_has_room(s: State) -> Value:
    """A running request has a slot for every token that is computed or scheduled. Upstream: B19, B65."""
    return s.k.forall(
        "R",
        lambda r: implies(
            s.stage[r] == RUNNING, s.k.blocks(s.comp[r] + s.sched[r]) <= s.tlen[r]
        ),
    )


@invariant("TABLE-9")
def uncomputed_is_exclusive(s: State) -> Value:
    """Outside the waiting phase a block whose content is still to be computed has one holder, hashed or not. Upstream: B12, B82."""
    return either(
        s.phase == WAIT_PHASE,
        s.phase == DECIDED,
        s.phase == ADVANCE,
        s.k.forall(
            "RRB",
            lambda r, q, b: implies(
                both(s.pos[r, b] >= s.k.full(s.comp[r]), s.pos[r, b] >= 0, s.pos[q, b] >= 0), r == q
            ),
        ),
    )


# -- lookup ----------------------------------------------------------------------------------------------------------------
@invariant("HASH-7")
def lookup_counters(s: State) -> Value:
    """A lookup counts its hits, those adopted, and those still in the free queue."""
    return both(
        0 <= s.looking,
        s.looking <= 2,
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
            _within(s.na, i, s.nhit),
            both(
                s.hsh[s.hit[i]] == s.k.want(s.lr, i),
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
    """The request looked up is the one the waiting queue is served for, and holds just the hits it has adopted."""
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
            s.comp[r] == s.k.tokens(s.na),
            s.na <= s.tlen[r],
            s.nhit <= s.k.full(s.ntok[r] - 1),
            implies(either(s.asked == 0, s.na < s.nhit), both(s.tlen[r] == s.na, s.ncached[r] == s.na)),
            implies(s.asked == 0, s.na == 0),
        ),
    )


@invariant("ALLOC-3")
def asking_is_bounded(s: State) -> Value:
    """Whoever asks asks for at least one token and no more than the budget, up to a goal within its tokens. Upstream: B61."""
    r = s.actor
    return implies(
        s.asked != 0,
        both(
            1 <= s.asked,
            s.asked <= s.budget,
            s.goal == start(s, r) + s.asked,
            s.goal <= s.ntok[r],
            s.goal < s.k.max_len,
            s.sched[r] == 0,
            either(
                both(
                    s.phase == RUN_PHASE,
                    s.halted == 0,
                    s.looking == 0,
                    _within(0, s.at, s.nr),
                    s.run[s.at] == r,
                    s.stage[r] == RUNNING,
                ),
                both(s.looking == 2, r == s.lr),
            ),
        ),
    )


# -- queues ------------------------------------------------------------------------------------------------------------------
@invariant("RUN-8")
def running_bound(s: State) -> Value:
    """No more requests run than max_num_seqs."""
    return both(s.nr >= 0, s.nr <= s.k.max_seqs)


@invariant("RUN-9")
def running_list_runs(s: State) -> Value:
    """Every request in the running list is in the running stage. Upstream: B43, B57."""
    return s.k.forall("I", lambda i: implies(_within(0, i, s.nr), s.stage[s.run[i]] == RUNNING))


@invariant("RUN-10")
def running_list_distinct(s: State) -> Value:
    """No request stands twice in the running list."""
    return s.k.forall(
        "II",
        lambda i, j: implies(
            both(_within(0, i, s.nr), _within(0, j, s.nr), s.run[i] == s.run[j]), i == j
        ),
    )


@invariant("RUN-19")
def running_is_listed(s: State) -> Value:
    """Every running request stands in the running list."""
    return s.k.forall(
        "R",
        lambda r: implies(
            s.stage[r] == RUNNING, both(_within(0, s.ix[r], s.nr), s.run[s.ix[r]] == r)
        ),
    )


@invariant("WAIT-12")
def queued_waits(s: State) -> Value:
    """A request stands in the waiting queue if and only if it waits, new or preempted. Upstream: B48, B57."""
    return s.k.forall(
        "R",
        lambda r: is_waiting(s, r) == either(s.stage[r] == WAITING, s.stage[r] == PREEMPTED),
    )


@invariant("WAIT-13")
def queue_places(s: State) -> Value:
    """Places in the waiting queue are distinct and lie between its front and its back."""
    return both(
        s.lo < 0,
        s.hi > 0,
        s.k.forall("R", lambda r: both(s.lo < s.rank[r], s.rank[r] < s.hi)),
        s.k.forall(
            "RR", lambda r, q: implies(both(is_waiting(s, r), s.rank[r] == s.rank[q]), r == q)
        ),
    )


@invariant("WAIT-14")
def queue_length(s: State) -> Value:
    """The length of the waiting queue counts its members."""
    return both(
        s.nwait == s.k.card(s.waitset),
        s.k.forall("R", lambda r: s.k.mem(s.waitset, r) == is_waiting(s, r)),
    )


@invariant("LIFE-12")
def stages(s: State) -> Value:
    """A request is in one stage, arrived in the past, and at most one is on its way out."""
    return both(
        s.aclk > 0,
        s.k.forall(
            "R",
            lambda r: both(
                s.stage[r] >= UNBORN,
                s.stage[r] <= LEAVING,
                s.arr[r] < s.aclk,
                (s.stage[r] == LEAVING) == both(s.leaving != 0, r == s.leaver),
            ),
        ),
    )


@invariant("WAIT-15")
def arrival_order(s: State) -> Value:
    """Under FCFS running and waiting requests stay in arrival order, running ones first. Upstream: 33522, B46, B47."""
    if s.k.priority:
        return True
    return both(
        s.k.forall(
            "II",
            lambda i, j: implies(
                both(_within(0, i, s.nr), _within(0, j, s.nr), i < j), s.arr[s.run[i]] < s.arr[s.run[j]]
            ),
        ),
        s.k.forall(
            "RR",
            lambda r, q: implies(
                both(is_waiting(s, r), is_waiting(s, q), s.rank[r] < s.rank[q]), s.arr[r] < s.arr[q]
            ),
        ),
        s.k.forall(
            "IR",
            lambda i, q: implies(both(_within(0, i, s.nr), is_waiting(s, q)), s.arr[s.run[i]] < s.arr[q]),
        ),
    )


@invariant("PREEMPT-5")
def leaver_in_order(s: State) -> Value:
    """Under FCFS a request on its way back to the queue arrived after all that run and before all that wait."""
    if s.k.priority:
        return True
    return implies(
        s.leaving == BACK,
        both(
            s.k.forall("I", lambda i: implies(_within(0, i, s.nr), s.arr[s.run[i]] < s.arr[s.leaver])),
            s.k.forall("R", lambda q: implies(is_waiting(s, q), s.arr[s.leaver] < s.arr[q])),
        ),
    )


@invariant("LIFE-13")
def live_is_servable(s: State) -> Value:
    """Every request that waits or runs can be served to its limit. Upstream: 39734, 35541, B50, B59; self-preemption for ever."""
    return s.k.forall(
        "R",
        lambda r: implies(s.stage[r] != UNBORN, both(servable(s, r), 1 <= s.ntok[r])),
    )


@invariant("LIFE-14")
def length_in_bounds(s: State) -> Value:
    """A request that goes on has fewer tokens than its limits allow. Upstream: 51299."""
    return s.k.forall(
        "R",
        lambda r: implies(
            both(
                s.stage[r] != UNBORN,
                either(s.stage[r] != LEAVING, s.leaving == BACK),
                neg(both(s.open == 1, r == s.taker)),
            ),
            s.ntok[r] <= longest(s, r),
        ),
    )


# -- the step ----------------------------------------------------------------------------------------------------------------
@invariant("RUN-11")
def budget_accounts(s: State) -> Value:
    """What is granted and what is left make up the step's budget, and what is left is never negative. Upstream: B61."""
    return both(
        s.budget >= 0,
        s.limit >= 0,
        s.limit <= s.k.budget,
        implies(either(s.phase == RUN_PHASE, s.phase == WAIT_PHASE), s.used + s.budget == s.limit),
    )


@invariant("PREEMPT-6")
def no_admission_after_preemption(s: State) -> Value:
    """No request is admitted from the waiting queue in a step that preempted. Upstream: thrashing, B54."""
    return both(
        s.turned >= 0,
        s.adm >= 0,
        either(s.turned == 0, s.adm == 0),
        implies(s.phase == RUN_PHASE, s.adm == 0),
    )


@invariant("RUN-12")
def step_in_range(s: State) -> Value:
    """The phase, the index and the flags of a step are in range."""
    return both(
        0 <= s.phase,
        s.phase <= 6,
        _within(0, s.halted, 2),
        _within(0, s.blocked, 2),
        _within(0, s.evicted, 2),
        _within(0, s.leaving, 3),
        implies(s.phase == RUN_PHASE, both(0 <= s.at, s.at <= s.nr)),
        implies(s.asked != 0, either(s.phase == RUN_PHASE, s.phase == WAIT_PHASE)),
        implies(
            s.leaving != 0,
            either(s.phase == IDLE, s.phase == RUN_PHASE, s.phase == UPDATE, s.phase == RESETTING),
        ),
        implies(s.open != 0, both(s.open == 1, s.phase == UPDATE, s.leaving == 0)),
    )


@invariant("RUN-13")
def unvisited_is_unscheduled(s: State) -> Value:
    """A running request that the index has not reached is not scheduled, and has work to do."""
    return s.k.forall(
        "I",
        lambda i: implies(
            both(_within(0, i, s.nr), s.phase == RUN_PHASE, s.at <= i),
            both(s.sched[s.run[i]] == 0, s.comp[s.run[i]] < s.ntok[s.run[i]]),
        ),
    )


@invariant("RUN-14")
def only_running_is_scheduled(s: State) -> Value:
    """Only running requests are scheduled, each for at least one token if at all, and never once preempted. Upstream: B43, 23347."""
    return s.k.forall(
        "R", lambda r: both(s.sched[r] >= 0, implies(s.stage[r] != RUNNING, s.sched[r] == 0))
    )


@invariant("RUN-15")
def nothing_scheduled_between_steps(s: State) -> Value:
    """Outside a step, and once it is advanced, nothing is scheduled."""
    return s.k.forall(
        "R",
        lambda r: implies(
            either(s.phase == IDLE, s.phase >= UPDATE, both(s.phase == ADVANCE, s.ix[r] < s.at)),
            s.sched[r] == 0,
        ),
    )


@invariant("RUN-16")
def computed_in_bounds(s: State) -> Value:
    """No more is computed than there are tokens. Upstream: B22, B65, B75."""
    return s.k.forall("R", lambda r: both(s.comp[r] >= 0, s.comp[r] + s.sched[r] <= s.ntok[r]))


@invariant("RUN-17")
def computed_goes_with_blocks(s: State) -> Value:
    """Only running requests have computed tokens, and those on their way in or out: what is computed is lost with its blocks."""
    return s.k.forall(
        "R",
        lambda r: implies(
            s.stage[r] < RUNNING, either(s.comp[r] == 0, both(s.looking > 0, r == s.lr))
        ),
    )


@invariant("RUN-18")
def running_has_work(s: State) -> Value:
    """A running request has a token to compute, or owes one that is in flight: it can go on. Upstream: 51299, prompts of max_model_len."""
    return s.k.forall(
        "R",
        lambda r: implies(
            s.stage[r] == RUNNING,
            either(
                s.comp[r] + s.sched[r] < s.ntok[r] + ite(s.due[r] == TOKEN, 1, 0),
                both(s.sched[r] > 0, s.comp[r] + s.sched[r] == s.ntok[r]),
            ),
        ),
    )


@invariant("UPD-11")
def frame_in_range(s: State) -> Value:
    """At most one step is in flight, and an update settles its requests one by one."""
    return both(
        _within(0, s.flying, 2),
        0 <= s.cur,
        s.cur <= s.nframe,
        implies(s.phase == UPDATE, s.flying == 1),
        implies(both(RUN_PHASE <= s.phase, s.phase <= ADVANCE), s.flying == 0),
        implies(s.phase != UPDATE, s.cur == 0),
        s.k.forall("I", lambda i: implies(_within(0, i, s.nframe), s.grant[s.frame[i]] > 0)),
    )


@invariant("UPD-12")
def debts_in_flight(s: State) -> Value:
    """A request owes an output only while it is live and a step is in flight, and then for tokens it was granted. Upstream: id reuse; B70."""
    return s.k.forall(
        "R",
        lambda r: both(
            _within(0, s.due[r], 3),
            implies(
                s.due[r] != 0,
                both(
                    either(s.flying == 1, s.phase == ADVANCE),
                    s.stage[r] != UNBORN,
                    s.grant[r] > 0,
                    s.cur <= s.fx[r],
                    s.fx[r] < s.nframe,
                    s.frame[s.fx[r]] == r,
                ),
            ),
            implies(s.due[r] == CHUNK, either(s.stage[r] != RUNNING, s.comp[r] < s.ntok[r])),
        ),
    )


@invariant("OUT-7")
def worker_mirror(s: State) -> Value:
    """The worker knows a prefix of every running request's table and nothing of the others. Upstream: I13, B66, B75."""
    return s.k.forall(
        "R",
        lambda r: both(
            s.told[r] >= 0,
            implies(s.stage[r] < RUNNING, s.told[r] == 0),
            implies(s.stage[r] == RUNNING, s.told[r] <= s.tlen[r]),
        ),
    )
