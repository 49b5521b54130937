"""Paged decode attention: the answer, and what it may not depend on."""

import checks
import pytest
import torch
from checks import decode, lse_of
from criterion import assert_right
from paged import NOWHERE, Batch, Shape, batch_of, with_context

from nullblock.kernels.attention import PagedContext, paged_decode_attention
from nullblock.kernels.attention.launch import num_splits, split_size
from nullblock.kernels.errors import Error, new_error

LENGTHS = (300, 0, 1, 129, 16, 17)
"""Three splits, none, one token, a split and a token, a block, a block and a token."""
HALF, BRAIN, FP8 = torch.float16, torch.bfloat16, torch.float8_e4m3fn
SHAPES = {
    "plain": Shape(),
    "group of 3, head of 80": Shape(kv_heads=1, group=3, head_size=80),
    "no group, pages of 32": Shape(group=1, block_size=32, dtype=HALF),
    "one key head, 128": Shape(kv_heads=1, group=17, head_size=128, dtype=BRAIN),
    "float8": Shape(kv_heads=1, head_size=96, dtype=HALF, cache_dtype=FP8),
    "wide float8, pages of 1": Shape(
        kv_heads=1, block_size=1, dtype=BRAIN, cache_dtype=torch.float8_e5m2
    ),
    "float32 over float16": Shape(kv_heads=1, cache_dtype=HALF),
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES.keys())
def test_it_is_attention(shape: Shape, device: torch.device) -> None:
    """Kernel and twin are within the bound of the whole softmax in float64, their lse too, for
    any grouping, head size, page and type, whatever stands in slots that hold no token."""
    lengths = LENGTHS if shape == Shape() else (145, 0, 9)
    batch = batch_of(shape, lengths, width=320 // shape.block_size, device=device)
    lse, error = lse_of(batch), new_error(device)
    assert_right(batch, decode(batch, lse, error=error), lse)
    assert error.item() == 0
    twin = paged_decode_attention(
        batch.query, batch.context, softmax_scale=shape.softmax_scale, lse=lse, backend="torch"
    )
    assert_right(batch, twin, lse)


def test_scales_of_the_cache_are_applied(device: torch.device) -> None:
    """Stored keys count times ``k_scale``, stored values times ``v_scale``; in both paths."""
    checks.scales(device)


def test_company_changes_no_bit(device: torch.device) -> None:
    """A request has the same bits alone and in company, at another place in the batch, in other
    blocks of another pool, and under any bound on lengths."""
    shape = Shape(kv_heads=1, group=2)
    company = batch_of(shape, (300, 0, 1, 77, 129), device=device)
    lse = lse_of(company)
    together = decode(company, lse)
    for request in (0, 3, 4):
        alone = batch_of(shape, (company.lengths[request],), seed=request + 5, device=device)
        pool = _repaged(company, request, alone)
        own = lse_of(pool)
        assert torch.equal(decode(pool, own)[0], together[request])
        assert torch.equal(own[0], lse[request])


def _repaged(company: Batch, request: int, alone: Batch) -> Batch:
    """One request of a batch, alone, in the blocks of another, with the tightest bound."""
    context = alone.context
    for cache, rows in (
        (context.key_cache, company.keys[request]),
        (context.value_cache, company.values[request]),
    ):
        for token in range(len(rows)):
            block = context.block_table[0, token // company.shape.block_size]
            cache[block, token % company.shape.block_size] = rows[token].to(cache.device)
    bounded = with_context(alone, max_seq_len=len(company.keys[request]))
    return Batch(
        company.shape,
        (company.lengths[request],),
        (1,),
        (company.queries[request],),
        (company.keys[request],),
        (company.values[request],),
        bounded.context,
    )


def test_splits_change_no_more_than_rounding(device: torch.device) -> None:
    """Wider block tables mean longer splits: one instead of three stays within the bound."""
    for width in (24, 4096):
        batch = batch_of(Shape(kv_heads=1, group=1), (300, 5), width=width, device=device)
        lse = lse_of(batch)
        assert_right(batch, decode(batch, lse), lse)
    sizes = [split_size(width * 16, 1, 1, 132) for width in (24, 4096)]
    assert [num_splits(300, size) for size in sizes] == [3, 1]


def test_strides_are_followed(device: torch.device) -> None:
    """Caches stored head by head, a query cut out of a wider tensor, and an ``out`` of its own."""
    batch = batch_of(Shape(kv_heads=2, group=1), (40, 3), device=device)
    context = batch.context
    key, value = (
        cache.transpose(1, 2).contiguous().transpose(1, 2)
        for cache in (context.key_cache, context.value_cache)
    )
    other = with_context(batch, key_cache=key, value_cache=value)
    fused = torch.full((2, 5, 64), torch.nan, device=device)
    fused[:, 1:3] = batch.query
    out = torch.full((2, 3, 64), 7.0, device=device)
    scale = batch.shape.softmax_scale
    paged_decode_attention(
        fused[:, 1:3], other.context, softmax_scale=scale, out=out[:, 1:], backend="triton"
    )
    assert torch.equal(out[:, 1:], decode(batch))
    assert bool((out[:, 0] == 7).all())


@pytest.mark.parametrize("backend", ["triton", "torch"])
def test_faults_are_told_and_stay_where_they_are(backend: str, device: torch.device) -> None:
    """A length out of range or a block that is none of the pool's sets a bit and gives NaN; the
    other requests have the bits they would have had."""
    batch = batch_of(Shape(kv_heads=1, group=1), (40, 200, 3, 20, 33, 10), device=device)
    scale, context = batch.shape.softmax_scale, batch.context

    def run(changed: PagedContext, error: torch.Tensor) -> torch.Tensor:
        return paged_decode_attention(
            batch.query, changed, softmax_scale=scale, error=error, backend=backend
        )

    error = new_error(device)
    right = run(context, error)
    assert error.item() == 0
    lengths, table = context.seq_lens.clone(), context.block_table.clone()
    lengths[0], lengths[2] = -1, context.capacity + 1
    error = new_error(device)
    found = run(with_context(batch, seq_lens=lengths).context, error)
    assert found[[0, 2]].isnan().all() and torch.equal(found[[1, 3, 4, 5]], right[[1, 3, 4, 5]])
    assert error.item() == Error.COUNT
    table[1, 9], table[3, 0], table[4, 2], table[5, 0] = NOWHERE, 0, -5, context.num_blocks
    error = new_error(device)
    found = run(with_context(batch, block_table=table).context, error)
    assert found[[1, 3, 4, 5]].isnan().all() and torch.equal(found[[0, 2]], right[[0, 2]])
    assert error.item() == Error.BLOCK


def test_a_bound_that_does_not_hold_is_told(device: torch.device) -> None:
    """A request longer than the bound that the launch was made for is refused, not cut short."""
    batch = batch_of(Shape(kv_heads=1, group=1), (300, 20), device=device)
    short = with_context(batch, max_seq_len=64)
    error = new_error(device)
    out = decode(short, error=error)
    assert out[0].isnan().all() and error.item() == Error.COUNT
    assert torch.equal(out[1], decode(batch)[1])


def test_a_pool_may_pass_two_to_the_31_elements(device: torch.device) -> None:
    """Blocks past 2**31 elements are read where they are."""
    checks.far_pool(device)


def test_more_splits_than_are_added_at_once(device: torch.device) -> None:
    """Eighteen splits: the second handful is rescaled to the first."""
    checks.many_splits(device)
