"""What a step gives to requests: tokens out of its budget, and the blocks that these need."""

import torch
import triton
import triton.language as tl

from nullblock.kernels.control.faults import TOKENS
from nullblock.kernels.control.publish import publish_torch
from nullblock.kernels.control.ring import pop_front
from nullblock.kernels.control.runs import entry_of, lay_out, run_of
from nullblock.kernels.control.state import State
from nullblock.kernels.control.take import own, take_blocks_torch
from nullblock.kernels.index import blocks_for, row_entry


@triton.jit
def tokens_to_run(a, computed, num_tokens, there, budget, z: tl.constexpr):
    """What each running request of the lanes `there` gets, the budget spent from the first one on:
    int32, 0 elsewhere (RUN-1, RUN-2).

    Sets TOKENS if one would get less than none: vLLM 0.22.1 does that with a request longer than
    max_model_len.
    """
    most = tl.minimum(num_tokens - computed, z.threshold)
    most = tl.where(there, tl.minimum(most, z.max_model_len - 1 - computed), 0)
    if tl.min(most, 0) < 0:
        tl.atomic_or(a.error, TOKENS)
    most = tl.maximum(most, 0).to(tl.int64)
    before = tl.cumsum(most, 0) - most
    return tl.minimum(most, tl.maximum(budget - before, 0)).to(tl.int32)


@triton.jit
def blocks_lacking(computed, tokens, held, z: tl.constexpr):
    """Blocks that requests lack for so many more tokens, no further than max_model_len; for no
    tokens none, even if a request longer than that lacks some (ALLOC-1, RUN-6)."""
    slots = tl.minimum(computed + tokens, z.max_model_len)
    lacking = tl.maximum(blocks_for(slots, z.block_size) - held, 0)
    return tl.where(tokens > 0, lacking, 0)


@triton.jit
def plan(a, first, last, fixed, budget, free, z: tl.constexpr):
    """Give the running requests from place `first` to `last` their tokens, one after another, up
    to the first one that lacks blocks; lay out runs of what they lack (RUN-1, RUN-4, TABLE-10).

    `fixed`: the tokens of all of them, if it is not negative; otherwise they share the budget.
    Returns the place of who lacks blocks, `last` if nobody does, with the tokens that it asks for
    and the blocks that it lacks; and of the others the tokens, the blocks and the runs.
    """
    lane = tl.arange(0, z.request_lanes)
    there = (lane >= first) & (lane < last)
    row = tl.load(a.queues.running + lane, mask=there, other=0)
    computed = tl.load(a.requests.num_computed + row, mask=there, other=0)
    num_tokens = tl.load(a.requests.num_tokens + row, mask=there, other=0)
    held = tl.load(a.requests.num_blocks + row, mask=there, other=0)
    tokens = tokens_to_run(a, computed, num_tokens, there, budget, z)
    tokens = tl.where(there & (fixed >= 0), fixed, tokens)
    lacking = tl.where(there, blocks_lacking(computed, tokens, held, z), 0)
    short = tl.min(tl.where(there & (tl.cumsum(lacking, 0) > free), lane, last), 0)
    asked = tl.sum(tl.where(lane == short, tokens, 0), 0)
    lacks = tl.sum(tl.where(lane == short, lacking, 0), 0)
    there = there & (lane < short)
    spent = tl.sum(tl.where(there, tokens, 0).to(tl.int64), 0)
    tl.store(a.requests.granted + row, tokens, mask=there)
    tl.store(a.requests.num_blocks + row, held + lacking, mask=there)
    total, runs = lay_out(a, row, held, lacking, there, z)
    return short, asked, lacks, spent, total, runs


@triton.jit
def give_blocks(a, total, runs, head, tail, z: tl.constexpr):
    """Pop as many blocks as the runs have entries and let them be the requests', at the ends of
    their tables (POOL-10, TABLE-10). There are so many; returns the queue's head."""
    if total > 0:
        head = pop_front(a, head, tail, total, z)
        lane = tl.arange(0, z.lanes)
        base = tl.zeros([], tl.int32)
        while base < total:
            item = base + lane
            there = item < total
            block = tl.load(a.scratch.blocks + item, mask=there, other=0)
            own(a, block, there)
            row, column = entry_of(a, item, run_of(a, item, there, total, runs, z), there)
            entry = row_entry(row.to(tl.int64), z.row_blocks, column)
            tl.store(a.requests.table + entry, block, mask=there)
            base += z.lanes
        tl.debug_barrier()
    return head


# The twins' part --------------------------------------------------------------------------------


def blocks_lacking_torch(state: State, row: int, tokens: int) -> int:
    """Blocks that one request lacks for so many more tokens; for none, none (ALLOC-1, RUN-6)."""
    if not tokens:
        return 0
    requests, sizes = state.arrays.requests, state.sizes
    slots = min(int(requests.num_computed[row]) + tokens, sizes.max_model_len)
    return max(-(-slots // sizes.block_size) - int(requests.num_blocks[row]), 0)


def grant_torch(state: State, row: int, tokens: int) -> None:
    """Give one request its tokens and the blocks that it lacks, which are free."""
    requests, sizes = state.arrays.requests, state.sizes
    held = int(requests.num_blocks[row])
    blocks: torch.Tensor = take_blocks_torch(state, blocks_lacking_torch(state, row, tokens))
    requests.table[row, held : held + len(blocks)] = blocks
    requests.num_blocks[row] += len(blocks)
    requests.granted[row] = tokens
    if sizes.enable_prefix_caching:
        computed, num_tokens = int(requests.num_computed[row]), int(requests.num_tokens[row])
        full = min(computed + tokens, num_tokens) // sizes.block_size
        if full > int(requests.num_cached[row]):
            publish_torch(state, row, full)
