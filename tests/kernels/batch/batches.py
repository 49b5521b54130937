"""Random batches, and what they mean said once more in plain Python."""

import random
from dataclasses import dataclass

import torch

from nullblock.kernels.batch.layout import PAD_SLOT, Batch, Inputs, Requests

JUNK = 0x5A5A5A
"""What stands where nothing should be read, and where everything should be written."""


@dataclass(frozen=True, slots=True)
class Case:
    """One batch, and the sizes of its world."""

    requests: Requests
    batch: Batch
    inputs: Inputs
    block_size: int
    num_blocks: int


def case(
    device: torch.device,
    scheduled: list[int],
    *,
    block_size: int = 16,
    max_num_reqs: int | None = None,
    max_num_tokens: int | None = None,
    max_model_len: int = 200,
    rows: int | None = None,
    seed: int = 0,
) -> Case:
    """A batch that computes so many tokens of each of its requests. Blocks are nobody's twice;
    rows are shuffled; all that a kernel should not read, or should write, is junk."""
    rng = random.Random(seed)
    count = len(scheduled)
    most = count if max_num_reqs is None else max_num_reqs
    rows = max(most, 1) + 3 if rows is None else rows
    chosen = rng.sample(range(rows), count)
    requests = Requests.empty(rows, max_model_len, block_size, device)
    requests.token_ids.copy_(torch.randint(0, 50_000, requests.token_ids.shape))
    requests.block_table.fill_(JUNK)
    requests.num_blocks.fill_(JUNK)
    requests.num_computed_tokens.fill_(JUNK)
    num_blocks = 1 + rows * requests.block_table.shape[1]
    free = rng.sample(range(1, num_blocks), num_blocks - 1)
    for row, tokens in zip(chosen, scheduled, strict=True):
        computed = rng.randrange(max_model_len - tokens + 1)
        held = -(-(computed + tokens) // block_size)
        requests.num_computed_tokens[row] = computed
        requests.num_blocks[row] = held
        table = [free.pop() for _ in range(held)]
        requests.block_table[row, :held] = torch.tensor(table, dtype=torch.int32)
    junk = [JUNK] * (most - count)
    batch = Batch(
        torch.tensor(chosen + junk, dtype=torch.int32, device=device),
        torch.tensor([count], dtype=torch.int32, device=device),
        torch.tensor(scheduled + junk, dtype=torch.int32, device=device),
    )
    total = sum(scheduled) if max_num_tokens is None else max_num_tokens
    inputs = Inputs.empty(most, total, device)
    for name in Inputs.__dataclass_fields__:
        getattr(inputs, name).fill_(JUNK)
    return Case(requests, batch, inputs, block_size, num_blocks)


def expected(case: Case) -> dict[str, list[int]]:
    """What a batch should become: request by request, token by token."""
    requests, batch = case.requests, case.batch
    starts, lens = [0], []
    ids, positions, slots = list[int](), list[int](), list[int]()
    for i in range(int(batch.num_reqs)):
        row, count = int(batch.rows[i]), int(batch.num_scheduled_tokens[i])
        computed = int(requests.num_computed_tokens[row])
        starts.append(starts[-1] + count)
        lens.append(computed + count)
        for position in range(computed, computed + count):
            block = int(requests.block_table[row, position // case.block_size])
            ids.append(int(requests.token_ids[row, position]))
            positions.append(position)
            slots.append(block * case.block_size + position % case.block_size)
    padding = len(case.inputs.positions) - len(slots)
    empty = len(batch.rows) - len(lens)
    return {
        "query_start_loc": starts + [starts[-1]] * empty,
        "seq_lens": lens + [0] * empty,
        "input_ids": ids + [0] * padding,
        "positions": positions + [0] * padding,
        "slot_mapping": slots + [PAD_SLOT] * padding,
    }
