"""First half of a step: requests that run already, and whom they push out (RUN-1 to RUN-7).

All requests before the first one that lacks blocks get theirs at once: as long as the blocks they
lack add up to no more than are free, taking them one after another gives each one the slice of
the free queue that a prefix sum says. Then that one preempts, gets its own, and the next turn
begins behind it. So a step takes one turn, and two more for each request that preempts others.
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend, use_triton
from nullblock.kernels.control.cache import forget, forget_torch
from nullblock.kernels.control.faults import COUNT, TURNS, Fault, bounded, bounded_torch
from nullblock.kernels.control.grant import (
    blocks_lacking_torch,
    give_blocks,
    grant_torch,
    plan,
)
from nullblock.kernels.control.preempt import choose_victim, preempt, preempt_torch, victim_torch
from nullblock.kernels.control.publish import publish
from nullblock.kernels.control.queues import num_running
from nullblock.kernels.control.ring import load_queue, store_queue
from nullblock.kernels.control.state import State
from nullblock.kernels.control.words import (
    BUDGET,
    NUM_FREE,
    NUM_PREEMPTED,
    NUM_RAN,
    NUM_RUNNING,
    PAUSE,
    PAUSED_ALL,
)
from nullblock.kernels.index import block_index


def schedule_running(state: State, backend: Backend = "auto") -> None:
    """Begin a step and give each running request its tokens, in order.

    Writes `granted`, BUDGET, NUM_RAN and whom it preempts. Sets TOKENS, and TURNS if it does not
    come to an end.
    """
    if not use_triton(state.arrays.words, backend):
        return schedule_running_torch(state)
    running_phase_kernel[(1,)](state.arrays, state.sizes, num_warps=state.sizes.num_warps)


@triton.jit
def running_phase_kernel(a, z: tl.constexpr):
    """One program."""
    running_phase(a, z)


@triton.jit
def begin_step(a, count, z: tl.constexpr):
    """Nothing is granted, all blocks are known; returns the budget, 0 while everything is paused
    (RUN-5, RUN-15)."""
    lane = tl.arange(0, z.request_lanes)
    there = lane < count
    row = tl.load(a.queues.running + lane, mask=there, other=0)
    held = tl.load(a.requests.num_blocks + row, mask=there, other=0)
    tl.store(a.requests.granted + row, 0, mask=there)
    tl.store(a.requests.told + row, held, mask=there)
    tl.debug_barrier()
    return tl.where(tl.load(a.words + PAUSE) == PAUSED_ALL, 0, z.budget).to(tl.int64)


@triton.jit
def running_phase(a, z: tl.constexpr):
    """The whole phase. `place`: who has preempted and is to be served in this turn; -1: nobody.
    Its tokens were fixed before anybody was preempted (RUN-3).
    """
    head, tail, free = load_queue(a, z)
    count = num_running(a, z)
    budget = begin_step(a, count, z)
    index = tl.zeros([], tl.int32)
    preempted = tl.zeros([], tl.int32)
    place = tl.full([], -1, tl.int32)
    fixed = tl.full([], -1, tl.int32)
    turns = tl.zeros([], tl.int32)
    while ((place >= 0) | (index < count) & (budget > 0)) & (turns <= 2 * z.max_num_seqs):
        first = tl.where(place >= 0, place, index)
        last = tl.where(place >= 0, place + 1, count)
        short, asked, lacks, spent, total, runs = plan(a, first, last, fixed, budget, free, z)
        head = give_blocks(a, total, runs, head, tail, z)
        free -= total
        if z.enable_prefix_caching:
            publish(a, first, short, z)
        budget -= spent
        index = tl.where(place >= 0, index + 1, short)
        place = tl.full([], -1, tl.int32)
        fixed = tl.full([], -1, tl.int32)
        if short < last:
            fixed = asked
            place, index, count, budget, preempted, head, tail, free = _make_way(
                a, short, lacks, index, count, budget, preempted, head, tail, free, z
            )
        turns += 1
    if turns > 2 * z.max_num_seqs:
        tl.atomic_or(a.error, TURNS)
    store_queue(a, head, tail, free)
    tl.store(a.words + BUDGET, budget)
    tl.store(a.words + NUM_RAN, count.to(tl.int64))
    tl.store(a.words + NUM_PREEMPTED, preempted.to(tl.int64))
    tl.debug_barrier()


@triton.jit
def _make_way(a, place, lacks, index, count, budget, preempted, head, tail, free, z: tl.constexpr):
    """Preempt until the blocks that the request at `place` lacks are free, or it was preempted
    itself: then the phase is over (PREEMPT-2, RUN-7).

    Returns where that request stands now, -1 if it does not, and the rest as it has become.
    """
    while (place >= 0) & (lacks > free) & (count > 0):
        victim = choose_victim(a, count, z)
        row = tl.load(a.queues.running + victim)
        granted = tl.load(a.requests.granted + row)
        if granted > 0:
            budget += granted
            if z.withdraw_uncaches:
                _uncache(a, row, z)
        # vLLM 0.22.1 notices that the list got shorter only if the victim was scheduled.
        if z.victim_shifts_index:
            index -= ((granted > 0) | (victim < index)).to(tl.int32)
        else:
            index -= (granted > 0).to(tl.int32)
        tl.store(a.decision.preempted + preempted, row)
        preempted += 1
        count, head, tail, free = preempt(a, row, head, tail, free, z)
        place = tl.where(victim == place, -1, place - (victim < place).to(tl.int32))
        index = tl.where(place < 0, count, index)
    return place, index, count, budget, preempted, head, tail, free


@triton.jit
def _uncache(a, row, z: tl.constexpr):
    """Take back the hashes of blocks that this step was to fill (PREEMPT-3)."""
    lane = tl.arange(0, z.lanes)
    held = bounded(a, tl.load(a.requests.num_blocks + row), z.row_blocks, COUNT)
    computed = bounded(a, tl.load(a.requests.num_computed + row), z.row_tokens, COUNT)
    base = block_index(computed, z.block_size)
    table = a.requests.table + row.to(tl.int64) * z.row_blocks
    while base < held:
        there = base + lane < held
        block = tl.load(table + base + lane, mask=there, other=0)
        forget(a, block, there)
        base += z.lanes
    tl.debug_barrier()


def schedule_running_torch(state: State) -> None:
    """One running request after another."""
    requests, running = state.arrays.requests, state.arrays.queues.running
    rows = running[: state.word(NUM_RUNNING)].long()
    requests.granted[rows] = 0
    requests.told[rows] = requests.num_blocks[rows]
    budget = 0 if state.word(PAUSE) == PAUSED_ALL.value else state.sizes.budget
    index, preempted = 0, list[int]()
    while index < state.word(NUM_RUNNING) and budget > 0:
        row = int(running[index])
        tokens = _tokens_torch(state, row, budget)
        while blocks_lacking_torch(state, row, tokens) > state.word(NUM_FREE):
            place = victim_torch(state)
            victim = int(running[place])
            granted = int(requests.granted[victim])
            if granted and state.sizes.withdraw_uncaches:
                _uncache_torch(state, victim)
            budget += granted
            shifts = granted or (state.sizes.victim_shifts_index and place < index)
            index -= 1 if shifts else 0
            preempt_torch(state, victim)
            preempted.append(victim)
            if victim == row:
                break
        if row in preempted:
            break
        grant_torch(state, row, tokens)
        budget -= tokens
        index += 1
    state.arrays.decision.preempted[: len(preempted)] = torch.tensor(preempted, dtype=torch.int32)
    state.set_word(BUDGET, budget)
    state.set_word(NUM_RAN, state.word(NUM_RUNNING))
    state.set_word(NUM_PREEMPTED, len(preempted))


def _tokens_torch(state: State, row: int, budget: int) -> int:
    """What one running request gets (RUN-1, RUN-2)."""
    requests, sizes = state.arrays.requests, state.sizes
    computed = int(requests.num_computed[row])
    most = min(int(requests.num_tokens[row]) - computed, sizes.threshold)
    most = min(most, sizes.max_model_len - 1 - computed)
    if most < 0:
        state.report(Fault.TOKENS)
    return min(max(most, 0), budget)


def _uncache_torch(state: State, row: int) -> None:
    """Take back the hashes of blocks that this step was to fill (PREEMPT-3)."""
    requests, sizes = state.arrays.requests, state.sizes
    computed = requests.num_computed[row]
    computed = bounded_torch(state.arrays.error, computed, sizes.row_tokens, Fault.COUNT)
    first = block_index.fn(int(computed), sizes.block_size)
    forget_torch(state, requests.table[row, first : int(requests.num_blocks[row])])
