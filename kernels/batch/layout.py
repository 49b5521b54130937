"""What lies where: a row for each request a worker knows, and what one forward pass reads.

Two different indices name a request. Its *row* stays as long as it runs. Its *place* in the batch
is the order in which the step scheduled it (OUT-1); ``Batch.rows`` leads from place to row. So a
step moves no table: it changes the rows of those whose tables grew, came or went (OUT-2, OUT-7).
"""

from dataclasses import dataclass
from typing import Self

import torch

from nullblock.kernels.arguments import INTEGERS, check, check_count

PAD_SLOT = -1
"""The slot of a token that only fills a batch up: nothing is written for it."""
NO_TOKEN = -1
"""Where a token might be and none is."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Every request a worker knows, a row each. R rows; entries beyond a row's length are junk."""

    token_ids: torch.Tensor
    """``[R, max_model_len]``: prompt and output. int32 or int64."""
    num_tokens: torch.Tensor
    """``[R]``: how many of them there are."""
    num_computed_tokens: torch.Tensor
    """``[R]``: how many the cache holds before the step."""
    block_table: torch.Tensor
    """``[R, columns]`` int32: block j holds the tokens from ``j * block_size`` on."""
    num_blocks: torch.Tensor
    """``[R]``: how many columns of the table are filled."""

    @classmethod
    def empty(
        cls, rows: int, max_model_len: int, block_size: int, device: torch.device | str
    ) -> Self:
        """Rows in which nobody is."""

        def zeros(*shape: int) -> torch.Tensor:
            return torch.zeros(shape, dtype=torch.int32, device=device)

        columns = -(-max_model_len // block_size)
        return cls(
            token_ids=zeros(rows, max_model_len),
            num_tokens=zeros(rows),
            num_computed_tokens=zeros(rows),
            block_table=zeros(rows, columns),
            num_blocks=zeros(rows),
        )

    def check(self) -> torch.device:
        """The device they are on; ValueError, in one line, if they do not belong together."""
        device, rows = self.block_table.device, self.block_table.shape[0]
        check("block_table", self.block_table, (torch.int32,), (None, None), device)
        check("token_ids", self.token_ids, INTEGERS, (rows, None), device)
        for name in ("num_tokens", "num_computed_tokens", "num_blocks"):
            check(name, getattr(self, name), INTEGERS, (rows,), device)
        return device


@dataclass(frozen=True, slots=True)
class Batch:
    """Who computes how much in a step. B is the most that one step can schedule."""

    rows: torch.Tensor
    """``[B]``: the row of each scheduled request, in the order of OUT-1; no row twice."""
    num_reqs: torch.Tensor
    """``[1]``: how many of them count. On the device, so that a captured step can change
    it."""
    num_scheduled_tokens: torch.Tensor
    """``[B]``: at least one token for each that counts."""

    def check(self, device: torch.device) -> None:
        """ValueError, in one line, unless they belong together."""
        check("rows", self.rows, INTEGERS, (None,), device)
        check_count("num_reqs", self.num_reqs, device)
        shape = (self.rows.shape[0],)
        check("num_scheduled_tokens", self.num_scheduled_tokens, INTEGERS, shape, device)


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a forward pass over at most T tokens of at most B requests reads.

    All of it is written anew in every step, padding included: a captured step always covers B
    requests and T tokens.
    """

    query_start_loc: torch.Tensor
    """``[B + 1]`` int32: the first token of each request in the batch; then the total, B times if
    need be."""
    seq_lens: torch.Tensor
    """``[B]`` int32: tokens of each request in the cache after the step; 0 where nobody is."""
    input_ids: torch.Tensor
    """``[T]``: int32 or int64; 0 in the padding."""
    positions: torch.Tensor
    """``[T]`` int64: where each token stands in its request; 0 in the padding."""
    slot_mapping: torch.Tensor
    """``[T]`` int64: where its key and value go; PAD_SLOT in the padding."""

    @classmethod
    def empty(cls, max_num_reqs: int, max_num_tokens: int, device: torch.device | str) -> Self:
        """Room for a batch."""

        def zeros(size: int, dtype: torch.dtype) -> torch.Tensor:
            return torch.zeros(size, dtype=dtype, device=device)

        return cls(
            zeros(max_num_reqs + 1, torch.int32),
            zeros(max_num_reqs, torch.int32),
            zeros(max_num_tokens, torch.int32),
            zeros(max_num_tokens, torch.int64),
            zeros(max_num_tokens, torch.int64),
        )

    def check(self, batch: Batch, device: torch.device) -> None:
        """ValueError, in one line, unless they belong together, and to that batch."""
        most, total = batch.rows.shape[0], self.positions.shape[0]
        check("query_start_loc", self.query_start_loc, (torch.int32,), (most + 1,), device)
        check("seq_lens", self.seq_lens, (torch.int32,), (most,), device)
        check("input_ids", self.input_ids, INTEGERS, (total,), device)
        check("positions", self.positions, (torch.int64,), (total,), device)
        check("slot_mapping", self.slot_mapping, (torch.int64,), (total,), device)
