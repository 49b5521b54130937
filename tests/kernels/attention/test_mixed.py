"""Attention of mixed batches: chunks and decodes side by side."""

import numpy as np
import pytest
import torch
import triton
from checks import attend, lse_of
from criterion import assert_right
from paged import NOWHERE, Batch, Shape, batch_of, with_context

from nullblock.kernels.attention import PagedContext, paged_attention, paged_decode_attention
from nullblock.kernels.errors import Error, new_error

SHAPES = {
    "plain": Shape(kv_heads=1),
    "group of 3, head of 80": Shape(kv_heads=1, group=3, head_size=80, dtype=torch.bfloat16),
    "no group, pages of 32": Shape(group=1, block_size=32, head_size=32, dtype=torch.float16),
    "float8": Shape(
        kv_heads=1, head_size=96, dtype=torch.float16, cache_dtype=torch.float8_e4m3fn
    ),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_it_is_causal_attention(shape: Shape, device: torch.device) -> None:
    """Kernels and twin are within the bound, lse too: a whole prompt, a decode, a padded request
    with and without a row, a chunk at the tail of a context, a last chunk of two tokens."""
    counts = (37, 1, 0, 1, 20, 2)
    batch = batch_of(shape, (37, 150, 0, 0, 75, 34), counts, device=device)
    lse, error = lse_of(batch), new_error(device)
    assert_right(batch, attend(batch, lse, error=error), lse)
    assert error.item() == 0
    assert_right(batch, attend(batch, lse, backend="torch"), lse)


def test_company_changes_no_bit(device: torch.device) -> None:
    """A decode has the bits of a batch of decodes, a chunk those that it has alone."""
    shape = Shape(kv_heads=1)
    batch = batch_of(shape, (150, 40, 1), (1, 40, 1), device=device)
    together = attend(batch)
    starts = batch.query_start_loc[:-1].long()
    for request in (0, 2):
        alone = paged_decode_attention(
            batch.queries[request],
            _only(batch, request),
            softmax_scale=shape.softmax_scale,
            backend="triton",
        )
        assert torch.equal(alone[0], together[starts[request]])
    chunk = paged_attention(
        batch.queries[1],
        _only(batch, 1),
        torch.tensor([0, 40], dtype=torch.int32, device=device),
        softmax_scale=shape.softmax_scale,
        backend="triton",
    )
    assert torch.equal(chunk, together[batch.rows(1)])


def _only(batch: Batch, request: int) -> PagedContext:
    """One request's part of the context."""
    rows = slice(request, request + 1)
    context = batch.context
    return with_context(
        batch, block_table=context.block_table[rows], seq_lens=context.seq_lens[rows]
    ).context


@pytest.fixture
def even_dot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product of matrices in the interpreter whose rows do not depend on where they stand.

    That of its linear algebra library does, in the last bit; a GPU's matrix units treat all rows
    alike. Here it is rounded once, from float64.
    """
    if not triton.knobs.runtime.interpret:
        return
    from triton.runtime import interpreter

    def create_dot(self, a, b, d, *precision):  # type: ignore[no-untyped-def]
        exact = np.matmul(a.data.astype(np.float64), b.data.astype(np.float64))
        rounded = exact.astype(d.data.dtype) + d.data
        return interpreter.TensorHandle(rounded, d.dtype.scalar)

    builder = type(interpreter.interpreter_builder)
    monkeypatch.setattr(builder, "create_dot", create_dot)


@pytest.mark.usefixtures("even_dot")
def test_chunking_changes_no_bit(device: torch.device) -> None:
    """A prompt in chunks of 30, 27 and 13 tokens has the bits that it has in one go."""
    shape = Shape(kv_heads=1, group=3)
    whole = batch_of(shape, (70,), (70,), device=device)
    together = attend(whole)
    for start, end in ((0, 30), (30, 57), (57, 70)):
        lengths = torch.tensor([end], dtype=torch.int32, device=device)
        chunk = paged_attention(
            whole.query[start:end],
            with_context(whole, seq_lens=lengths).context,
            torch.tensor([0, end - start], dtype=torch.int32, device=device),
            softmax_scale=shape.softmax_scale,
            backend="triton",
        )
        assert torch.equal(chunk, together[start:end]), (start, end)


@pytest.mark.parametrize("backend", ["triton", "torch"])
def test_rows_of_nobody_stay_as_they_are(backend: str, device: torch.device) -> None:
    """Rows of ``out`` past the last request are not written; in a new ``out`` they are 0."""
    batch = batch_of(Shape(kv_heads=1, group=1), (9, 30), (9, 1), device=device)
    query = torch.cat([batch.query, torch.full((3, 1, 64), torch.nan, device=device)])
    out = torch.full_like(query, 5.0)
    for room in (out, None):
        found = paged_attention(
            query,
            batch.context,
            batch.query_start_loc,
            softmax_scale=batch.shape.softmax_scale,
            out=room,
            backend=backend,
        )
        assert bool((found[10:] == (0.0 if room is None else 5.0)).all())
        assert_right(batch, found[:10])


@pytest.mark.parametrize("backend", ["triton", "torch"])
def test_faults_are_told_and_stay_where_they_are(backend: str, device: torch.device) -> None:
    """More query tokens than context, a length out of range or a block of no pool: the request is
    NaN, at least in the rows that see the block, its bit is set, the others keep their bits."""
    batch = batch_of(Shape(kv_heads=1, group=1), (40, 9, 20, 33), (40, 1, 5, 30), device=device)
    right = attend(batch, backend=backend)
    lengths, table = batch.context.seq_lens.clone(), batch.context.block_table.clone()
    lengths[2], lengths[3], table[0, 2] = 4, batch.context.capacity + 1, NOWHERE
    error = new_error(device)
    broken = with_context(batch, seq_lens=lengths, block_table=table)
    found = attend(broken, backend=backend, error=error)
    assert found[batch.rows(2)].isnan().all() and found[batch.rows(3)].isnan().all()
    assert found[32:40].isnan().all()
    assert torch.equal(found[batch.rows(1)], right[batch.rows(1)])
    assert error.item() == Error.COUNT | Error.BLOCK


def test_offsets_that_make_no_sense_are_refused(device: torch.device) -> None:
    """Offsets that decrease, or leave the query, are told, and nothing outside is touched."""
    batch = batch_of(Shape(kv_heads=1, group=1), (9, 30), (9, 1), device=device)
    for wrong in ([0, 9, 8], [0, 9, 12], [-3, 9, 10], [0, 2**31 - 1, 10]):
        error = new_error(device)
        starts = torch.tensor(wrong, dtype=torch.int32, device=device)
        paged_attention(
            batch.query,
            batch.context,
            starts,
            softmax_scale=0.1,
            error=error,
            backend="triton",
        )
        assert error.item() == Error.COUNT, wrong
