"""The running list and the waiting queue: who leaves them, who comes back, who is next.

Whoever changes `Requests.stage` says where a request stands; `unqueue` makes both queues agree and
keeps the order of those that stay (RUN-22).
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend, use_triton
from nullblock.kernels.control.faults import COUNT, Fault, bounded, bounded_torch
from nullblock.kernels.control.faults import WAITING as WAITING_FULL
from nullblock.kernels.control.state import State
from nullblock.kernels.control.words import (
    NUM_RUNNING,
    RUNNING,
    WAITING,
    WAITING_HEAD,
    WAITING_TAIL,
)
from nullblock.kernels.index import ring_place


def unqueue(state: State, backend: Backend = "auto") -> None:
    """Take those off the running list whose stage is not RUNNING, and those off the waiting queue
    whose stage is not WAITING (UPD-5, LIFE-4, LIFE-5).
    """
    if not use_triton(state.arrays.words, backend):
        return unqueue_torch(state)
    unqueue_kernel[(1,)](state.arrays, state.sizes, num_warps=state.sizes.num_warps)


def unqueue_torch(state: State) -> None:
    """Both lists, filtered."""
    requests, queues = state.arrays.requests, state.arrays.queues
    rows = queues.running[: state.word(NUM_RUNNING)]
    stay = rows[requests.stage[rows.long()] == RUNNING.value]
    queues.running[: len(stay)] = stay
    state.set_word(NUM_RUNNING, len(stay))
    rows = waiting_rows(state)
    stay = rows[requests.stage[rows.long()] == WAITING.value]
    set_waiting(state, stay)


def waiting_rows(state: State) -> torch.Tensor:
    """The waiting queue as it stands: int32, of FCFS the next one first."""
    return state.arrays.queues.waiting[_places(state)]


def set_waiting(state: State, rows: torch.Tensor) -> None:
    """Let the waiting queue consist of these rows."""
    state.set_word(WAITING_TAIL, state.word(WAITING_HEAD) + len(rows))
    state.arrays.queues.waiting[_places(state)] = rows


def _places(state: State) -> torch.Tensor:
    first, last = load_waiting_torch(state)
    return torch.arange(first, last, device=state.device) % state.sizes.waiting_capacity


def put_back_torch(state: State, row: int) -> None:
    """A preempted request waits: before all others, or where its priority says (PREEMPT-4)."""
    back, rows = torch.tensor([row], dtype=torch.int32, device=state.device), waiting_rows(state)
    state.set_word(WAITING_HEAD, state.word(WAITING_HEAD) - 1)
    set_waiting(state, torch.cat([back, rows]))


@triton.jit
def unqueue_kernel(a, z: tl.constexpr):
    """One program."""
    close_running(a, z)
    close_waiting(a, z)


@triton.jit
def num_running(a, z: tl.constexpr):
    """How many run, int32."""
    return bounded(a, tl.load(a.words + NUM_RUNNING), z.max_num_seqs, COUNT).to(tl.int32)


@triton.jit
def close_running(a, z: tl.constexpr):
    """Take those off the running list that do not run; returns how many stay (RUN-19)."""
    lane = tl.arange(0, z.request_lanes)
    count = num_running(a, z)
    row = tl.load(a.queues.running + lane, mask=lane < count, other=0)
    stage = tl.load(a.requests.stage + row, mask=lane < count, other=0)
    stay = (stage == RUNNING).to(tl.int32)
    tl.debug_barrier()  # all lanes have read what is written now
    tl.store(a.queues.running + tl.cumsum(stay, 0) - stay, row, mask=stay > 0)
    count = tl.sum(stay, 0)
    tl.store(a.words + NUM_RUNNING, count.to(tl.int64))
    tl.debug_barrier()
    return count


@triton.jit
def waiting_place(position, z: tl.constexpr):
    """Where a position of the waiting queue stands."""
    return ring_place(position, z.waiting_capacity).to(tl.int32)


@triton.jit
def load_waiting(a, z: tl.constexpr):
    """The ends of the waiting queue: head, tail. It is empty, and WAITING is set, if it is longer
    than its ring."""
    head = tl.load(a.words + WAITING_HEAD)
    long = tl.load(a.words + WAITING_TAIL) - head
    return head, head + bounded(a, long, z.waiting_capacity, WAITING_FULL)


def load_waiting_torch(state: State) -> tuple[int, int]:
    """The twin of `load_waiting`."""
    a, head = state.arrays, state.word(WAITING_HEAD)
    long = a.words[WAITING_TAIL.value] - head
    most = state.sizes.waiting_capacity
    return head, head + int(bounded_torch(a.error, long, most, Fault.WAITING))


@triton.jit
def close_waiting(a, z: tl.constexpr):
    """Take those off the waiting queue that do not wait (WAIT-12)."""
    lane = tl.arange(0, z.lanes)
    at, tail = load_waiting(a, z)
    new = at
    while at < tail:
        there = at + lane < tail
        row = tl.load(a.queues.waiting + waiting_place(at + lane, z), mask=there, other=0)
        stage = tl.load(a.requests.stage + row, mask=there, other=0)
        stay = (stage == WAITING).to(tl.int64)
        tl.debug_barrier()  # all lanes have read what is written now
        place = waiting_place(new + tl.cumsum(stay, 0) - stay, z)
        tl.store(a.queues.waiting + place, row, mask=stay > 0)
        new += tl.sum(stay, 0)
        at += z.lanes
        tl.debug_barrier()
    tl.debug_barrier()  # all threads have read it
    tl.store(a.words + WAITING_TAIL, new)
    tl.debug_barrier()


@triton.jit
def put_back(a, row, z: tl.constexpr):
    """A preempted request waits, before all others; under PRIORITY places mean nothing
    (PREEMPT-4)."""
    head = tl.load(a.words + WAITING_HEAD) - 1
    if tl.load(a.words + WAITING_TAIL) - head > z.waiting_capacity:
        tl.atomic_or(a.error, WAITING_FULL)
    tl.debug_barrier()
    tl.store(a.queues.waiting + waiting_place(head, z), row)
    tl.store(a.words + WAITING_HEAD, head)
    tl.debug_barrier()
