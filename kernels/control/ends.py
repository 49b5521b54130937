"""Requests that end: they give their blocks back, leave their queue, and are told of.

Shared by the kernels in which a request may end: the update after a step, and letters that end one
from outside. A request that ends is ABSENT from then on (LIFE-6). Its row is not used again until
a step has told of it (`Queues.ended`, `Decision.finished`).
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels.control.faults import COUNT, Fault, bounded, bounded_torch
from nullblock.kernels.control.queues import close_running, close_waiting, unqueue_torch
from nullblock.kernels.control.release import release, release_rows_torch
from nullblock.kernels.control.ring import load_queue, store_queue
from nullblock.kernels.control.state import State
from nullblock.kernels.control.words import (
    ABSENT,
    NUM_ENDED,
    RUNNING,
    WAITING,
)


@triton.jit
def end_requests(a, row, ends, z: tl.constexpr):
    """The requests in these rows end, as far as `ends` says so and they are alive, one after
    another in the order of the lanes: `request_lanes` of them, no row in two (LIFE-4 to LIFE-6).
    """
    stage = tl.load(a.requests.stage + row, mask=ends, other=ABSENT)
    runs, waits = ends & (stage == RUNNING), ends & (stage == WAITING)
    _tell_of(a, row, runs | waits, z)
    tl.debug_barrier()  # all lanes have read what is written now
    tl.store(a.requests.stage + row, ABSENT, mask=runs | waits)
    tl.debug_barrier()
    if tl.sum(waits.to(tl.int32), 0) > 0:
        close_waiting(a, z)
    if tl.sum(runs.to(tl.int32), 0) > 0:
        close_running(a, z)
        head, tail, free = load_queue(a, z)
        head, tail, free = release(a, row, runs, head, tail, free, z)
        store_queue(a, head, tail, free)
    tl.debug_barrier()


@triton.jit
def _tell_of(a, row, there, z: tl.constexpr):
    """The next step tells of these rows: with those that it is to tell of already, each one's."""
    one = there.to(tl.int32)
    n = bounded(a, tl.load(a.words + NUM_ENDED), z.num_rows - tl.sum(one, 0), COUNT)
    tl.store(a.queues.ended + n + tl.cumsum(one, 0) - one, row, mask=there)
    tl.debug_barrier()
    tl.store(a.words + NUM_ENDED, n + tl.sum(one, 0))


def end_requests_torch(state: State, rows: list[int]) -> None:
    """The twin of `end_requests`, for rows that do end."""
    a, stage = state.arrays, state.arrays.requests.stage
    alive = [row for row in rows if stage[row] != ABSENT.value]
    running = [row for row in alive if stage[row] == RUNNING.value]
    most = state.sizes.num_rows - len(alive)
    n = int(bounded_torch(a.error, a.words[NUM_ENDED.value], most, Fault.COUNT))
    a.queues.ended[n : n + len(alive)] = torch.tensor(alive, dtype=torch.int32)
    state.set_word(NUM_ENDED, n + len(alive))
    stage[alive] = ABSENT.value
    unqueue_torch(state)
    release_rows_torch(state, torch.tensor(running, dtype=torch.int32, device=state.device))
