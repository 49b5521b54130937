"""Shared-prefix attention: the same answer as without, the prefix read once."""

import pytest
import torch
from checks import cascade, lse_of
from criterion import assert_right
from paged import Shape, batch_of, with_context

from nullblock.kernels.attention import paged_attention
from nullblock.kernels.errors import Error, new_error


@pytest.mark.parametrize(
    "shape",
    [
        Shape(kv_heads=1, group=1),
        Shape(kv_heads=1, group=3, head_size=80, dtype=torch.float16),
    ],
    ids=["plain", "group of 3, head of 80"],
)
def test_it_is_attention(shape: Shape, device: torch.device) -> None:
    """Decodes, chunks and a padded request over a prefix of three blocks, some inside of it and
    one with several splits of its own: within the bound, lse too, kernels and twin."""
    batch = batch_of(
        shape, (60, 49, 0, 61, 20, 190), (1, 2, 1, 14, 3, 1), shared=48, device=device
    )
    lse = lse_of(batch)
    error = new_error(device)
    assert_right(batch, cascade(batch, 3, lse, error=error), lse)
    assert error.item() == 0
    assert_right(batch, cascade(batch, 3, lse, backend="torch"), lse)


def test_several_splits_of_the_prefix(device: torch.device) -> None:
    """A prefix longer than one split comes together again."""
    batch = batch_of(Shape(kv_heads=1, group=1), (560, 545), shared=544, width=40, device=device)
    lse = lse_of(batch)
    assert_right(batch, cascade(batch, 34, lse), lse)


def test_the_prefix_is_read_once(device: torch.device) -> None:
    """Only the first row's entries for the prefix are followed."""
    batch = batch_of(Shape(kv_heads=1, group=1), (40, 50), shared=32, device=device)
    table = batch.context.block_table.clone()
    table[1, :2] = -7
    error = new_error(device)
    only = with_context(batch, block_table=table)
    assert_right(batch, cascade(only, 2, error=error))
    assert error.item() == 0


def test_no_common_prefix_is_plain_attention(device: torch.device) -> None:
    """With no block in common the bits are those of ``paged_attention``."""
    batch = batch_of(Shape(kv_heads=1, group=1), (40, 5), (3, 1), device=device)
    plain = paged_attention(
        batch.query,
        batch.context,
        batch.query_start_loc,
        softmax_scale=batch.shape.softmax_scale,
        backend="triton",
    )
    assert torch.equal(cascade(batch, 0), plain)


def test_faults_are_told(device: torch.device) -> None:
    """A bad length spoils its request, a bad block of the prefix all that see it."""
    batch = batch_of(Shape(kv_heads=1, group=1), (40, 50, 36), shared=32, device=device)
    lengths, table = batch.context.seq_lens.clone(), batch.context.block_table.clone()
    lengths[1] = batch.context.capacity + 1
    error = new_error(device)
    found = cascade(with_context(batch, seq_lens=lengths), 2, error=error)
    assert found[1].isnan().all() and torch.equal(found[[0, 2]], cascade(batch, 2)[[0, 2]])
    assert error.item() == Error.COUNT
    table[0, 1] = 0
    error = new_error(device)
    assert cascade(with_context(batch, block_table=table), 2, error=error).isnan().all()
    assert error.item() == Error.BLOCK
