"""The update after a step: sampled tokens come in, and requests end by them.

Everybody in the step in flight who samples takes a token, wherever it is now: it may have been
preempted since (UPD-2). Who is not alive any more takes none. All take at once, and all who end
leave at once, as if one after another in the order of the step.

| what | rule |
|---|---|
| one token for each who samples, none for a chunk | UPD-2, UPD-3 |
| whether it ends the request | UPD-4, in `stop.py` |
| who ends gives its blocks back | LIFE-6, POOL-12, in `ends.py` |
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend, check, use_triton
from nullblock.kernels.control.decision import num_scheduled, num_scheduled_torch
from nullblock.kernels.control.ends import end_requests, end_requests_torch
from nullblock.kernels.control.exchange import (
    ERROR,
    NUM_COLUMNS,
    NUM_HEADER,
    NUM_STEPS,
    OUTPUT_ROW,
    OUTPUT_TOKEN,
    OUTPUT_WHY,
    OUTPUTS,
    UPDATED,
    Exchange,
    Rings,
)
from nullblock.kernels.control.faults import COUNT, ROW, Fault, bounded, bounded_torch
from nullblock.kernels.control.state import State
from nullblock.kernels.control.stop import CONTINUE, why_it_stops, why_it_stops_torch
from nullblock.kernels.control.words import ABSENT, NUM_SCHEDULED


def update(
    state: State,
    exchange: Exchange,
    rings: Rings,
    sampled: torch.Tensor,
    backend: Backend = "auto",
) -> None:
    """Take in the tokens of the step in flight: of the one that was told last.

    `sampled`: int32 [S], in the order of the step; what is given for a chunk is ignored. Sets
    ROW in the error word for a negative token, and for a request whose row is full.
    """
    most = state.sizes.max_num_seqs
    check("sampled", sampled, (torch.int32,), (most,), state.device)
    if not use_triton(sampled, backend):
        return update_torch(state, exchange, rings, sampled)
    warps = state.sizes.num_warps
    update_kernel[(1,)](state.arrays, exchange, sampled, state.sizes, rings.steps, num_warps=warps)


@triton.jit
def update_kernel(a, exchange, sampled, z: tl.constexpr, STEPS: tl.constexpr):
    """One program, a lane for everybody scheduled."""
    requests, decision = a.requests, a.decision
    lane = tl.arange(0, z.request_lanes)
    there = lane < num_scheduled(a, z)
    row = tl.load(decision.row + lane, mask=there, other=0)
    stage = tl.load(requests.stage + row, mask=there, other=ABSENT)
    samples = tl.load(decision.samples + lane, mask=there, other=0)
    takes = there & (stage != ABSENT) & (samples != 0)
    token = tl.load(sampled + lane, mask=takes, other=0)
    n = tl.load(requests.num_tokens + row, mask=takes, other=0)
    n = bounded(a, n, z.row_tokens, COUNT)
    wrong = takes & ((token < 0) | (n == z.row_tokens))
    if tl.max(wrong.to(tl.int32), 0) > 0:
        tl.atomic_or(a.error, ROW)
    takes = takes & (wrong == 0)
    tl.debug_barrier()  # everybody has seen the lengths as they were
    tl.store(requests.tokens + row.to(tl.int64) * z.row_tokens + n, token, mask=takes)
    tl.store(requests.num_tokens + row, n + 1, mask=takes)
    why = why_it_stops(requests, row, token, n + 1, takes, z)
    tl.store(a.words + NUM_SCHEDULED, 0)
    tl.debug_barrier()
    end_requests(a, row, takes & (why != CONTINUE), z)
    # Last of all: what went wrong until here is told with this step, not with the next one.
    write_outputs(a, exchange, row, token, why, takes, z, STEPS)


@triton.jit
def write_outputs(a, exchange, row, token, why, takes, z: tl.constexpr, STEPS: tl.constexpr):
    """Write who took which token to the log, without gaps."""
    place = (tl.load(exchange.progress + NUM_STEPS) + STEPS - 1) % STEPS
    columns = exchange.log.scheduled + place * (NUM_COLUMNS * z.max_num_seqs)
    one = takes.to(tl.int32)
    rank = tl.cumsum(one, 0) - one
    tl.store(columns + OUTPUT_ROW * z.max_num_seqs + rank, row, mask=takes)
    tl.store(columns + OUTPUT_TOKEN * z.max_num_seqs + rank, token, mask=takes)
    tl.store(columns + OUTPUT_WHY * z.max_num_seqs + rank, why, mask=takes)
    tl.debug_barrier()
    header = exchange.log.header + place * NUM_HEADER
    tl.store(header + OUTPUTS, tl.sum(one, 0))
    tl.store(header + UPDATED, 1)
    tl.store(header + ERROR, tl.load(a.error))


def update_torch(state: State, exchange: Exchange, rings: Rings, sampled: torch.Tensor) -> None:
    """The twin of `update`."""
    arrays, requests = state.arrays, state.arrays.requests
    n = num_scheduled_torch(state)
    rows = arrays.decision.row[:n].long()
    takes = (requests.stage[rows] != ABSENT.value) & (arrays.decision.samples[:n] != 0)
    rows, tokens = rows[takes], sampled[:n][takes]
    most = state.sizes.row_tokens
    at = bounded_torch(arrays.error, requests.num_tokens[rows], most, Fault.COUNT).long()
    fits = (tokens >= 0) & (at < most)
    if not fits.all():
        state.report(Fault.ROW)
        rows, tokens, at = rows[fits], tokens[fits], at[fits]
    requests.tokens[rows, at] = tokens
    requests.num_tokens[rows] = at.int() + 1
    why = why_it_stops_torch(requests, rows, tokens, requests.num_tokens[rows], state.sizes)
    end_requests_torch(state, rows[why != CONTINUE.value].tolist())
    state.set_word(NUM_SCHEDULED, 0)
    log, place = exchange.log, (int(exchange.progress[NUM_STEPS.value]) - 1) % rings.steps
    columns = log.scheduled[place, :, : len(rows)]
    columns[OUTPUT_ROW.value] = rows.int()
    columns[OUTPUT_TOKEN.value] = tokens
    columns[OUTPUT_WHY.value] = why
    header = log.header[place]
    header[OUTPUTS.value], header[UPDATED.value] = len(rows), 1
    header[ERROR.value] = arrays.error[0]
