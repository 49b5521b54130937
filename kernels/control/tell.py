"""What a step decided, written to the log, so that the next one may be decided before the host
has read it.

Whoever ended before the step is told of in it: once the host has read that, it may use their rows
again. OUT-1 to OUT-6 say what is in a decision.
"""

import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend, use_triton
from nullblock.kernels.control.decision import num_scheduled, num_scheduled_torch
from nullblock.kernels.control.exchange import (
    BLOCKS,
    COMMON_PREFIX,
    COMPUTED_TOKENS,
    ERROR,
    FINISHED,
    NEW_BLOCKS,
    NUM_COLUMNS,
    NUM_HEADER,
    NUM_STEPS,
    NUM_TAKEN,
    OUTPUT_TOKENS,
    OUTPUTS,
    PREEMPTED,
    RAN,
    RESUMED,
    ROW,
    SAMPLES,
    SCHEDULED,
    SCHEDULED_TOKENS,
    SEND_ALL_TOKENS,
    STEP,
    UPDATED,
    VICTIMS,
    Exchange,
    Rings,
)
from nullblock.kernels.control.faults import COUNT, bounded
from nullblock.kernels.control.state import State
from nullblock.kernels.control.words import (
    NUM_COMMON_PREFIX_BLOCKS,
    NUM_FINISHED,
    NUM_NEW_BLOCKS,
    NUM_PREEMPTED,
    NUM_RAN,
)

_NUMBER = tl.constexpr((1 << 31) - 1)
"""What is left of counters that only grow."""


def tell(state: State, exchange: Exchange, rings: Rings, backend: Backend = "auto") -> None:
    """Write the decision to the next place of the log."""
    if not use_triton(state.arrays.words, backend):
        return tell_torch(state, exchange, rings)
    tell_kernel[(1,)](
        state.arrays, exchange, state.sizes, rings.steps, num_warps=state.sizes.num_warps
    )


@triton.jit
def tell_kernel(a, exchange, z: tl.constexpr, STEPS: tl.constexpr):
    """One program."""
    steps = tl.load(exchange.progress + NUM_STEPS)
    place, log, decision, words = steps % STEPS, exchange.log, a.decision, a.words
    columns = log.scheduled + place * (NUM_COLUMNS * z.max_num_seqs)
    scheduled = num_scheduled(a, z)
    victims = bounded(a, tl.load(words + NUM_PREEMPTED), z.max_num_seqs, COUNT)
    _column(columns, ROW, decision.row, scheduled, z)
    _column(columns, SCHEDULED_TOKENS, decision.num_scheduled_tokens, scheduled, z)
    _column(columns, SAMPLES, decision.samples, scheduled, z)
    _column(columns, COMPUTED_TOKENS, decision.num_computed_tokens, scheduled, z)
    _column(columns, OUTPUT_TOKENS, decision.num_output_tokens, scheduled, z)
    _column(columns, NEW_BLOCKS, decision.new_block_counts, scheduled, z)
    _column(columns, RESUMED, decision.resumed, scheduled, z)
    _column(columns, SEND_ALL_TOKENS, decision.send_all_tokens, scheduled, z)
    _column(columns, PREEMPTED, decision.preempted, victims, z)
    most: tl.constexpr = z.max_num_seqs * z.row_blocks
    blocks = bounded(a, tl.load(words + NUM_NEW_BLOCKS), most, COUNT)
    finished = bounded(a, tl.load(words + NUM_FINISHED), z.num_rows, COUNT)
    _copy(log.new_block_ids + place * most, decision.new_block_ids, blocks, z)
    _copy(log.finished + place * z.num_rows, decision.finished, finished, z)
    header = log.header + place * NUM_HEADER
    tl.store(header + STEP, ((steps + 1) & _NUMBER).to(tl.int32))
    tl.store(header + SCHEDULED, scheduled)
    tl.store(header + RAN, tl.load(words + NUM_RAN).to(tl.int32))
    tl.store(header + BLOCKS, blocks.to(tl.int32))
    tl.store(header + VICTIMS, victims.to(tl.int32))
    tl.store(header + FINISHED, finished.to(tl.int32))
    tl.store(header + COMMON_PREFIX, tl.load(words + NUM_COMMON_PREFIX_BLOCKS).to(tl.int32))
    tl.store(header + ERROR, tl.load(a.error))
    tl.store(header + OUTPUTS, 0)
    tl.store(header + UPDATED, 0)
    tl.store(log.taken + place, tl.load(exchange.progress + NUM_TAKEN))
    tl.debug_barrier()
    tl.store(exchange.progress + NUM_STEPS, steps + 1)


@triton.jit
def _column(columns, column: tl.constexpr, source, n, z: tl.constexpr):
    """One column of what was scheduled."""
    lane = tl.arange(0, z.request_lanes)
    values = tl.load(source + lane, mask=lane < n, other=0)
    tl.store(columns + column * z.max_num_seqs + lane, values, mask=lane < n)


@triton.jit
def _copy(to, source, n, z: tl.constexpr):
    """A list that may be long."""
    first = n * 0
    while first < n:  # at most what the list has room for
        i = first + tl.arange(0, z.lanes)
        tl.store(to + i, tl.load(source + i, mask=i < n, other=0), mask=i < n)
        first += z.lanes


def tell_torch(state: State, exchange: Exchange, rings: Rings) -> None:
    """The twin of `tell`."""
    log, decision = exchange.log, state.arrays.decision
    steps = int(exchange.progress[NUM_STEPS.value])
    place = steps % rings.steps
    columns = {
        ROW: decision.row,
        SCHEDULED_TOKENS: decision.num_scheduled_tokens,
        SAMPLES: decision.samples,
        COMPUTED_TOKENS: decision.num_computed_tokens,
        OUTPUT_TOKENS: decision.num_output_tokens,
        NEW_BLOCKS: decision.new_block_counts,
        RESUMED: decision.resumed,
        SEND_ALL_TOKENS: decision.send_all_tokens,
        PREEMPTED: decision.preempted,
    }
    for column, source in columns.items():
        log.scheduled[place, column.value] = source
    log.new_block_ids[place], log.finished[place] = decision.new_block_ids, decision.finished
    header = {
        STEP: (steps + 1) & _NUMBER.value,
        SCHEDULED: num_scheduled_torch(state),
        RAN: state.word(NUM_RAN),
        BLOCKS: state.word(NUM_NEW_BLOCKS),
        VICTIMS: state.word(NUM_PREEMPTED),
        FINISHED: state.word(NUM_FINISHED),
        COMMON_PREFIX: state.word(NUM_COMMON_PREFIX_BLOCKS),
        ERROR: state.arrays.error[0],
        OUTPUTS: 0,
        UPDATED: 0,
    }
    for at, value in header.items():
        log.header[place, at.value] = value
    log.taken[place] = exchange.progress[NUM_TAKEN.value]
    exchange.progress[NUM_STEPS.value] = steps + 1
