"""A worker: it hears of nothing but steps, computes them, and says which token each samples."""

import numpy as np
import torch

from nullblock.impl.arrays import Ints
from nullblock.impl.decoder.batch import Batch, Inputs
from nullblock.impl.decoder.model import Attend, Decoder
from nullblock.impl.decoder.paged import KVCache
from nullblock.impl.decoder.weights import Weights
from nullblock.impl.step import Step


class UnwrittenRead(RuntimeError):
    """A request read a slot of the cache that nobody had written for it."""


class Worker:
    """One decoder, its cache and its persistent batch, where its weights are and of their type.

    With `poison` a block that is given out holds NaN until somebody writes it.
    """

    def __init__(
        self, weights: Weights, num_blocks: int, block_size: int, *, poison: bool = True
    ) -> None:
        device, dtype = str(weights.embedding.device), weights.embedding.dtype
        self.decoder = Decoder(weights)
        self.cache = KVCache(weights.shape, num_blocks, block_size, dtype, device, poisoned=poison)
        self.batch = Batch(block_size, device)
        self.poison = poison

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

        Raises UnwrittenRead where the cache had nothing to say.
        """
        if not step.ids:
            return np.empty(0, np.int64)
        inputs = self.batch.inputs(step)
        with torch.inference_mode():
            logits = self._logits(inputs)
        self._check(step, logits)
        sampled = logits.argmax(-1)
        self.batch.append(step, sampled)
        tokens: Ints = sampled.cpu().numpy()
        return tokens

    def _logits(self, inputs: Inputs) -> torch.Tensor:
        """Of the last token of each request: [requests, vocab_size], float32."""
        hidden = self.decoder.hidden(inputs.input_ids, inputs.positions, self._attending(inputs))
        return self.decoder.logits(hidden[inputs.query_start_loc[1:].long() - 1])

    def _attending(self, inputs: Inputs) -> Attend:
        """Attention that writes keys and values of the tokens at hand first."""

        def attend(
            layer: int, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor
        ) -> torch.Tensor:
            self.cache.write(layer, key, value, inputs.slot_mapping)
            return self.cache.attend(layer, query, inputs)

        return attend

    def _forget(self, step: Step) -> None:
        """Poison the blocks that this step gave out and that are no prefix hits."""
        size, first = self.batch.block_size, 0
        for i, count in enumerate(step.new_block_counts.tolist()):
            hits = int(step.num_computed_tokens[i]) // size if i >= step.running else 0
            self.cache.poison(torch.from_numpy(step.new_block_ids[first + hits : first + count]))
            first += count

    def _check(self, step: Step, logits: torch.Tensor) -> None:
        finite = logits.isfinite().all(-1)
        if not finite.all():
            raise UnwrittenRead(
                f"request {step.ids[int(finite.long().argmin())]!r} read a slot of the KV cache "
                "that nobody had written for it"
            )
