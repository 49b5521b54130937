"""The end of a step: what the worker is told, and what counts as computed from now on (UPD-1)."""

import torch
import triton
import triton.language as tl

from nullblock.kernels.arguments import Backend, use_triton
from nullblock.kernels.control.faults import COUNT, Fault, bounded, bounded_torch
from nullblock.kernels.control.queues import num_running
from nullblock.kernels.control.runs import entry_of, lay_out, run_of
from nullblock.kernels.control.state import State
from nullblock.kernels.control.words import (
    NUM_COMMON_PREFIX_BLOCKS,
    NUM_ENDED,
    NUM_FINISHED,
    NUM_NEW_BLOCKS,
    NUM_RAN,
    NUM_RUNNING,
    NUM_SCHEDULED,
    NUM_TOKENS,
)
from nullblock.kernels.index import row_entry


def decide(state: State, backend: Backend = "auto") -> None:
    """Turn what was granted into `Decision`, and count it as computed (OUT-1 to OUT-6, UPD-1)."""
    if not use_triton(state.arrays.words, backend):
        return decide_torch(state)
    decide_kernel[(1,)](state.arrays, state.sizes, num_warps=state.sizes.num_warps)


@triton.jit
def num_scheduled(a, z: tl.constexpr):
    """How many are in the step in flight, int32."""
    return bounded(a, tl.load(a.words + NUM_SCHEDULED), z.max_num_seqs, COUNT).to(tl.int32)


def num_scheduled_torch(state: State) -> int:
    """The twin of `num_scheduled`."""
    a, most = state.arrays, state.sizes.max_num_seqs
    return int(bounded_torch(a.error, a.words[NUM_SCHEDULED.value], most, Fault.COUNT))


@triton.jit
def decide_kernel(a, z: tl.constexpr):
    """One program."""
    decide_step(a, z)


@triton.jit
def decide_step(a, z: tl.constexpr):
    """The whole phase."""
    lane = tl.arange(0, z.request_lanes)
    count = num_running(a, z)
    ran = tl.load(a.words + NUM_RAN).to(tl.int32)
    row = tl.load(a.queues.running + lane, mask=lane < count, other=0)
    granted = tl.load(a.requests.granted + row, mask=lane < count, other=0)
    there = granted > 0
    at = tl.cumsum(there.to(tl.int32), 0) - 1
    _tell_progress(a, row, there, at, granted)
    _tell_admission(a, row, there, at, lane < ran)
    _tell_blocks(a, row, there, at, z)
    tl.debug_barrier()
    tl.store(a.requests.in_previous + row, there.to(tl.int32), mask=lane < count)
    common = tl.zeros([], tl.int32)
    if z.enable_prefix_caching:
        if count > 0:
            common = _common_prefix(a, count, z)
    tl.store(a.words + NUM_COMMON_PREFIX_BLOCKS, common.to(tl.int64))
    tl.store(a.words + NUM_SCHEDULED, tl.sum(there.to(tl.int64), 0))
    tl.store(a.words + NUM_TOKENS, tl.sum(granted.to(tl.int64), 0))
    tl.store(a.words + NUM_RAN, tl.sum((there & (lane < ran)).to(tl.int64), 0))
    _tell_ends(a, z)
    tl.debug_barrier()


@triton.jit
def _tell_progress(a, row, there, at, granted):
    """Who gets how many tokens, behind which, and whether one is sampled; they count as computed
    (OUT-1, UPD-1)."""
    computed = tl.load(a.requests.num_computed + row, mask=there, other=0)
    num_tokens = tl.load(a.requests.num_tokens + row, mask=there, other=0)
    num_prompt = tl.load(a.requests.num_prompt + row, mask=there, other=0)
    after = computed + granted
    tl.store(a.decision.row + at, row, mask=there)
    tl.store(a.decision.num_scheduled_tokens + at, granted, mask=there)
    tl.store(a.decision.num_computed_tokens + at, computed, mask=there)
    tl.store(a.decision.num_output_tokens + at, num_tokens - num_prompt, mask=there)
    tl.store(a.decision.samples + at, (after >= num_tokens).to(tl.int32), mask=there)
    tl.store(a.requests.num_computed + row, after, mask=there)


@triton.jit
def _tell_admission(a, row, there, at, ran):
    """Who is back from a preemption (WAIT-9), and who needs all its tokens sent again (OUT-3)."""
    before = tl.load(a.requests.num_preemptions + row, mask=there, other=0)
    in_previous = tl.load(a.requests.in_previous + row, mask=there, other=0)
    resumed = (ran == 0) & (before > 0)
    send_all = resumed | ran & (in_previous == 0)
    tl.store(a.decision.resumed + at, resumed.to(tl.int32), mask=there)
    tl.store(a.decision.send_all_tokens + at, send_all.to(tl.int32), mask=there)


