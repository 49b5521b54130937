"""Batch preparation: lengths, ids, positions and slots of every token of a step."""

from collections.abc import Iterator

import torch
from figures import Cost, Row, Target
from timing import Call
from workbench import Bench, Peer
from worlds import BLOCK_SIZE, World, world

from nullblock.kernels.batch.lengths import compute_lengths, compute_lengths_torch
from nullblock.kernels.batch.slots import place_tokens, place_tokens_torch
from nullblock.kernels.errors import new_error

TITLE = "Batch preparation"
TEXT = "`compute_lengths` and `place_tokens`: all that a forward pass reads about its tokens."


def rows(bench: Bench) -> Iterator[Row]:
    """Decodes of 256, 1024 and 4096 requests; then 64 requests with a chunk of 128 tokens each."""
    for running in (256, 1024, 4096):
        target = Target(f"prepare-{running}", seconds=8e-6 if running == 256 else 20e-6)
        made = world(bench.device, running, context=1000)
        yield _row(bench, f"{running} decodes", made, target if running in (256, 4096) else None)
    made = world(bench.device, 64, context=1000, scheduled=128)
    yield _row(bench, "64 chunks of 128 tokens", made, None)


def _row(bench: Bench, what: str, made: World, target: Target | None) -> Row:
    error = new_error(bench.device)
    sizes = {"block_size": BLOCK_SIZE, "num_blocks": made.num_blocks}
    given = (made.requests, made.batch, made.inputs, error)

    def ours() -> None:
        compute_lengths(*given)
        place_tokens(*given, **sizes)

    def in_torch() -> Call:
        def call() -> None:
            compute_lengths_torch(*given)
            place_tokens_torch(*given, **sizes)

        return call

    requests, tokens = len(made.batch.rows), len(made.inputs.positions)
    cost = Cost(bytes=requests * 5 * 4 + tokens * (4 + 4 + 4 + 8 + 8))
    peers = {"torch operations": Peer(in_torch), "vLLM Triton": Peer(lambda: _vllm(made))}
    return bench.row(what, ours, cost, peers=peers, target=target)


def _vllm(made: World) -> Call:
    """vLLM's kernels for lengths, positions and slots, where vLLM is installed. Ids are not among
    what they write."""
    from vllm.v1.worker.gpu.block_table import BlockTables
    from vllm.v1.worker.gpu.input_batch import prepare_pos_seq_lens

    running, tokens = len(made.batch.rows), len(made.inputs.positions)
    columns = made.requests.block_table.shape[1]
    device = made.batch.rows.device
    tables = BlockTables([BLOCK_SIZE], running, tokens, [columns], device, [BLOCK_SIZE])
    tables.block_tables[0].gpu.copy_(made.requests.block_table)
    starts = torch.zeros(running + 1, dtype=torch.int32, device=device)
    starts[1:] = made.batch.num_scheduled_tokens.cumsum(0)
    seq_lens = torch.zeros(running, dtype=torch.int32, device=device)
    positions = torch.zeros(tokens, dtype=torch.int64, device=device)
    rows, computed = made.batch.rows, made.requests.num_computed_tokens

    def call() -> None:
        prepare_pos_seq_lens(rows, starts, computed, positions, seq_lens)
        tables.compute_slot_mappings(rows, starts, positions, tokens)

    return call
