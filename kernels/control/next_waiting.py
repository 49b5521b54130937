"""Who is considered next for admission (WAIT-1).

FCFS: the front of the queue. PRIORITY: the least by priority, arrival and order of ids.
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels.control.queues import load_waiting, set_waiting, waiting_place, waiting_rows
from nullblock.kernels.control.state import State
from nullblock.kernels.control.words import WAITING_HEAD

_MOST = tl.constexpr((1 << 63) - 1)


@triton.jit
def next_waiting(a, z: tl.constexpr):
    """Who is next: its position in the waiting queue, which is not empty, and its row."""
    position, tail = load_waiting(a, z)
    if z.priority:
        position = _least(a, position, tail, z)
    return position, tl.load(a.queues.waiting + waiting_place(position, z))


@triton.jit
def _least(a, head, tail, z: tl.constexpr):
    """The position of the least by priority, arrival and tie."""
    lane = tl.arange(0, z.lanes)
    best = head
    priority = tl.full([], _MOST, tl.int64)
    arrival = tl.full([], float("inf"), tl.float64)
    tie = tl.full([], _MOST, tl.int64)
    at = head
    while at < tail:
        there = at + lane < tail
        row = tl.load(a.queues.waiting + waiting_place(at + lane, z), mask=there, other=0)
        by_priority = tl.load(a.requests.priority + row, mask=there, other=_MOST)
        first = tl.min(by_priority, 0)
        there = there & (by_priority == first)
        by_arrival = tl.load(a.requests.arrival + row, mask=there, other=float("inf"))
        second = tl.min(by_arrival, 0)
        there = there & (by_arrival == second)
        by_tie = tl.load(a.requests.tie + row, mask=there, other=_MOST)
        third = tl.min(by_tie, 0)
        there = there & (by_tie == third)
        less = (second < arrival) | (second == arrival) & (third <= tie)
        less = (first < priority) | (first == priority) & less
        best = tl.where(less, at + tl.min(tl.where(there, lane, z.lanes), 0), best)
        priority = tl.where(less, first, priority)
        arrival = tl.where(less, second, arrival)
        tie = tl.where(less, third, tie)
        at += z.lanes
    return best


@triton.jit
def leave_waiting(a, position, z: tl.constexpr):
    """Who is next leaves the waiting queue; under PRIORITY the front one takes its place."""
    head = tl.load(a.words + WAITING_HEAD)
    front = tl.load(a.queues.waiting + waiting_place(head, z))
    tl.debug_barrier()
    tl.store(a.queues.waiting + waiting_place(position, z), front)
    tl.store(a.words + WAITING_HEAD, head + 1)
    tl.debug_barrier()


def next_waiting_torch(state: State) -> int | None:
    """The row of who is next; None: nobody waits."""
    requests = state.arrays.requests
    rows: list[int] = waiting_rows(state).tolist()
    if not rows or not state.sizes.priority:
        return rows[0] if rows else None

    def order(row: int) -> tuple[int, float, int]:
        arrival = float(requests.arrival[row])
        return int(requests.priority[row]), arrival, int(requests.tie[row])

    return min(rows, key=order)


def leave_waiting_torch(state: State, row: int) -> None:
    """Who is next leaves the waiting queue."""
    rows: torch.Tensor = waiting_rows(state)
    state.set_word(WAITING_HEAD, state.word(WAITING_HEAD) + 1)
    set_waiting(state, rows[rows != row])
