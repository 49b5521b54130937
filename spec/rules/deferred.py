"""Putting freed blocks off until steps in flight have come back, and taking them back then."""

from nullblock.spec.deferred import awaits_steps, goes_next, is_due, num_left
from nullblock.spec.fields import IDLE, LEAVING, RUN_PHASE
from nullblock.spec.gate import fits
from nullblock.spec.kernel import State, Value, ensure, least, neg, require, rule
from nullblock.spec.rules.encoder import forget_plan
from nullblock.spec.rules.pool import _enqueue, open_front
from nullblock.spec.state import turn, victim


@rule("REMOTE-54", "TB")
def put_off(s: State, t: Value, b: Value) -> None:
    """Such a block leaves its table, the last one first, and stays referenced until then; of
    several tables the last one's go first.

    Source: Scheduler._free_request_blocks, deferred_frees.
    """
    r, n = s.k.owner(t), s.tlen[t]
    require(s.stage[r] == LEAVING, "the request is leaving")
    require(n > 0, "it holds a block")
    require(b == s.tab[t, n - 1], "the last block goes first")
    require(awaits_steps(s, r), "a step in flight computes the request")
    require(goes_next(s, t), "tables behind it are empty")
    left = num_left(s, r)
    s.tlen[t] = n - 1
    s.ncached[t] = least(s.ncached[t], n - 1)
    s.told[t] = least(s.told[t], n - 1)
    s.pos[t, b] = -1
    s.own[b] = s.k.remove(s.own[b], t)
    s.off[s.offto] = b
    s.offuntil[s.offto] = s.lastfull
    s.offlen[s.offto] = left
    s.offto += 1


@rule("REMOTE-44", "B")
def take_back(s: State, b: Value) -> None:
    """Blocks that were put off are released before the output of that step is applied, request
    after request, as they were freed.

    Source: Scheduler._drain_deferred_frees.
    """
    require(s.phase == IDLE, "between steps")
    require(s.leaving == 0, "nobody is half-way out")
    require(is_due(s), "the step has come that the next block waits for")
    require(b == s.off[s.offfrom], "it is the next one")
    if s.offlen[s.offfrom - 1] <= 1:
        open_front(s, s.offlen[s.offfrom])
    s.offfrom += 1
    if s.offfrom == s.offto:
        s.off = s.k.blank("off")
        s.offuntil = s.k.blank("offuntil")
        s.offlen = s.k.blank("offlen")
        s.offfrom = 0
        s.offto = 0
    ensure(s.ref[b] > 0, "a reference count never goes below zero")
    s.ref[b] -= 1
    if s.ref[b] == 0:
        _enqueue(s, b)


@rule("PREEMPT-8", "R")
def hold_off(s: State, r: Value) -> None:
    """Nobody is preempted whose blocks would not be free at once: whoever asks gets nothing in
    this step, nor does anybody behind.

    Source: Scheduler.schedule, running phase: _request_blocks_can_be_freed. Only in vllm-0.32.0.
    """
    require(s.phase == RUN_PHASE, "the running phase is open")
    require(s.leaving == 0, "nobody is half-way out")
    require(turn(s, r), "the request asks for slots")
    require(neg(fits(s, r)), "its slots are not free")
    require(awaits_steps(s, s.run[victim(s)]), "the victim's blocks would not be free")
    s.asked = 0
    s.halted = 1
    forget_plan(s)
