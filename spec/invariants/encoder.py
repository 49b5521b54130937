"""Encoder inputs: the cache's books, what a step computes, what it needs."""

from nullblock.spec.encoder import embeds_between, refers
from nullblock.spec.fields import DECIDED, IDLE, RUN_PHASE, RUNNING, WAIT_PHASE
from nullblock.spec.invariants.ledger import invariant, within
from nullblock.spec.kernel import State, Value, both, either, implies, ite, neg
from nullblock.spec.sessions import holds_while_waiting


def _nobody(s: State, n: Value) -> Value:
    return s.k.card(s.users[n]) == 0


@invariant("ENC-20")
def referred_is_kept(s: State) -> Value:
    """Whatever is referred to is in the cache.

    Upstream: 38551.
    """
    if not s.k.encodes:
        return True
    return s.k.forall("I", lambda n: both(s.kept[n] >= 0, implies(s.kept[n] == 0, _nobody(s, n))))


@invariant("ENC-21")
def kept_for_somebody_or_evictable(s: State) -> Value:
    """Each item in the cache is referred to by somebody, or stands among those that may be
    evicted, at a place of its own; nothing else stands there.
    """
    if not s.k.encodes:
        return True
    return both(
        s.k.forall(
            "I",
            lambda n: both(
                within(0, s.unused[n], s.uback),
                (s.unused[n] != 0) == both(s.kept[n] != 0, _nobody(s, n)),
            ),
        ),
        s.k.forall(
            "II", lambda n, m: implies(both(s.unused[n] != 0, s.unused[n] == s.unused[m]), n == m)
        ),
    )


@invariant("ENC-22")
def slots_add_up(s: State) -> Value:
    """What is kept and what is free are the whole cache; what is free once everything unused is
    evicted is counted as well.
    """
    if not s.k.keeps_embeddings:
        return True
    kept = s.k.sum_over("I", lambda n: s.kept[n])
    unused = s.k.sum_over("I", lambda n: ite(s.unused[n] != 0, s.kept[n], 0))
    return both(s.eroom >= 0, s.eroom + kept == s.k.encoder_slots, s.efree == s.eroom + unused)


def _has_item(s: State, r: Value, n: Value) -> Value:
    """Whether n is an item of r."""
    return neg(s.k.forall("I", lambda i: s.k.item(r, i) != n, span=lambda: (0, s.k.num_items(r))))


def _has_begun_beyond(s: State, r: Value, n: Value) -> Value:
    """Whether n is one that r has begun, and that ends beyond its first prompt."""

    def stays(i: Value) -> Value:
        begun = s.k.item_start(r, i) < s.comp[r]
        return both(s.k.item(r, i) == n, begun, s.k.prompt_len(r) < s.k.item_end(r, i))

    return neg(s.k.forall("I", lambda i: neg(stays(i)), span=lambda: (0, s.k.num_items(r))))


@invariant("ENC-30")
def who_refers_runs(s: State) -> Value:
    """Only requests that run, leave, or are about to be admitted refer to embeddings, and only to
    those of their own items; a session that waits with its blocks only to those of items that it
    has begun, and that end beyond its first prompt.
    """
    if not s.k.encodes:
        return True

    return s.k.forall(
        "RI",
        lambda r, n: implies(
            s.k.mem(s.users[n], r),
            either(
                both(
                    _has_item(s, r, n),
                    either(
                        s.stage[r] == RUNNING,
                        both(s.leaving != 0, s.leaver == r),
                        both(s.planning != 0, s.planner == r),
                    ),
                ),
                both(holds_while_waiting(s, r), _has_begun_beyond(s, r, n)),
            ),
        ),
    )


@invariant("ENC-24")
def needed_is_at_hand(s: State) -> Value:
    """Nobody computes a token that stands for an embedding without referring to it: it is in the
    cache, and stays there.

    Upstream: 38551, 43569.
    """
    if not s.k.keeps_embeddings:
        return True
    return s.k.forall(
        "RI",
        lambda r, i: implies(
            embeds_between(s, r, i, s.comp[r], s.comp[r] + s.sched[r]) > 0, refers(s, r, i)
        ),
        span=lambda r: (0, s.k.num_items(r)),
    )


