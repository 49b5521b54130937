"""A worker: it hears of nothing but steps, computes them, and says which token each samples."""

from functools import partial

import numpy as np
import torch

from nullblock.impl.arrays import Ints
from nullblock.impl.decoder.batch import PersistentBatch, Prepared
from nullblock.impl.decoder.model import Decoder
from nullblock.impl.decoder.paged import KVCache
from nullblock.impl.decoder.weights import Weights
from nullblock.impl.step import Step
from nullblock.kernels.arguments import Backend
from nullblock.kernels.errors import Error, new_error, raise_if
from nullblock.kernels.sampling.greedy import SPLITS, greedy_tokens


def use_one_thread() -> None:
    """Tell torch to, in the whole process: more would wait for one another for longer than so
    small a model computes, where others use the machine too.
    """
    torch.set_num_threads(1)


class UnwrittenRead(RuntimeError):
    """A request read a slot of the cache that nobody had written for it."""


class Worker:
    """One decoder, its cache and its persistent batch, where its weights are and of their type.

    With `poison` a block that is given out holds NaN until somebody writes it. `backend`: the
    kernels or their twins. Raises ValueError for a block size that is no power of two.
    """

    def __init__(
        self,
        weights: Weights,
        num_blocks: int,
        block_size: int,
        *,
        poison: bool = True,
        backend: Backend = "auto",
    ) -> None:
        if block_size & (block_size - 1):
            raise ValueError(f"block_size is {block_size}: attention takes powers of two")
        like, device = weights.embedding, str(weights.embedding.device)
        self.decoder, self.poison, self.backend = Decoder(weights), poison, backend
        self.block_size, self.error = block_size, new_error(device)
        self.batch = PersistentBatch(num_blocks, block_size, device, self.error, backend)
        self.cache = KVCache(
            weights.shape, num_blocks, block_size, like, self.error, backend, poisoned=poison
        )

    def execute(self, step: Step) -> Ints:
        """Take a step and compute it."""
        self.take(step)
        return self.compute(step)

    def take(self, step: Step) -> None:
        """Note what a step tells, before anything else happens to the scheduler: the requests that
        it admits live on.
        """
        self.batch.take(step)
        if self.poison:
            self._forget(step)

    def compute(self, step: Step) -> Ints:
        """Compute the step taken last; one token for each scheduled request, of which a chunk's
        means nothing.

        Raises UnwrittenRead where the cache had nothing to say, RuntimeError where a kernel
        refused its input.
        """
        if not step.ids:
            return np.empty(0, np.int64)
        prepared = self.batch.prepare(step)
        logits = self._logits(prepared)
        tokens = logits.new_empty(len(step.ids), dtype=torch.int64)
        partial = logits.new_empty((len(step.ids), SPLITS), dtype=torch.int64)
        greedy_tokens(
            logits,
            prepared.batch.num_reqs,
            tokens,
            partial,
            self.error,
            backend=self.backend,
        )
        self.batch.sampled(step, prepared, tokens)
        self._check(step, logits)
        sampled: Ints = tokens.cpu().numpy()
        self.batch.remember(step, sampled)
        return sampled

    def _logits(self, prepared: Prepared) -> torch.Tensor:
        """Of the last token of each request: ``[requests, vocab_size]``, float32."""
        inputs, attend = prepared.inputs, partial(self.cache.attend, prepared)
        hidden = self.decoder.hidden(inputs.input_ids, inputs.positions, attend)
        return self.decoder.logits(hidden[inputs.query_start_loc[1:].long() - 1])

    def _forget(self, step: Step) -> None:
        """Poison the blocks that this step gave out and that are no prefix hits."""
        if not len(step.new_block_ids):
            return
        counts, admitted = step.new_block_counts, np.arange(len(step.ids)) >= step.running
        hits = np.where(admitted, step.num_computed_tokens // self.block_size, 0)
        place = np.arange(len(step.new_block_ids)) - (np.cumsum(counts) - counts).repeat(counts)
        fresh = step.new_block_ids[place >= hits.repeat(counts)]
        self.cache.poison(torch.from_numpy(fresh))

    def _check(self, step: Step, logits: torch.Tensor) -> None:
        """Raise what the error word says; a logit is NaN where an unwritten slot was read."""
        if int(self.error) == Error.NOT_A_NUMBER:
            first = int(logits.isnan().any(-1).long().argmax())
            raise UnwrittenRead(
                f"request {step.ids[first]!r} read a slot of the KV cache that nobody had "
                "written for it"
            )
        raise_if(self.error)
