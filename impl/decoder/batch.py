"""The persistent batch of a worker: what it remembers of requests, a row for each that runs.

It hears of nothing but steps. Only what a step changes is written: who left, the blocks that were
appended, and the tokens of who is new or resumed (OUT-2, OUT-3).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nullblock.impl.arrays import Ints
from nullblock.impl.step import Step
from nullblock.kernels.arguments import Backend
from nullblock.kernels.batch.append import Growth, Scratch, append_rows
from nullblock.kernels.batch.gather import gather_block_tables
from nullblock.kernels.batch.layout import Batch, Inputs, Requests
from nullblock.kernels.batch.lengths import compute_lengths
from nullblock.kernels.batch.rows import advance
from nullblock.kernels.batch.slots import place_tokens
from nullblock.kernels.batch.update import Delta, Scratches, update_batch

FIRST_ROWS, FIRST_TOKENS = 2, 64
"""Rows, and tokens that a row has room for, at first; both double when that is not enough."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """One step for the model: all scheduled tokens behind one another, request after request."""

    batch: Batch
    inputs: Inputs
    block_tables: torch.Tensor
    """``[requests, columns]``, in the order of the step."""
    num_common_prefix_blocks: int


class PersistentBatch:
    """Rows of requests, and the steps that change them. A pool of `num_blocks` blocks."""

    def __init__(
        self, num_blocks: int, block_size: int, device: str, error: torch.Tensor, backend: Backend
    ) -> None:
        self.num_blocks, self.block_size, self.device = num_blocks, block_size, device
        self.error, self.backend = error, backend
        self.requests = Requests.empty(FIRST_ROWS, FIRST_TOKENS, block_size, device)
        self.rows: dict[str, int] = {}
        """Of those who run."""
        self.said: dict[str, dict[int, int]] = {}
        """What was sampled here, by request and position: the scheduler may not know it yet when
        it tells a request's tokens again."""

    def take(self, step: Step) -> None:
        """Apply what a step tells."""
        gone = [self.rows.pop(id) for id in (*step.preempted, *step.finished) if id in self.rows]
        for id in step.finished:
            self.said.pop(id, None)
        self.rows.update(zip(step.ids, step.rows.tolist(), strict=True))
        sent = self._sent(step)
        longest = max((len(tokens) for tokens in sent.values()), default=0)
        after = int((step.num_computed_tokens + step.num_scheduled_tokens).max(initial=0))
        self._make_room(int(step.rows.max(initial=0)) + 1, max(longest, after) + 1)
        if not (gone or sent or len(step.new_block_ids)):
            return  # a decode within its blocks
        places = np.array(list(sent), np.int64)
        delta = Delta(
            gone=self._tensor(np.array(gone, np.int64)),
            num_gone=self._count(len(gone)),
            blocks=self._blocks(step),
            tokens=self._growth(
                step.rows[places],
                np.array([len(tokens) for tokens in sent.values()], np.int64),
                np.ones(len(places), np.int32),
                np.array([token for tokens in sent.values() for token in tokens], np.int32),
            ),
            num_computed_tokens=self._tensor(step.num_computed_tokens[places]),
        )
        scratches = Scratches(self._scratch(delta.blocks), self._scratch(delta.tokens))
        update_batch(self.requests, delta, scratches, self.error, backend=self.backend)

    def prepare(self, step: Step) -> Prepared:
        """What the model computes in this step; `take` comes first."""
        n, total = len(step.ids), int(step.num_scheduled_tokens.sum())
        batch = Batch(
            self._tensor(step.rows), self._count(n), self._tensor(step.num_scheduled_tokens)
        )
        inputs = Inputs.empty(n, total, self.device)
        requests, error, backend = self.requests, self.error, self.backend
        compute_lengths(requests, batch, inputs, error, backend=backend)
        place_tokens(
            requests,
            batch,
            inputs,
            error,
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            backend=backend,
        )
        tables = torch.zeros(
            (n, requests.block_table.shape[1]), dtype=torch.int32, device=self.device
        )
        gather_block_tables(requests, batch, tables, error, backend=backend)
        return Prepared(batch, inputs, tables, step.num_common_prefix_blocks)

    def sampled(self, step: Step, prepared: Prepared, tokens: torch.Tensor) -> None:
        """Count what was computed (UPD-1), and note the tokens, one for each request; that of a
        chunk is none (UPD-2).
        """
        advance(self.requests, prepared.batch, self.error, backend=self.backend)
        samples = self._tensor(step.samples)
        n = int(step.samples.sum())
        growth = Growth(
            prepared.batch.rows[samples],
            self._count(n),
            torch.ones(n, dtype=torch.int32, device=self.device),
            torch.zeros(n, dtype=torch.int32, device=self.device),
            tokens[samples].int(),
        )
        requests = self.requests
        append_rows(
            requests.token_ids,
            requests.num_tokens,
            growth,
            self._scratch(growth),
            self.error,
            backend=self.backend,
        )

    def remember(self, step: Step, tokens: Ints) -> None:
        """Keep what the step sampled, by position."""
        at = (step.num_computed_tokens + step.num_scheduled_tokens).tolist()
        for i in step.samples.nonzero()[0].tolist():
            self.said.setdefault(step.ids[i], {})[at[i]] = int(tokens[i])

    def _sent(self, step: Step) -> dict[int, list[int]]:
        """All tokens of those admitted, by their place in the step (OUT-3), and those that are
        owed: sampled here and not returned yet when the step was decided.
        """
        sent = {}
        for place, request in enumerate(step.admitted, start=step.running):
            tokens = step.all_token_ids.get(request.id)
            if tokens is None:
                sent[place] = request.tokens.tolist()
                continue
            num_tokens = request.num_prompt_tokens + int(step.num_output_tokens[place])
            owed = range(len(tokens), num_tokens)
            sent[place] = tokens + [self.said[request.id][position] for position in owed]
        return sent

    def _blocks(self, step: Step) -> Growth:
        """Blocks appended; of those admitted, their whole table."""
        admitted = np.arange(len(step.ids)) >= step.running
        grows = admitted | (step.new_block_counts > 0)
        return self._growth(
            step.rows[grows],
            step.new_block_counts[grows],
            admitted[grows].astype(np.int32),
            step.new_block_ids,
        )

    def _growth(
        self, rows: Ints, counts: Ints, replaces: NDArray[np.int32], values: NDArray[Any]
    ) -> Growth:
        return Growth(
            self._tensor(rows),
            self._count(len(rows)),
            self._tensor(counts),
            self._tensor(replaces),
            self._tensor(values),
        )

    def _scratch(self, growth: Growth) -> Scratch:
        return Scratch.empty(len(self.requests.num_tokens), len(growth.rows), self.device)

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device)

    def _count(self, n: int) -> torch.Tensor:
        return torch.tensor([n], dtype=torch.int32, device=self.device)

    def _make_room(self, rows: int, tokens: int) -> None:
        """See that there are so many rows, with room for so many tokens and their blocks."""
        old = self.requests
        have_rows, have_tokens = old.token_ids.shape
        if rows <= have_rows and tokens <= have_tokens:
            return
        rows = have_rows if rows <= have_rows else max(rows, 2 * have_rows)
        tokens = have_tokens if tokens <= have_tokens else max(tokens, 2 * have_tokens)
        self.requests = Requests.empty(rows, tokens, self.block_size, self.device)
        for name in Requests.__slots__:
            before: torch.Tensor = getattr(old, name)
            getattr(self.requests, name)[tuple(map(slice, before.shape))] = before
