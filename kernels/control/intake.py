"""Letters from the host: requests arrive and end, scheduling pauses.

The kernel takes all letters that are posted when it looks, in their order, and at most as many
as the mailbox holds. It is the way in: the host writes no state, and a graph that has this kernel
in it needs nobody to launch anything for an arrival.

| letter | what happens | rule |
|---|---|---|
| ARRIVAL | its columns and tokens become a row; it waits, last of all | LIFE-1, WAIT-1 |
| END | the request of a row ends, whatever it does | LIFE-4, LIFE-5 |
| PAUSING | the pause state changes | LIFE-7 |
"""

import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend, use_triton
from nullblock.kernels.control.decision import num_scheduled, num_scheduled_torch
from nullblock.kernels.control.ends import end_requests, end_requests_torch
from nullblock.kernels.control.exchange import (
    ARRIVAL,
    END,
    NOBODY,
    NUM_TAKEN,
    Exchange,
    Mail,
    Rings,
)
from nullblock.kernels.control.faults import ROW, Fault
from nullblock.kernels.control.faults import WAITING as WAITING_FULL
from nullblock.kernels.control.queues import load_waiting, load_waiting_torch, waiting_place
from nullblock.kernels.control.state import State
from nullblock.kernels.control.words import (
    ABSENT,
    PAUSE,
    RUNNING,
    WAITING,
    WAITING_TAIL,
)

COPIED = tuple(name for name in Mail._fields if name not in ("posted", "kind", "row", "tokens"))
"""The columns of a letter that become columns of a row, `takes_over` apart."""
ZEROED = (
    *("num_computed", "num_blocks", "num_cached", "num_keys", "num_preemptions"),
    *("granted", "told", "in_previous"),
)


def intake(state: State, exchange: Exchange, rings: Rings, backend: Backend = "auto") -> None:
    """Take the letters that are posted.

    Sets ROW in the error word for an arrival whose row is taken or does not hold its prompt, and
    WAITING where the waiting queue has no room; such a letter is dropped.
    """
    if not use_triton(state.arrays.words, backend):
        return intake_torch(state, exchange, rings)
    warps = state.sizes.num_warps
    intake_kernel[(1,)](state.arrays, exchange, state.sizes, rings.letters, num_warps=warps)


@triton.jit
def intake_kernel(a, exchange, z: tl.constexpr, LETTERS: tl.constexpr):
    """One program, letter after letter."""
    mail = exchange.mail
    taken = tl.load(exchange.progress + NUM_TAKEN)
    # The host may post meanwhile: what it posts from now on waits for the next time.
    posted = tl.minimum(tl.load(mail.posted, volatile=True), taken + LETTERS)
    while taken < posted:  # at most LETTERS letters
        at = (taken % LETTERS).to(tl.int32)
        kind, row = tl.load(mail.kind + at), tl.load(mail.row + at)
        if kind == ARRIVAL:
            _arrive(a, mail, at, row, z)
        elif kind == END:
            lane = tl.arange(0, z.request_lanes)
            inside = (row >= 0) & (row < z.num_rows)
            end_requests(a, row + lane * 0, inside & (lane == 0), z)
        else:
            tl.store(a.words + PAUSE, row.to(tl.int64))
        taken += 1
        tl.debug_barrier()
    tl.store(exchange.progress + NUM_TAKEN, taken)


@triton.jit
def _arrive(a, mail, at, row, z: tl.constexpr):
    """An arrival waits in its row, if that is free, behind everybody else."""
    n = tl.load(mail.num_prompt + at)
    head, tail = load_waiting(a, z)
    inside = (row >= 0) & (row < z.num_rows) & (n >= 0) & (n <= z.row_tokens)
    stage = tl.load(a.requests.stage + row, mask=inside, other=RUNNING)
    tl.debug_barrier()  # everybody has seen the row as it was
    if stage != ABSENT:
        tl.atomic_or(a.error, ROW)
    elif tail - head == z.waiting_capacity:
        tl.atomic_or(a.error, WAITING_FULL)
    else:
        _copy_tokens(a.requests, mail, at, row, n, z)
        _copy_columns(a.requests, mail, at, row, n, z)
        _take_over(a, tl.load(mail.takes_over + at), row, z)
        tl.store(a.queues.waiting + waiting_place(tail, z), row)
        tl.store(a.words + WAITING_TAIL, tail + 1)


