"""Second half of a step: who is admitted (WAIT-1 to WAIT-11).

Requests are admitted one after another: what one of them caches the next may hit, and what one of
them is given the next may not. Each admission is parallel in itself.
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend, use_triton
from nullblock.kernels.control.faults import ROW, Fault
from nullblock.kernels.control.grant import give_blocks, grant_torch
from nullblock.kernels.control.keys import name_row, name_row_torch
from nullblock.kernels.control.lookup import find_prefix, prefix_torch
from nullblock.kernels.control.next_waiting import (
    leave_waiting,
    leave_waiting_torch,
    next_waiting,
    next_waiting_torch,
)
from nullblock.kernels.control.publish import publish
from nullblock.kernels.control.queues import load_waiting, num_running
from nullblock.kernels.control.ring import load_queue, store_queue
from nullblock.kernels.control.runs import lay_out_one
from nullblock.kernels.control.state import State
from nullblock.kernels.control.touch import touch, touch_blocks_torch
from nullblock.kernels.control.words import (
    BUDGET,
    NUM_ADMITTED,
    NUM_FREE,
    NUM_PREEMPTED,
    NUM_RUNNING,
    PAUSE,
    RUNNING,
    UNPAUSED,
)
from nullblock.kernels.index import blocks_for


def schedule_waiting(state: State, backend: Backend = "auto") -> None:
    """Admit from the head of the waiting queue; who does not fit blocks all behind (WAIT-5).

    Goes on where `schedule_running` stopped. Sets ROW for a request without tokens.
    """
    if not use_triton(state.arrays.words, backend):
        return schedule_waiting_torch(state)
    waiting_phase_kernel[(1,)](state.arrays, state.sizes, num_warps=state.sizes.num_warps)


@triton.jit
def waiting_phase_kernel(a, z: tl.constexpr):
    """One program."""
    waiting_phase(a, z)


@triton.jit
def waiting_phase(a, z: tl.constexpr):
    """The whole phase: one turn an admission, and one for who is not admitted."""
    head, tail, free = load_queue(a, z)
    budget = tl.load(a.words + BUDGET)
    count = num_running(a, z)
    ran = count
    may = (tl.load(a.words + PAUSE) == UNPAUSED) & (tl.load(a.words + NUM_PREEMPTED) == 0)
    first, last = load_waiting(a, z)
    left = last - first
    while may & (left > 0) & (budget > 0) & (count < z.max_num_seqs):
        position, row = next_waiting(a, z)
        hits, unheld = _hits(a, row, z)
        tokens, lacking, needed = _wish(a, row, hits, budget, z)
        may = (tokens > 0) & (needed + unheld <= free)
        if may:
            free -= _hold(a, row, hits, z)
            leave_waiting(a, position, z)
            _enter(a, row, count, hits, tokens, lacking, z)
            total, runs = lay_out_one(a, row, hits, lacking, z)
            head = give_blocks(a, total, runs, head, tail, z)
            free -= total
            if z.enable_prefix_caching:
                publish(a, count, count + 1, z)
            budget -= tokens
            count += 1
            left -= 1
    store_queue(a, head, tail, free)
    tl.store(a.words + BUDGET, budget)
    tl.store(a.words + NUM_RUNNING, count.to(tl.int64))
    tl.store(a.words + NUM_ADMITTED, (count - ran).to(tl.int64))
    tl.debug_barrier()


@triton.jit
def _hits(a, row, z: tl.constexpr):
    """The cached prefix of a waiting request, to its table: its length, and how many of its blocks
    nobody holds."""
    hits = tl.zeros([], tl.int32)
    unheld = tl.zeros([], tl.int32)
    if z.enable_prefix_caching:
        name_row(a, row, z)
        if tl.load(a.requests.skip_reading_prefix_cache + row) == 0:
            hits, unheld = find_prefix(a, row, z)
    return hits, unheld


@triton.jit
def _wish(a, row, hits, budget, z: tl.constexpr):
    """What a waiting request would get (WAIT-2, WAIT-4): tokens, 0 if it may not be cut to what is
    left of the budget; the blocks that these take besides the hits; and the blocks that have to be
    free besides the hits (WAIT-3)."""
    num_tokens = tl.load(a.requests.num_tokens + row)
    computed = hits * z.block_size
    tokens = tl.minimum(num_tokens - computed, z.threshold)
    if tokens <= 0:
        tl.atomic_or(a.error, ROW)
    if z.enable_chunked_prefill:
        tokens = tl.minimum(tokens, tl.minimum(budget, z.row_tokens).to(tl.int32))
    else:
        tokens = tl.where(tokens > budget, 0, tokens)
    slots = tl.minimum(computed + tokens, z.max_model_len)
    lacking = tl.maximum(blocks_for(slots, z.block_size) - hits, 0)
    needed = blocks_for(slots, z.block_size) - hits
    if z.scheduler_reserve_full_isl:
        whole = blocks_for(tl.minimum(num_tokens, z.max_model_len), z.block_size)
        needed = tl.maximum(needed, whole - hits)
    return tokens, lacking, needed


@triton.jit
def _hold(a, row, hits, z: tl.constexpr):
    """Touch the hits (POOL-11); how many of them were free."""
    lane = tl.arange(0, z.lanes)
    table = a.requests.table + row.to(tl.int64) * z.row_blocks
    free = tl.zeros([], tl.int32)
    base = tl.zeros([], tl.int32)
    while base < hits:
        there = base + lane < hits
        block = tl.load(table + base + lane, mask=there, other=0)
        free += touch(a, block, there, z)
        base += z.lanes
    tl.debug_barrier()
    return free


@triton.jit
def _enter(a, row, count, hits, tokens, lacking, z: tl.constexpr):
    """Join the end of the running list, with the hits and what is given now (WAIT-9)."""
    tl.store(a.queues.running + count, row)
    tl.store(a.requests.stage + row, RUNNING)
    tl.store(a.requests.num_computed + row, hits * z.block_size)
    tl.store(a.requests.granted + row, tokens)
    tl.store(a.requests.num_blocks + row, hits + lacking)
    tl.store(a.requests.num_cached + row, hits)
    tl.store(a.requests.told + row, 0)
    tl.store(a.requests.in_previous + row, 0)
    tl.debug_barrier()


# The twin ---------------------------------------------------------------------------------------


def schedule_waiting_torch(state: State) -> None:
    """One waiting request after another."""
    admitted = 0
    if state.word(PAUSE) == UNPAUSED.value and not state.word(NUM_PREEMPTED):
        while state.word(NUM_RUNNING) < state.sizes.max_num_seqs and _admit_torch(state):
            admitted += 1
    state.set_word(NUM_ADMITTED, admitted)


def _admit_torch(state: State) -> bool:
    """Admit who is next; whether there was somebody, and room."""
    requests, sizes, budget = state.arrays.requests, state.sizes, state.word(BUDGET)
    row = next_waiting_torch(state)
    if row is None or budget <= 0:
        return False
    hits = torch.zeros(0, dtype=torch.int32, device=state.device)
    if sizes.enable_prefix_caching:
        name_row_torch(state, row)
        if not int(requests.skip_reading_prefix_cache[row]):
            hits = prefix_torch(state, row)
    num_tokens, computed = int(requests.num_tokens[row]), len(hits) * sizes.block_size
    tokens = min(num_tokens - computed, sizes.threshold)
    if tokens <= 0:
        state.report(Fault.ROW)
        return False
    if tokens > budget and not sizes.enable_chunked_prefill:
        return False
    tokens = min(tokens, budget)
    slots = computed + tokens
    if sizes.scheduler_reserve_full_isl:
        slots = max(slots, num_tokens)
    blocks = -(-min(slots, sizes.max_model_len) // sizes.block_size)
    unheld = int((state.arrays.pool.ref_cnt[hits.long()] == 0).sum())
    if blocks - len(hits) + unheld > state.word(NUM_FREE):
        return False
    touch_blocks_torch(state, hits)
    leave_waiting_torch(state, row)
    _enter_torch(state, row, len(hits))
    grant_torch(state, row, tokens)
    state.set_word(BUDGET, budget - tokens)
    return True


def _enter_torch(state: State, row: int, hits: int) -> None:
    """Join the end of the running list, with the hits and nothing else (WAIT-9)."""
    requests, count = state.arrays.requests, state.word(NUM_RUNNING)
    state.arrays.queues.running[count] = row
    state.set_word(NUM_RUNNING, count + 1)
    requests.stage[row] = RUNNING.value
    requests.num_computed[row] = hits * state.sizes.block_size
    requests.num_blocks[row] = requests.num_cached[row] = hits
    requests.told[row] = requests.in_previous[row] = 0
