"""The block pool: references, the free queue, hashes."""

from nullblock.spec.fields import LEAVING
from nullblock.spec.invariants.ledger import invariant
from nullblock.spec.kernel import State, Value, both, either, implies, ite, neg
from nullblock.spec.remote import computes_no_more
from nullblock.spec.sizes import full_of
from nullblock.spec.state import in_queue, kept


@invariant("POOL-1")
def no_negative_reference(s: State) -> Value:
    """No reference count is below zero. Upstream: 37076; double frees."""
    return s.k.forall("B", lambda b: s.ref[b] >= 0)


@invariant("POOL-2")
def reference_counts_holders(s: State) -> Value:
    """A block's reference count is the number of tables that hold it. Upstream: hit without
    reference.
    """
    return s.k.forall("B", lambda b: s.ref[b] == s.k.card(s.own[b]))


@invariant("POOL-3")
def free_iff_unreferenced(s: State) -> Value:
    """A block stands in the free queue if and only if its reference count is zero. Upstream:
    ROCm/ATOM#902, 37076.
    """
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
    """No two blocks stand at one place in the free queue, and so none stands there twice.
    Upstream: double frees.
    """
    return s.k.forall(
        "BB", lambda b, c: implies(both(in_queue(s, b), s.stamp[b] == s.stamp[c]), b == c)
    )


@invariant("QUEUE-4")
def free_count(s: State) -> Value:
    """The count of free blocks is the length of the free queue. Upstream: vllm-ascend#14283,
    TensorRT-LLM#12834.
    """
    return s.nfree == s.k.card(s.freeset)


@invariant("QUEUE-5")
def free_set(s: State) -> Value:
    """The free set is the free queue."""
    return s.k.forall("B", lambda b: s.k.mem(s.freeset, b) == in_queue(s, b))


@invariant("HASH-2")
def insertion_stamps(s: State) -> Value:
    """A block has an insertion stamp if and only if it has a chain hash, and stamps are in the
    past.
    """
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
    """No two blocks were cached at once, so that the first of several with one hash is well
    defined.
    """
    return s.k.forall(
        "BB", lambda b, c: implies(both(s.hstamp[b] > 0, s.hstamp[b] == s.hstamp[c]), b == c)
    )


@invariant("HASH-4")
def parent_outlives_free_child(s: State) -> Value:
    """A cached block in the free queue has its parent's hash cached, in use or later in the queue,
    so that no block is evicted before those that follow it.

    Holds unless hashes were evicted from outside, and for layers that see all of the past.
    Upstream: forward frees; the seed's lazy-eviction timeline.
    """
    return either(
        s.evicted == 1,
        s.k.windowed,
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
    """A request's cached blocks are computed, in flight, or promised by the open step.
    Upstream: 43569.
    """
    return s.k.forall(
        "T",
        lambda t: implies(
            neg(either(s.stage[s.k.owner(t)] == LEAVING, computes_no_more(s, s.k.owner(t)))),
            s.ncached[t] <= full_of(s, t, kept(s, s.k.owner(t))),
        ),
    )


@invariant("HASH-6")
def free_hash_is_computed(s: State) -> Value:
    """A free block that can be hit holds content that was computed: publish after write.
    Upstream: 43569, 57580.
    """
    return s.k.forall(
        "B", lambda b: implies(both(s.ref[b] == 0, s.hsh[b] != s.k.NOHASH), s.done[b] == 1)
    )


@invariant("HASH-17")
def free_child_has_computed_parent(s: State) -> Value:
    """The parent of a cached block in the free queue is computed for everybody who holds it."""
    return either(
        s.evicted == 1,
        s.k.windowed,
        s.k.forall(
            "TB",
            lambda t, b: implies(
                both(s.ref[b] == 0, s.hsh[b] != s.k.NOHASH, s.k.par(s.hsh[b]) != s.k.ROOT),
                s.pos[t, s.pw[b]] < full_of(s, t, s.comp[s.k.owner(t)]),
            ),
        ),
    )


@invariant("HASH-21")
def cached_is_known(s: State) -> Value:
    """The tokens of a request's cached blocks are known: none is cached for a token in flight."""
    return s.k.forall("T", lambda t: s.ncached[t] <= full_of(s, t, s.ntok[s.k.owner(t)]))