@triton.jit
def _copy_tokens(requests, mail, at, row, n, z: tl.constexpr):
    """The prompt."""
    first = tl.zeros([], tl.int32)
    source = mail.tokens + at.to(tl.int64) * z.row_tokens
    while first < n:  # at most row_tokens
        i = first + tl.arange(0, z.lanes)
        tokens = tl.load(source + i, mask=i < n, other=0)
        tl.store(requests.tokens + row.to(tl.int64) * z.row_tokens + i, tokens, mask=i < n)
        first += z.lanes


@triton.jit
def _copy_columns(requests, mail, at, row, n, z: tl.constexpr):
    """What is known of a request that begins."""
    tl.store(requests.stage + row, WAITING)
    tl.store(requests.num_tokens + row, n)
    tl.store(requests.num_prompt + row, n)
    tl.store(requests.limit + row, tl.load(mail.limit + at))
    tl.store(requests.at_least + row, tl.load(mail.at_least + at))
    tl.store(requests.eos + row, tl.load(mail.eos + at))
    tl.store(requests.num_stop + row, tl.load(mail.num_stop + at))
    width: tl.constexpr = z.stop_width
    for j in tl.static_range(width):
        stop = tl.load(mail.stop_ids + at * z.stop_width + j)
        tl.store(requests.stop_ids + row.to(tl.int64) * z.stop_width + j, stop)
    for j in tl.static_range(2):
        tl.store(requests.extra + row * 2 + j, tl.load(mail.extra + at * 2 + j))
    skip = tl.load(mail.skip_reading_prefix_cache + at)
    tl.store(requests.skip_reading_prefix_cache + row, skip)
    tl.store(requests.priority + row, tl.load(mail.priority + at))
    tl.store(requests.arrival + row, tl.load(mail.arrival + at))
    tl.store(requests.tie + row, tl.load(mail.tie + at))
    tl.store(requests.num_computed + row, 0)
    tl.store(requests.num_blocks + row, 0)
    tl.store(requests.num_cached + row, 0)
    tl.store(requests.num_keys + row, 0)
    tl.store(requests.num_preemptions + row, 0)
    tl.store(requests.granted + row, 0)
    tl.store(requests.told + row, 0)
    tl.store(requests.in_previous + row, 0)


@triton.jit
def _take_over(a, former, row, z: tl.constexpr):
    """What `former` gets from the step in flight, `row` gets: it has the same id (UPD-16)."""
    lane = tl.arange(0, z.request_lanes)
    there = lane < num_scheduled(a, z)
    scheduled = tl.load(a.decision.row + lane, mask=there, other=NOBODY)
    tl.debug_barrier()
    tl.store(a.decision.row + lane, row, mask=there & (former >= 0) & (scheduled == former))


def intake_torch(state: State, exchange: Exchange, rings: Rings) -> None:
    """The twin of `intake`."""
    mail, taken = exchange.mail, int(exchange.progress[NUM_TAKEN.value])
    posted = min(int(mail.posted), taken + rings.letters)
    for letter in range(taken, posted):
        at = letter % rings.letters
        kind, row = int(mail.kind[at]), int(mail.row[at])
        if kind == ARRIVAL.value:
            _arrive_torch(state, mail, at, row)
        elif kind == END.value:
            end_requests_torch(state, [row] if 0 <= row < state.sizes.num_rows else [])
        else:
            state.set_word(PAUSE, row)
    exchange.progress[NUM_TAKEN.value] = posted


def _arrive_torch(state: State, mail: Mail, at: int, row: int) -> None:
    arrays, sizes = state.arrays, state.sizes
    requests, n = arrays.requests, int(mail.num_prompt[at])
    head, tail = load_waiting_torch(state)
    inside = 0 <= row < sizes.num_rows and 0 <= n <= sizes.row_tokens
    if not inside or requests.stage[row] != ABSENT.value:
        state.report(Fault.ROW)
    elif tail - head == sizes.waiting_capacity:
        state.report(Fault.WAITING)
    else:
        requests.tokens[row, :n] = mail.tokens[at, :n].to(state.device)
        for name in COPIED:
            if name != "takes_over":
                getattr(requests, name)[row] = getattr(mail, name)[at]
        for name in ZEROED:
            getattr(requests, name)[row] = 0
        requests.num_tokens[row], requests.stage[row] = n, WAITING.value
        scheduled = arrays.decision.row[: num_scheduled_torch(state)]
        former = int(mail.takes_over[at])
        scheduled[scheduled == (former if former >= 0 else NOBODY.value)] = row
        arrays.queues.waiting[tail % sizes.waiting_capacity] = row
        state.set_word(WAITING_TAIL, tail + 1)