@triton.jit
def _tell_blocks(a, row, there, at, z: tl.constexpr):
    """The blocks that were appended; of who was admitted all of them (OUT-2)."""
    told = tl.load(a.requests.told + row, mask=there, other=0)
    held = tl.load(a.requests.num_blocks + row, mask=there, other=0)
    tl.store(a.decision.new_block_counts + at, held - told, mask=there)
    total, runs = lay_out(a, row, told, held - told, there, z)
    lane = tl.arange(0, z.lanes)
    base = tl.zeros([], tl.int32)
    while base < total:
        item = base + lane
        some = item < total
        of, column = entry_of(a, item, run_of(a, item, some, total, runs, z), some)
        entry = row_entry(of.to(tl.int64), z.row_blocks, column)
        block = tl.load(a.requests.table + entry, mask=some, other=0)
        tl.store(a.decision.new_block_ids + item, block, mask=some)
        base += z.lanes
    tl.store(a.words + NUM_NEW_BLOCKS, total.to(tl.int64))


@triton.jit
def _common_prefix(a, count, z: tl.constexpr):
    """Leading blocks of the first running request that every request holds (OUT-4)."""
    lane = tl.arange(0, z.lanes)
    row = tl.load(a.queues.running)
    held = bounded(a, tl.load(a.requests.num_blocks + row), z.row_blocks, COUNT)
    table = a.requests.table + row.to(tl.int64) * z.row_blocks
    common = tl.zeros([], tl.int32)
    base = tl.zeros([], tl.int32)
    while (base < held) & (common == base):
        column = base + lane
        there = column < held
        block = tl.load(table + column, mask=there, other=0)
        holders = tl.load(a.pool.ref_cnt + block, mask=there, other=0)
        end = tl.minimum(held, base + z.lanes)
        common = tl.min(tl.where(there & (holders != count), column, end), 0)
        base += z.lanes
    return common


@triton.jit
def _tell_ends(a, z: tl.constexpr):
    """Who ended since the step before (LIFE-6)."""
    lane = tl.arange(0, z.lanes)
    ended = bounded(a, tl.load(a.words + NUM_ENDED), z.num_rows, COUNT).to(tl.int32)
    base = tl.zeros([], tl.int32)
    while base < ended:
        there = base + lane < ended
        row = tl.load(a.queues.ended + base + lane, mask=there, other=0)
        tl.store(a.decision.finished + base + lane, row, mask=there)
        base += z.lanes
    tl.debug_barrier()
    tl.store(a.words + NUM_FINISHED, ended.to(tl.int64))
    tl.store(a.words + NUM_ENDED, tl.zeros([], tl.int64))


# The twin ---------------------------------------------------------------------------------------


def decide_torch(state: State) -> None:
    """The same, column by column."""
    requests, decision = state.arrays.requests, state.arrays.decision
    count, ran = state.word(NUM_RUNNING), state.word(NUM_RAN)
    running = state.arrays.queues.running[:count].long()
    places = requests.granted[running].nonzero()[:, 0]
    rows, n = running[places], len(places)
    granted, computed = requests.granted[rows], requests.num_computed[rows]
    resumed = (places >= ran) & (requests.num_preemptions[rows] > 0)
    columns = {
        "row": rows,
        "num_scheduled_tokens": granted,
        "num_computed_tokens": computed,
        "num_output_tokens": requests.num_tokens[rows] - requests.num_prompt[rows],
        "samples": computed + granted >= requests.num_tokens[rows],
        "new_block_counts": requests.num_blocks[rows] - requests.told[rows],
        "resumed": resumed,
        "send_all_tokens": resumed | (places < ran) & (requests.in_previous[rows] == 0),
    }
    for name, column in columns.items():
        getattr(decision, name)[:n] = column.to(torch.int32)
    new = [
        requests.table[row, int(requests.told[row]) : int(requests.num_blocks[row])]
        for row in rows.tolist()
    ]
    blocks = torch.cat(new) if new else rows.to(torch.int32)
    decision.new_block_ids[: len(blocks)] = blocks
    requests.num_computed[rows] += granted
    requests.in_previous[running] = (requests.granted[running] > 0).to(torch.int32)
    ended = state.word(NUM_ENDED)
    decision.finished[:ended] = state.arrays.queues.ended[:ended]
    found = {
        NUM_COMMON_PREFIX_BLOCKS: _common_prefix_torch(state, count),
        NUM_SCHEDULED: n,
        NUM_TOKENS: int(granted.sum()),
        NUM_NEW_BLOCKS: len(blocks),
        NUM_RAN: int((places < ran).sum()),
        NUM_FINISHED: ended,
        NUM_ENDED: 0,
    }
    for word, value in found.items():
        state.set_word(word, value)


def _common_prefix_torch(state: State, count: int) -> int:
    """Leading blocks of the first running request that every request holds (OUT-4)."""
    if not count or not state.sizes.enable_prefix_caching:
        return 0
    requests, row = state.arrays.requests, int(state.arrays.queues.running[0])
    blocks = requests.table[row, : int(requests.num_blocks[row])].long()
    return int((state.arrays.pool.ref_cnt[blocks] == count).to(torch.int32).cumprod(0).sum())
