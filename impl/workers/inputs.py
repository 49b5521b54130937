"""What the model reads in a step, made of a mirror: no list of requests is walked."""

from dataclasses import dataclass

import numpy as np

from nullblock.impl.arrays import Blocks, Ints, Tokens, cells
from nullblock.impl.workers.mirror import Mirror


@dataclass(slots=True)
class ModelInput:
    """The tokens of all scheduled requests end to end, each request's after the one before."""

    input_ids: Tokens
    positions: Ints
    slot_mapping: Ints
    """Where the key and value of each token go: block × block size + place in the block."""
    query_start: Ints
    """Where each request's tokens start, and the end: one more than there are requests."""
    seq_lens: Ints
    """Of each request, the tokens computed after the step."""
    block_table: Blocks
    """A view of the mirror's: request i stands in row `rows[i]`."""
    rows: Ints
    logits: Ints
    """Of each request, its last token, from which one is sampled if it samples."""


def model_input(mirror: Mirror) -> ModelInput:
    """The input of the step that was applied last.

    Raises RuntimeError if there is none, ValueError for a token that has no slot: vLLM 0.22.1
    schedules tokens behind the last block of a prompt longer than max_model_len.
    """
    work = mirror.work
    if work is None:
        raise RuntimeError("no step waits for tokens: apply() the next message first")
    rows, counts, size = work.rows, work.num_scheduled, mirror.config.block_size
    seq_lens = work.num_computed + counts
    short = mirror.num_blocks[work.places] * size < seq_lens
    if short.any():
        id = mirror.ids[int(np.arange(mirror.count)[work.places][short.argmax()])]
        raise ValueError(f"request {id!r} has tokens to compute and no slots for them")
    if work.num_tokens == len(counts):
        starts = np.arange(len(counts) + 1)
    else:
        starts = np.concatenate(([0], np.cumsum(counts)))
    which, positions = cells(work.num_computed, counts, work.num_tokens)
    there = rows[which]
    blocks, offsets = np.divmod(positions, size)
    slots = mirror.table[there, blocks] * np.int64(size)
    slots += offsets
    return ModelInput(
        input_ids=mirror.tokens[there, positions],
        positions=positions,
        slot_mapping=slots,
        query_start=starts,
        seq_lens=seq_lens,
        block_table=mirror.table,
        rows=rows,
        logits=starts[1:] - 1,
    )
