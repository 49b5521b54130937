"""A mirror whose batch lies on a device: the kernels of `kernels.batch` change it by the message.

The host's mirror judges the message and knows who stands in which row; what changed, and nothing
else, goes to the device: rows that emptied, blocks that were appended, tokens and tables of those
who entered. The model's input is made there. Sampled tokens need not come back: the host only
counts them, and fetches them when a digest is to be compared.

Nothing here has run on a GPU yet; tests run it with the kernels' twins and in the interpreter.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nullblock.impl.arrays import Ints
from nullblock.impl.workers.decode import Buffer, decode
from nullblock.impl.workers.errors import Malformed
from nullblock.impl.workers.layout import WIDE, Decision
from nullblock.impl.workers.mirror import Mirror, Work
from nullblock.kernels.arguments import Backend
from nullblock.kernels.batch.append import Growth, append_rows
from nullblock.kernels.batch.layout import Batch, Inputs, Requests
from nullblock.kernels.batch.lengths import compute_lengths
from nullblock.kernels.batch.rows import advance
from nullblock.kernels.batch.slots import place_tokens
from nullblock.kernels.batch.update import Delta, Scratches, update_batch
from nullblock.kernels.errors import new_error, raise_if
from nullblock.spec.facts import Config

_NONE: Ints = np.empty(0, np.int64)


class DeviceMirror:
    """The scheduler's running list in a worker, its long arrays on a device.

    `backend` chooses kernels or twins, as everywhere in `kernels`; `num_rows` as of `Mirror`.
    """

    def __init__(
        self,
        config: Config,
        device: torch.device | str,
        backend: Backend = "auto",
        num_rows: int | None = None,
    ) -> None:
        self.config, self._device, self._backend = config, torch.device(device), backend
        self.mirror = Mirror(config, num_rows)
        """Of its tokens only those are there that came with a message."""
        rows, most = self.mirror.num_rows, config.max_num_seqs
        self.requests = Requests.empty(rows, config.max_model_len, config.block_size, device)
        self.inputs = Inputs.empty(most, config.max_num_scheduled_tokens, device)
        self.error = new_error(device)
        """What a kernel refused; `check` looks."""
        self._scratches = Scratches.empty(rows, most, device)
        self._batch: Batch | None = None

    def apply(self, message: Buffer) -> tuple[Work, Batch, Inputs]:
        """Take in the next message: what is to be computed, on the host and on the device.

        Raises what `Mirror.apply` raises, and Malformed for token ids of more than 32 bits.
        """
        decision = decode(message)
        if decision.header.flags & WIDE:
            raise Malformed(
                f"step {decision.header.step}: a token id has more than 32 bits, and the batch on "
                "a device holds 32"
            )
        if decision.header.digest:
            self._fetch()
        work = self.mirror.apply_decision(decision)
        delta = self._delta(decision, work)
        update_batch(self.requests, delta, self._scratches, self.error, backend=self._backend)
        self._batch = batch = Batch(
            self._padded(work.rows),
            self._up([len(work.rows)]),
            self._padded(work.num_scheduled),
        )
        requests, inputs, error = self.requests, self.inputs, self.error
        compute_lengths(requests, batch, inputs, error, backend=self._backend)
        place_tokens(
            *(requests, batch, inputs, error),
            block_size=self.config.block_size,
            num_blocks=self.config.num_blocks,
            backend=self._backend,
        )
        return work, batch, inputs

    def take(self, sampled: torch.Tensor) -> None:
        """Append one token to each request that samples in this step: int32 ``[B]`` on the device,
        in the order of the batch; the others, and the padding, are ignored.

        Raises OutOfTurn without a step.
        """
        work, batch = self.mirror.work, self._batch
        self.mirror.take(None)
        if work is None or batch is None:
            return
        advance(self.requests, batch, self.error, backend=self._backend)
        who = work.samples.nonzero()[0]
        growth = self._growth(
            work.rows[who], np.ones_like(who), np.zeros_like(who), sampled[self._up(who).long()]
        )
        append_rows(
            *(self.requests.token_ids, self.requests.num_tokens, growth),
            *(self._scratches.tokens, self.error),
            backend=self._backend,
        )

    def check(self) -> None:
        """Wait for the device. Raises RuntimeError if a kernel refused something."""
        raise_if(self.error)

    def _delta(self, decision: Decision, work: Work) -> Delta:
        """What the kernels have to change."""
        turnover = decision.turnover
        # Places of the message count those who are scheduled and ran before: the first of `work`.
        places, counts = np.unique(decision.grown, return_counts=True)
        rows, blocks = work.rows[places], decision.blocks
        if turnover is None:
            nobody = self._growth(_NONE, _NONE, _NONE, self._up(_NONE))
            grown = self._growth(rows, counts, np.zeros_like(counts), self._up(blocks))
            return Delta(self._padded(_NONE), self._up([0]), grown, nobody, self._padded(_NONE))
        entered = turnover.entered
        gone = np.concatenate((turnover.ended, turnover.put_back))
        grown = self._growth(
            np.concatenate((rows, entered.row)),
            np.concatenate((counts, entered.num_blocks)),
            np.repeat((0, 1), (len(rows), len(entered.row))),
            self._up(np.concatenate((blocks, turnover.blocks))),
        )
        return Delta(
            self._padded(gone),
            self._up([len(gone)]),
            grown,
            self._growth(
                *(entered.row, entered.num_tokens, np.ones(len(entered.row), np.int64)),
                self._up(turnover.tokens),
            ),
            self._padded(entered.num_computed),
        )

    def _growth(
        self, rows: NDArray[Any], counts: NDArray[Any], replaces: Ints, values: torch.Tensor
    ) -> Growth:
        return Growth(
            self._padded(rows),
            self._up([len(rows)]),
            self._padded(counts),
            self._padded(replaces),
            values,
        )

    def _padded(self, numbers: NDArray[Any]) -> torch.Tensor:
        """Numbers of at most max_num_seqs requests, with zeros behind them."""
        found = np.zeros(self.config.max_num_seqs, np.int32)
        found[: len(numbers)] = numbers
        return self._up(found)

    def _up(self, numbers: NDArray[Any] | Sequence[int]) -> torch.Tensor:
        """On the device, as int32."""
        host = torch.from_numpy(np.array(numbers, np.int32))
        return host.to(self._device, non_blocking=True)

    def _fetch(self) -> None:
        """The tokens of all who run, from the device to the host."""
        mirror = self.mirror
        rows = mirror.row[: mirror.count]
        if len(rows):
            wide = int(mirror.num_tokens[: mirror.count].max())
            mirror.tokens[rows, :wide] = self.requests.token_ids.cpu().numpy()[rows, :wide]
