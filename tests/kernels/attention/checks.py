"""The kernels on batches, and small batches that a defect cannot pass: for tests and mutants."""

import torch
from criterion import assert_right
from paged import NOWHERE, Batch, Shape, batch_of, with_context

from nullblock.kernels.attention import (
    PagedContext,
    cascade_attention,
    paged_attention,
    paged_decode_attention,
)
from nullblock.kernels.errors import Error, new_error

CPU = torch.device("cpu")


def decode(batch: Batch, lse: torch.Tensor | None = None, **options: object) -> torch.Tensor:
    """Decode attention by the kernels, whatever the device."""
    scale = batch.shape.softmax_scale
    return paged_decode_attention(
        batch.query,
        batch.context,
        softmax_scale=scale,
        lse=lse,
        **{"backend": "triton", **options},
    )


def attend(batch: Batch, lse: torch.Tensor | None = None, **options: object) -> torch.Tensor:
    """Attention of a mixed batch by the kernels, whatever the device."""
    return paged_attention(
        batch.query,
        batch.context,
        batch.query_start_loc,
        softmax_scale=batch.shape.softmax_scale,
        lse=lse,
        **{"backend": "triton", **options},
    )


def cascade(
    batch: Batch, blocks: int, lse: torch.Tensor | None = None, **options: object
) -> torch.Tensor:
    """Shared-prefix attention by the kernels, whatever the device."""
    return cascade_attention(
        batch.query,
        batch.context,
        batch.query_start_loc,
        blocks,
        softmax_scale=batch.shape.softmax_scale,
        lse=lse,
        **{"backend": "triton", **options},
    )


def lse_of(batch: Batch) -> torch.Tensor:
    """Room for an lse, with NaN in it."""
    return torch.full(batch.query.shape[:2], torch.nan, device=batch.query.device)


def decodes(device: torch.device = CPU) -> None:
    """Two splits, a block to the brim, one token, none; two key heads of two query heads."""
    batch = batch_of(Shape(head_size=32), (135, 64, 1, 0), device=device)
    lse, error = lse_of(batch), new_error(device)
    assert_right(batch, decode(batch, lse, error=error), lse)
    assert error.item() == 0


def chunks(device: torch.device = CPU) -> None:
    """A prompt of several tiles, a decode between, a chunk at the tail of a context."""
    batch = batch_of(Shape(head_size=32), (40, 9, 20), (40, 1, 6), device=device)
    lse, error = lse_of(batch), new_error(device)
    assert_right(batch, attend(batch, lse, error=error), lse)
    assert error.item() == 0


def prefixes(device: torch.device = CPU) -> None:
    """A common prefix of three blocks: a decode past it, a chunk that begins inside of it."""
    shape = Shape(kv_heads=1, group=1, head_size=32, block_size=8)
    batch = batch_of(shape, (60, 30), (1, 10), shared=24, device=device)
    lse, error = lse_of(batch), new_error(device)
    assert_right(batch, cascade(batch, 3, lse, error=error), lse)
    assert error.item() == 0


def scales(device: torch.device = CPU) -> None:
    """A cache whose numbers are to be scaled, of one split and of two."""
    batch = batch_of(Shape(kv_heads=1, group=1), (150, 20), device=device)
    lse = lse_of(batch)
    known = with_context(batch, k_scale=0.25, v_scale=3.0)
    assert_right(known, decode(known, lse), lse)
    there = [torch.tensor([scale], device=device) for scale in (0.25, 3.0)]
    read = with_context(batch, k_scale=there[0], v_scale=there[1])
    assert torch.equal(decode(read), decode(known))
    assert_right(known, attend(read))


def steep(device: torch.device = CPU) -> None:
    """Scores that differ by more than float32 can exponentiate: rising, and falling."""
    shape = Shape(kv_heads=1, group=1)
    for slope in ((1, 400), (400, 1)):
        batch = batch_of(shape, (300, 100), slope=slope, device=device)
        lse = lse_of(batch)
        assert_right(batch, decode(batch, lse), lse)


def many_splits(device: torch.device = CPU) -> None:
    """More splits than are added at once, the last ones with the largest scores."""
    shape = Shape(kv_heads=1, group=1, head_size=16)
    batch = batch_of(shape, (2200,), width=150, slope=(1e-3, 4), device=device)
    lse = lse_of(batch)
    assert_right(batch, decode(batch, lse), lse)


def null_block(device: torch.device = CPU) -> None:
    """A table that nobody filled in names the null block, which holds no token."""
    batch = batch_of(Shape(kv_heads=1, group=1), (20,), device=device)
    error = new_error(device)
    table = torch.zeros_like(batch.context.block_table)
    pool = torch.zeros_like(batch.context.key_cache)
    empty = with_context(batch, block_table=table, key_cache=pool, value_cache=pool)
    assert decode(empty, error=error).isnan().all() and error.item() == Error.BLOCK


def far_pool(device: torch.device = CPU) -> None:
    """Blocks past 2**31 elements.

    The pool is 4 GiB of memory of which a few pages exist. It starts in the middle of it, so that
    an offset that wraps around finds zeros there and not another program's memory.
    """
    shape = Shape(kv_heads=1, group=1, cache_dtype=torch.float8_e4m3fn)
    per_block = shape.block_size * shape.head_size
    small = batch_of(shape, (40, 7), device=device)
    used = small.context.num_blocks
    far = 2**31 // per_block - 1
    size = 2**31 + (far + used) * per_block
    room = torch.empty(size, dtype=torch.uint8, device=device)
    pool = room.view(shape.stored)[2**31 :].view(-1, shape.block_size, 1, shape.head_size)
    assert (pool.shape[0] - 1) * per_block > 2**31
    pool[far:] = small.context.key_cache
    table = torch.where(small.context.block_table == NOWHERE, 0, small.context.block_table + far)
    context = PagedContext(pool, pool, table.to(torch.int32), small.context.seq_lens)
    keys = small.keys
    batch = Batch(shape, small.lengths, small.counts, small.queries, keys, keys, context)
    assert_right(batch, decode(batch))
