"""The persistent batch: what a worker remembers of requests, by the row that each has as long as
it runs, and what it makes of that for one step.

It hears of nothing but steps. Only what a step changes is touched: the blocks that were appended,
and the tokens and the table of who is new, resumed, or was not in the step before.
"""

from dataclasses import dataclass

import torch

from nullblock.impl.step import Step

FIRST_ROWS, FIRST_TOKENS = 8, 64
"""Rows, and tokens that a row has room for, at first; both double when that is not enough."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """One step for the model: all scheduled tokens in one row, request after request."""

    input_ids: torch.Tensor
    """[tokens], int64."""
    positions: torch.Tensor
    """[tokens], int64, from 0."""
    slot_mapping: torch.Tensor
    """[tokens], int64: where in the cache keys and values go, block * block_size + offset."""
    query_start_loc: torch.Tensor
    """[requests + 1], int32: where each request's tokens begin."""
    seq_lens: torch.Tensor
    """[requests], int32: tokens to be seen by each, those of this step included."""
    block_table: torch.Tensor
    """[requests, blocks], int32; behind a request's blocks stands anything."""
    max_query_len: int
    max_seq_len: int


class Batch:
    """Tokens and block tables of the requests that run, a row for each."""

    def __init__(self, block_size: int, device: str = "cpu") -> None:
        self.block_size, self.device = block_size, device
        self.tokens = torch.zeros(0, 0, dtype=torch.int64, device=device)
        """[rows, tokens]: prompt and output."""
        self.table = torch.zeros(0, 0, dtype=torch.int32, device=device)
        """[rows, blocks]."""
        self.num_blocks = torch.zeros(0, dtype=torch.int64)
        """[rows], on the host: how many of the table are the request's."""

    def take(self, step: Step) -> None:
        """Apply what a step tells (OUT-2, OUT-3)."""
        counts = step.new_block_counts.tolist()
        after = step.num_computed_tokens + step.num_scheduled_tokens
        self._make_room(int(step.rows.max(initial=-1)) + 1, int(after.max(initial=0)) + 1)
        sent = dict(step.all_token_ids)
        for request in step.admitted:
            if not request.num_preemptions:
                sent[request.id] = request.tokens.tolist()
        first = 0
        blocks = torch.from_numpy(step.new_block_ids).to(self.device)
        for i, (id, row) in enumerate(zip(step.ids, step.rows.tolist(), strict=True)):
            if i >= step.running:
                self.num_blocks[row] = 0
            if counts[i]:
                self._append_blocks(row, blocks[first : first + counts[i]])
                first += counts[i]
            if id in sent:
                self._make_room(row + 1, len(sent[id]) + 1)
                self.tokens[row, : len(sent[id])] = torch.tensor(sent[id], device=self.device)

    def inputs(self, step: Step) -> Inputs:
        """What the model computes in this step; `take` comes first."""
        rows = torch.from_numpy(step.rows).to(self.device)
        computed = torch.from_numpy(step.num_computed_tokens).to(self.device)
        scheduled = torch.from_numpy(step.num_scheduled_tokens).to(self.device)
        start = torch.zeros(len(rows) + 1, dtype=torch.int64, device=self.device)
        torch.cumsum(scheduled, 0, out=start[1:])
        which = torch.repeat_interleave(torch.arange(len(rows), device=self.device), scheduled)
        offset = torch.arange(len(which), device=self.device) - start[:-1][which]
        positions, row = computed[which] + offset, rows[which]
        block = self.table[row, positions // self.block_size].long()
        seq_lens = step.num_computed_tokens + step.num_scheduled_tokens
        longest = int(seq_lens.max(initial=0))
        return Inputs(
            input_ids=self.tokens[row, positions],
            positions=positions,
            slot_mapping=block * self.block_size + positions % self.block_size,
            query_start_loc=start.int(),
            seq_lens=(computed + scheduled).int(),
            block_table=self.table[rows, : -(-longest // self.block_size)],
            max_query_len=int(step.num_scheduled_tokens.max(initial=0)),
            max_seq_len=longest,
        )

    def append(self, step: Step, sampled: torch.Tensor) -> None:
        """Note the tokens that the step sampled, one for each request; a chunk's is none."""
        after = step.num_computed_tokens + step.num_scheduled_tokens
        rows = torch.from_numpy(step.rows[step.samples]).to(self.device)
        at = torch.from_numpy(after[step.samples]).to(self.device)
        self.tokens[rows, at] = sampled[torch.from_numpy(step.samples).to(self.device)]

    def _append_blocks(self, row: int, blocks: torch.Tensor) -> None:
        have = int(self.num_blocks[row])
        self.num_blocks[row] = have + len(blocks)
        self._make_room(row + 1, (have + len(blocks)) * self.block_size)
        self.table[row, have : have + len(blocks)] = blocks

    def _make_room(self, rows: int, tokens: int) -> None:
        """See that there are so many rows, with room for so many tokens and their blocks."""
        have_rows, have_tokens = self.tokens.shape
        if rows <= have_rows and tokens <= have_tokens:
            return
        n = max(FIRST_ROWS, have_rows if rows <= have_rows else max(rows, 2 * have_rows))
        wide = tokens <= have_tokens
        width = max(FIRST_TOKENS, have_tokens if wide else max(tokens, 2 * have_tokens))
        self.tokens = _grown(self.tokens, n, width)
        self.table = _grown(self.table, n, -(-width // self.block_size))
        self.num_blocks = _grown(self.num_blocks[:, None], n, 1)[:, 0]


def _grown(tensor: torch.Tensor, rows: int, columns: int) -> torch.Tensor:
    """The same numbers in a larger tensor."""
    larger = tensor.new_zeros(rows, columns)
    larger[: tensor.shape[0], : tensor.shape[1]] = tensor
    return larger