@invariant("ENC-31")
def kept_is_computed(s: State) -> Value:
    """Every item in the cache is computed by a step that has been scheduled, or is being; or an
    encoder connector loads it with one.
    """
    if not s.k.encodes:
        return True
    return s.k.forall("I", lambda n: (s.kept[n] != 0) == (s.made[n] != 0))


@invariant("ENC-26")
def budget_adds_up(s: State) -> Value:
    """What the open step computes of embeddings, and what it may still, are its budget."""
    if not s.k.keeps_embeddings:
        return True
    computed = s.k.sum_over("I", lambda n: ite(s.newly[n] != 0, s.kept[n], 0))
    is_open = either(s.phase == RUN_PHASE, s.phase == WAIT_PHASE, s.phase == DECIDED)
    return implies(is_open, both(s.ebudget >= 0, s.ebudget + computed == s.k.encoder_budget))


@invariant("ENC-27")
def inputs_are_items(s: State) -> Value:
    """Each input of the open step names an item that is in the cache since then; no item is named
    twice, and between steps none is.
    """
    if not s.k.keeps_embeddings:
        return True

    def names(i: Value) -> Value:
        n = s.k.item(s.inputof[i], s.inputs[i] - 1)
        return implies(s.inputs[i] != 0, both(s.newly[n] == i + 1, s.kept[n] != 0))

    return both(
        s.k.forall("I", names, span=lambda: (0, s.ninput)),
        s.k.forall(
            "I",
            lambda n: both(
                within(0, s.newly[n], s.ninput + 1),
                implies(s.newly[n] != 0, s.inputs[s.newly[n] - 1] != 0),
            ),
        ),
        implies(s.phase == IDLE, both(s.ninput == 0, s.ngone == 0)),
    )


@invariant("ENC-28")
def plans_fit(s: State) -> Value:
    """While inputs are planned they fit what the step may compute, and the cache; none of those
    that have not taken their room yet is in it.
    """
    if not s.k.encodes:
        return True
    return both(
        within(0, s.planning, 3),
        within(0, s.ntaken, s.nplan + 1),
        within(0, s.nloaded, s.nload + 1),
        implies(
            s.planning != 0,
            both(
                either(s.phase == RUN_PHASE, s.phase == WAIT_PHASE),
                s.pcost - s.pload <= s.pbudget,
                s.pbudget <= s.k.encoder_budget,
                implies(s.ntaken == 0, s.pcost - s.pload <= s.ebudget),
                implies(s.ntaken + s.nloaded == 0, s.pcost <= s.eroom),
                s.k.forall(
                    "I",
                    lambda i: s.kept[s.k.item(s.planner, s.plan[i])] == 0,
                    span=lambda: (s.ntaken, s.nplan),
                ),
                s.k.forall(
                    "I",
                    lambda i: s.kept[s.k.item(s.planner, s.loads[i])] == 0,
                    span=lambda: (s.nloaded, s.nload),
                ),
            ),
        ),
    )


@invariant("ENC-32")
def told_is_evicted(s: State) -> Value:
    """Workers are told to forget only what is not in the cache, or what this step computes again,
    or has loaded again; and nothing twice, but what is loaded in between.
    """
    if not s.k.keeps_embeddings:
        return True
    return both(
        s.k.forall(
            "I",
            lambda i: either(
                s.kept[s.gone[i]] == 0, s.newly[s.gone[i]] != 0, _is_asked_for(s, s.gone[i])
            ),
            span=lambda: (0, s.ngone),
        ),
        s.k.forall(
            "II",
            lambda i, j: implies(
                both(s.gone[i] == s.gone[j], neg(_is_asked_for(s, s.gone[i]))), i == j
            ),
            span=lambda: (0, s.ngone),
        ),
    )


def _is_asked_for(s: State, n: Value) -> Value:
    """Whether an encoder connector is told of item n with the open step, and has it."""
    if not s.k.loads_items:
        return False
    told = neg(
        s.k.forall(
            "I", lambda i: s.k.item(s.asksof[i], s.asks[i] - 1) != n, span=lambda: (0, s.nask)
        )
    )
    return both(told, s.k.has_item(n))
