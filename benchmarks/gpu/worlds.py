"""Batches of any size on any device, for the tables that need one."""

from dataclasses import dataclass

import torch

from nullblock.kernels.batch.layout import Batch, Inputs, Requests

BLOCK_SIZE = 16


@dataclass(frozen=True, slots=True)
class World:
    """Some running requests and the batch that computes tokens of all of them."""

    requests: Requests
    batch: Batch
    inputs: Inputs
    num_blocks: int


def world(
    device: torch.device, running: int, *, context: int, scheduled: int = 1, spare: int = 0
) -> World:
    """So many requests with so many tokens computed; blocks shuffled, rows shuffled.

    `spare`: tokens of the batch's room that this batch leaves empty.
    """
    length = context + scheduled
    columns = -(-length // BLOCK_SIZE) + 1
    num_blocks = running * columns + 1
    requests = Requests.empty(running, columns * BLOCK_SIZE, BLOCK_SIZE, device)
    shuffled = torch.randperm(num_blocks - 1, device=device) + 1
    requests.block_table.copy_(shuffled[: running * columns].view(running, columns))
    requests.num_blocks.fill_(columns - 1)
    requests.num_computed_tokens.fill_(context)
    requests.num_tokens.fill_(length)
    batch = Batch(
        torch.randperm(running, device=device).int(),
        torch.full((1,), running, dtype=torch.int32, device=device),
        torch.full((running,), scheduled, dtype=torch.int32, device=device),
    )
    inputs = Inputs.empty(running, running * scheduled + spare, device)
    return World(requests, batch, inputs, num_blocks)
