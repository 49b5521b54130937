"""The prefix cache is emptied, unless a request holds a block (LIFE-10, HASH-14)."""

import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend, use_triton
from nullblock.kernels.control.cache import clear_slots
from nullblock.kernels.control.faults import WAITING as WAITING_FULL
from nullblock.kernels.control.preempt import preempt_torch
from nullblock.kernels.control.queues import num_running, waiting_place
from nullblock.kernels.control.release import release
from nullblock.kernels.control.ring import load_queue, store_queue
from nullblock.kernels.control.state import State
from nullblock.kernels.control.words import (
    EMPTY,
    NUM_FREE,
    NUM_RUNNING,
    RESET_DONE,
    SLOTS_USED,
    WAITING,
    WAITING_HEAD,
    WAITING_TAIL,
)


def reset_prefix_cache(
    state: State, reset_running: bool = False, backend: Backend = "auto"
) -> None:
    """Forget what is cached; RESET_DONE says whether it was done (LIFE-10).

    With `reset_running` all running requests are preempted first, the last one first, so that they
    wait in the order in which they ran (LIFE-3). Sets WAITING if they have no room there.
    """
    if not use_triton(state.arrays.words, backend):
        return reset_prefix_cache_torch(state, reset_running)
    reset_kernel[(1,)](
        state.arrays, int(reset_running), state.sizes, num_warps=state.sizes.num_warps
    )


def reset_prefix_cache_torch(state: State, reset_running: bool = False) -> None:
    """Preempt from the back, then clear."""
    if reset_running:
        count = state.word(NUM_RUNNING)
        for row in state.arrays.queues.running[:count].flip(0).tolist():
            preempt_torch(state, row)
    done = state.word(NUM_FREE) == state.sizes.num_blocks - 1
    if done:
        state.arrays.cache.slots.fill_(EMPTY.value)
        state.arrays.cache.carried.zero_()
        state.set_word(SLOTS_USED, 0)
    state.set_word(RESET_DONE, int(done))


@triton.jit
def reset_kernel(a, reset_running, z: tl.constexpr):
    """One program."""
    if reset_running != 0:
        _preempt_all(a, z)
    if tl.load(a.words + NUM_FREE) == z.num_blocks - 1:
        clear_slots(a, z)
        lane = tl.arange(0, z.lanes)
        for base in range(0, 2 * z.num_blocks, z.lanes):
            there = base + lane < 2 * z.num_blocks
            tl.store(a.cache.carried + base + lane, 0, mask=there)
        tl.store(a.words + SLOTS_USED, tl.zeros([], tl.int64))
        tl.store(a.words + RESET_DONE, tl.full([], 1, tl.int64))
    else:
        tl.store(a.words + RESET_DONE, tl.zeros([], tl.int64))


@triton.jit
def _preempt_all(a, z: tl.constexpr):
    """All running requests wait, before all others and in the order in which they ran; their
    blocks are released as if the last one had left first (LIFE-3, PREEMPT-4)."""
    lane = tl.arange(0, z.request_lanes)
    count = num_running(a, z)
    there = lane < count
    row = tl.load(a.queues.running + count - 1 - lane, mask=there, other=0)
    head, tail, free = load_queue(a, z)
    head, tail, free = release(a, row, there, head, tail, free, z)
    store_queue(a, head, tail, free)
    again = tl.load(a.requests.num_preemptions + row, mask=there, other=0) + 1
    tl.store(a.requests.num_preemptions + row, again, mask=there)
    tl.store(a.requests.stage + row, WAITING, mask=there)
    tl.store(a.requests.granted + row, 0, mask=there)
    front = tl.load(a.words + WAITING_HEAD) - count
    if tl.load(a.words + WAITING_TAIL) - front > z.waiting_capacity:
        tl.atomic_or(a.error, WAITING_FULL)
    place = waiting_place(front + count - 1 - lane, z)
    tl.store(a.queues.waiting + place, row, mask=there)
    tl.debug_barrier()
    tl.store(a.words + WAITING_HEAD, front)
    tl.store(a.words + NUM_RUNNING, tl.zeros([], tl.int64))
    tl.debug_barrier()
