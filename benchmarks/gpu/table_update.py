"""The persistent batch: what a step changed, against building everything anew."""

from collections.abc import Iterator
from functools import partial

import torch
from figures import Cost, Row
from timing import Call
from workbench import Bench, Peer
from worlds import BLOCK_SIZE, World, world

from nullblock.kernels.batch.append import Growth, Scratch, append_rows
from nullblock.kernels.batch.gather import gather_block_tables
from nullblock.kernels.errors import new_error

TITLE = "Persistent batch"
TEXT = (
    "`append_rows`: in a decode step one row in 16 gains a block. Rebuilding writes every table "
    "again from a list on the device (a rebuild on the host and its transfer would come on top)."
)


def rows(bench: Bench) -> Iterator[Row]:
    """Tables of 256 and 4096 requests of 1,000 tokens grow; then they are put in batch order."""
    for running in (256, 4096):
        made = world(bench.device, running, context=1000)
        yield _grow(bench, made, running)
    for running in (256, 4096):
        yield _gather(bench, world(bench.device, running, context=1000), running)


def _gather(bench: Bench, made: World, running: int) -> Row:
    table, index = made.requests.block_table, made.batch.rows.long()
    tables, error = torch.zeros_like(table), new_error(bench.device)
    return bench.row(
        f"tables of {running} requests in batch order",
        partial(gather_block_tables, made.requests, made.batch, tables, error),
        Cost(bytes=8 * int(made.requests.num_blocks.sum())),
        peers={
            "torch index_select": Peer(
                lambda: partial(torch.index_select, table, 0, index, out=tables)
            )
        },
    )


def _grow(bench: Bench, made: World, running: int) -> Row:
    device, grown = bench.device, running // BLOCK_SIZE
    requests = made.requests
    growth = Growth(
        made.batch.rows[:grown].clone(),
        torch.full((1,), grown, dtype=torch.int32, device=device),
        torch.ones(grown, dtype=torch.int32, device=device),
        torch.zeros(grown, dtype=torch.int32, device=device),
        torch.randint(1, made.num_blocks, (grown,), dtype=torch.int32, device=device),
    )
    scratch, error = Scratch.empty(running, grown, device), new_error(device)
    before = requests.num_blocks.clone()
    flat = requests.block_table.flatten().clone()
    row = growth.rows.long()

    def rebuild() -> Call:
        def call() -> None:
            requests.block_table.copy_(flat.view_as(requests.block_table))
            requests.num_blocks.copy_(before)

        return call

    def index_put() -> Call:
        def call() -> None:
            requests.block_table.index_put_((row, before[row].long()), growth.values)
            requests.num_blocks.index_add_(0, row, growth.counts)

        return call

    reset = partial(requests.num_blocks.copy_, before)
    return bench.row(
        f"{grown} of {running} tables grow by a block",
        partial(append_rows, requests.block_table, requests.num_blocks, growth, scratch, error),
        Cost(bytes=grown * 6 * 4),
        reset=reset,
        peers={
            "torch index_put_": Peer(index_put, reset),
            "rebuilding": Peer(rebuild, reset),
        },
    )
