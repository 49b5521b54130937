"""Who is pushed out of the running list, and what becomes of it (PREEMPT-1, PREEMPT-4)."""

import torch
import triton
import triton.language as tl

from nullblock.kernels.control.queues import close_running, put_back, put_back_torch, unqueue_torch
from nullblock.kernels.control.release import release, release_rows_torch
from nullblock.kernels.control.state import State
from nullblock.kernels.control.words import NUM_RUNNING, WAITING

_LEAST = tl.constexpr(-(1 << 63))


@triton.jit
def choose_victim(a, count, z: tl.constexpr):
    """Whom to preempt, as an index of the running list (PREEMPT-1): FCFS the last one, PRIORITY
    the greatest by priority, arrival and order of ids; in vLLM 0.22.1 of equals the first."""
    victim = count - 1
    if z.priority:
        lane = tl.arange(0, z.request_lanes)
        there = lane < count
        row = tl.load(a.queues.running + lane, mask=there, other=0)
        priority = tl.load(a.requests.priority + row, mask=there, other=_LEAST)
        there = there & (priority == tl.max(priority, 0))
        arrival = tl.load(a.requests.arrival + row, mask=there, other=float("-inf"))
        there = there & (arrival == tl.max(arrival, 0))
        if z.victim_by_id:
            tie = tl.load(a.requests.tie + row, mask=there, other=_LEAST)
            there = there & (tie == tl.max(tie, 0))
        victim = tl.min(tl.where(there, lane, count - 1), 0)
    return victim


@triton.jit
def preempt(a, row, head, tail, free, z: tl.constexpr):
    """Let a running request wait and start over, without blocks (PREEMPT-4, POOL-12).

    Returns how many run now, and the queue.
    """
    lane = tl.arange(0, z.request_lanes)
    head, tail, free = release(a, row + lane * 0, lane == 0, head, tail, free, z)
    again = tl.load(a.requests.num_preemptions + row) + 1
    tl.debug_barrier()
    tl.store(a.requests.num_preemptions + row, again)
    tl.store(a.requests.stage + row, WAITING)
    tl.store(a.requests.granted + row, 0)
    put_back(a, row, z)
    return close_running(a, z), head, tail, free


# The twins' part --------------------------------------------------------------------------------


def victim_torch(state: State) -> int:
    """Whom to preempt, as an index of the running list (PREEMPT-1)."""
    count, requests = state.word(NUM_RUNNING), state.arrays.requests
    if not state.sizes.priority:
        return count - 1
    rows = state.arrays.queues.running[:count].tolist()
    by_id = state.sizes.victim_by_id
    keys = [
        (
            int(requests.priority[row]),
            float(requests.arrival[row]),
            int(requests.tie[row]) if by_id else 0,
        )
        for row in rows
    ]
    return keys.index(max(keys))


def preempt_torch(state: State, row: int) -> None:
    """Let a running request wait and start over, without blocks (PREEMPT-4)."""
    requests = state.arrays.requests
    release_rows_torch(state, torch.tensor([row], dtype=torch.int32, device=state.device))
    requests.num_preemptions[row] += 1
    requests.stage[row] = WAITING.value
    requests.granted[row] = 0
    put_back_torch(state, row)
    unqueue_torch(state)
