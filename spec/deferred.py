"""Blocks that are freed while a step in flight computes their request, where a connector loads.

Workers compute steps in order, so that a block which is given up is written by its next owner
later. A load is not ordered so: it may write to a block at once that a step in flight writes as
well. Only vllm-0.32.0 minds that; each reading says elsewhere what the core says. What is written
is in `nullblock.spec.rules.deferred`.
"""

from nullblock.spec.catalogue import clause
from nullblock.spec.fields import ANEW, UPDATE
from nullblock.spec.groups import in_all, in_table
from nullblock.spec.hybrid import comes_next
from nullblock.spec.kernel import State, Value, both, implies, ite, neg


def defers(s: State) -> Value:
    """Whether freed blocks may have to wait for steps in flight."""
    return s.k.defers if s.k.sem.freed_blocks_await_steps else False


def num_back(s: State) -> Value:
    """Steps whose outputs have come, the one that is applied among them."""
    return s.oldest + ite(s.phase == UPDATE, 1, 0)


@clause("REMOTE-42")
def awaits_steps(s: State, r: Value) -> Value:
    """Blocks that a request gives up while a step in flight computes it are free once the output
    of the newest step in flight has come, where steps overlap and a connector loads.

    Source: Scheduler._free_request_blocks, defer_block_free. Only in vllm-0.32.0.
    """
    if not defers(s):
        return False
    return both(s.lastin[r] > num_back(s), s.leaving != ANEW)


def goes_next(s: State, t: Value) -> Value:
    """Whether it is table t whose blocks go next: of several tables those of the first go first,
    but what is put off goes as one, from behind.

    Source: KVCacheCoordinator.free, pop_blocks_for_free.
    """
    if not s.k.several:
        return True
    r, group = s.k.owner(t), s.k.group(t)
    if awaits_steps(s, r):
        return s.k.forall("G", lambda g: implies(g > group, s.tlen[s.k.table(r, g)] == 0))
    return comes_next(s, t, lambda u: s.tlen[u] == 0)


def held_next(s: State, r: Value, first: Value) -> Value:
    """How many blocks the first table of r has, from that group on, that has any: one of
    cross-attention has none without inputs, and an empty prompt has none but for states.
    """
    if not s.k.several:
        return s.tlen[s.k.table(r, 0)]

    def held(g: Value) -> Value:
        between = s.k.exists("G", lambda h: both(first <= h, h < g, s.tlen[s.k.table(r, h)] > 0))
        return ite(both(first <= g, neg(between)), s.tlen[s.k.table(r, g)], 0)

    return s.k.sum_over("G", held)


def num_left(s: State, r: Value) -> Value:
    """How many blocks r holds in all its tables."""
    if not s.k.windowed:
        return in_all(s, r, lambda t: s.tlen[t])
    return in_all(s, r, lambda t: s.k.count("I", lambda i: in_table(s, t, i)))


def is_due(s: State) -> Value:
    """Whether a block that was put off is free once the step has come whose output comes next."""
    if not defers(s):
        return False
    computes = both(s.oldest < s.steps, s.cur < s.fend[s.oldest])
    return both(computes, s.offfrom < s.offto, s.offuntil[s.offfrom] <= s.oldest + 1)
