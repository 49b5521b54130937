"""The decoder inside the loop without the host, which neither tells it anything nor asks.

It reads what a step decided where the scheduler keeps it, on the device, and leaves the tokens
there: always the same launches on the same shapes, padding included, so that a step with its model
is one CUDA graph. Requests need no batch of their own here: the scheduler's rows are the batch.
"""

from functools import partial

import torch

from nullblock.impl.decoder.batch import Prepared
from nullblock.impl.decoder.model import Decoder
from nullblock.impl.decoder.paged import KVCache
from nullblock.impl.decoder.weights import Weights
from nullblock.kernels.arguments import Backend
from nullblock.kernels.batch.gather import gather_block_tables
from nullblock.kernels.batch.layout import Batch, Inputs, Requests
from nullblock.kernels.batch.lengths import compute_lengths
from nullblock.kernels.batch.rows import set_rows
from nullblock.kernels.batch.slots import place_tokens
from nullblock.kernels.control.state import State
from nullblock.kernels.control.words import NUM_SCHEDULED
from nullblock.kernels.errors import new_error, raise_if
from nullblock.kernels.sampling.greedy import SPLITS, greedy_tokens


class ResidentModel:
    """A model for `nullblock.impl.device.Loop`, of these weights, on the device they are on.

    Slots hold NaN until somebody writes them for the first time.
    """

    def __init__(
        self, weights: Weights, num_blocks: int, block_size: int, *, backend: Backend = "auto"
    ) -> None:
        like = weights.embedding
        self.decoder, self.backend, self.error = Decoder(weights), backend, new_error(like.device)
        self.num_blocks, self.block_size = num_blocks, block_size
        self.cache = KVCache(
            weights.shape, num_blocks, block_size, like, self.error, backend, poisoned=True
        )
        self.prepared: Prepared | None = None
        """What one step leaves to the next is nothing but room; it is made with the first one."""

    def __call__(self, state: State, sampled: torch.Tensor) -> None:
        """Enqueue what computes the step that `state` has decided."""
        if self.prepared is None:
            self._make_room(state)
        prepared = self._prepare(state)
        inputs, attend = prepared.inputs, partial(self.cache.attend, prepared)
        hidden = self.decoder.hidden(inputs.input_ids, inputs.positions, attend)
        last = (inputs.query_start_loc[1:].long() - 1).clamp(min=0)
        logits = self.decoder.logits(hidden[last])
        greedy_tokens(
            logits,
            prepared.batch.num_reqs,
            sampled,
            self.partial,
            self.error,
            backend=self.backend,
        )

    def check(self) -> None:
        """Raise RuntimeError if a kernel refused its input in any step until now, or a logit was
        NaN; waits for the device.
        """
        raise_if(self.error)

    def _make_room(self, state: State) -> None:
        """Everything that a step writes, at its largest; the batch is the scheduler's own."""
        sizes, decision, device = state.sizes, state.arrays.decision, self.error.device
        most, columns = sizes.max_num_seqs, state.arrays.requests.table.shape[1]
        requests = state.arrays.requests
        self.rows = Requests(
            token_ids=requests.tokens,
            num_tokens=requests.num_tokens,
            # The scheduler's own counts this step already (UPD-1).
            num_computed_tokens=torch.zeros_like(requests.num_computed),
            block_table=requests.table,
            num_blocks=requests.num_blocks,
        )
        self.partial = torch.empty((most, SPLITS), dtype=torch.int64, device=device)
        num_reqs = state.arrays.words[NUM_SCHEDULED.value : NUM_SCHEDULED.value + 1]
        self.prepared = Prepared(
            Batch(decision.row, num_reqs, decision.num_scheduled_tokens),
            Inputs.empty(most, sizes.max_num_scheduled_tokens, device),
            torch.zeros((most, columns), dtype=torch.int32, device=device),
            0,
        )

    def _prepare(self, state: State) -> Prepared:
        """Positions, slots, lengths and tables of this step."""
        assert self.prepared is not None
        rows, error, backend, found = self.rows, self.error, self.backend, self.prepared
        batch, inputs = found.batch, found.inputs
        computed = state.arrays.decision.num_computed_tokens
        set_rows(
            rows.num_computed_tokens, batch.rows, batch.num_reqs, computed, error, backend=backend
        )
        compute_lengths(rows, batch, inputs, error, backend=backend)
        place_tokens(
            rows,
            batch,
            inputs,
            error,
            block_size=self.block_size,
            num_blocks=self.num_blocks,
            backend=backend,
        )
        gather_block_tables(rows, batch, found.block_tables, error, backend=backend)
        return found
