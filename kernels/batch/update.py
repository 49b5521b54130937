"""What one decision changes in the persistent batch, and nothing else (OUT-2, OUT-3, OUT-7).

A step that decodes touches the rows whose tables grew by a block, one in `block_size` of them; a
row that neither came, went nor grew is not looked at. Nothing is rebuilt.
"""

from dataclasses import dataclass
from typing import Self

import torch

from nullblock.kernels.arguments import Backend
from nullblock.kernels.batch.append import Growth, Scratch, append_rows
from nullblock.kernels.batch.layout import Requests
from nullblock.kernels.batch.rows import clear_rows, set_rows


@dataclass(frozen=True, slots=True)
class Delta:
    """One decision, as far as it concerns the rows of a worker."""

    gone: torch.Tensor
    """``[K]``: rows of those who ended or were preempted."""
    num_gone: torch.Tensor
    """``[1]``."""
    blocks: Growth
    """Blocks appended (OUT-2); ``replaces`` marks those admitted, whose whole table it is."""
    tokens: Growth
    """All tokens of those whom the worker did not know, or did not see in the step before (OUT-3);
    ``replaces`` marks all of them."""
    num_computed_tokens: torch.Tensor
    """``[K]``: of the rows of ``tokens``, before the step."""


@dataclass(frozen=True, slots=True)
class Scratches:
    """Scratch space for both kinds of growth."""

    blocks: Scratch
    tokens: Scratch

    @classmethod
    def empty(cls, rows: int, most: int, device: torch.device | str) -> Self:
        """For so many rows, of which at most so many change at once."""
        return cls(Scratch.empty(rows, most, device), Scratch.empty(rows, most, device))


def update_batch(
    requests: Requests,
    delta: Delta,
    scratches: Scratches,
    error: torch.Tensor,
    *,
    backend: Backend = "auto",
) -> None:
    """Apply a decision: first who left, then who came or grew, so that a row may be given to
    somebody new in the step in which it is freed. Errors: `clear_rows`, `append_rows`."""
    clear_rows(requests, delta.gone, delta.num_gone, error, backend=backend)
    append_rows(
        requests.block_table, requests.num_blocks, delta.blocks, scratches.blocks, error,
        backend=backend,
    )  # fmt: skip
    append_rows(
        requests.token_ids, requests.num_tokens, delta.tokens, scratches.tokens, error,
        backend=backend,
    )  # fmt: skip
    set_rows(
        requests.num_computed_tokens, delta.tokens.rows, delta.tokens.num_rows,
        delta.num_computed_tokens, error, backend=backend,
    )  # fmt: skip
