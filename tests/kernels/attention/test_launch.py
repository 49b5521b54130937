"""How launches are sized, whose tile is whose, and what attention costs at least."""

import pytest
import torch
import triton
import triton.language as tl

from nullblock.kernels.attention import launch
from nullblock.kernels.attention.context import PagedContext, check
from nullblock.kernels.attention.cost import (
    Cost,
    Model,
    cascade_cost,
    decode_cost,
    paged_cost,
    partial_bytes,
)
from nullblock.kernels.attention.decode import paged_decode_attention
from nullblock.kernels.attention.requests import request_of


@triton.jit
def _requests_kernel(
    starts, found, last, WIDTH: tl.constexpr, BITS: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    place = tl.arange(0, LANES)
    tl.store(found + place, request_of(place, starts, last, WIDTH, BITS))


@pytest.mark.parametrize("counts", [[3, 0, 1, 0, 0, 40, 7], [1], [0, 0, 5], [16, 16, 0, 1]])
def test_every_token_and_tile_finds_its_request(counts: list[int], device: torch.device) -> None:
    """A token's request is the one that owns it, requests without tokens own none; a request has
    a tile for each group of its tokens, and no tile has two requests."""
    starts = torch.tensor([0, *counts]).cumsum(0).to(torch.int32).to(device)
    found = torch.full((128,), -1, dtype=torch.int32, device=device)
    bits, tokens = len(counts).bit_length(), sum(counts)
    _requests_kernel[(1,)](starts, found, len(counts), WIDTH=None, BITS=bits, LANES=128)
    owners = [request for request, count in enumerate(counts) for _ in range(count)]
    assert found[:tokens].tolist() == owners
    assert bool((found[tokens:] == len(counts)).all())
    for width in (1, 4, 16):
        _requests_kernel[(1,)](starts, found, len(counts) - 1, WIDTH=width, BITS=bits, LANES=128)
        most = tokens // width + len(counts)
        tiles = found[:most].tolist()
        for request, count in enumerate(counts):
            first = int(starts[request]) // width + request
            own = tiles[first : first + -(-count // width)]
            assert own == [request] * -(-count // width)


def test_a_split_follows_from_the_model_and_the_device() -> None:
    """Splits are whole tiles, a power of two, long enough for their partials; a lone request of
    the largest length has work for every processor, unless splits would be too short."""
    for capacity in (16, 1000, 4096, 8192, 40960, 131072):
        for heads, kv_heads in ((1, 1), (32, 8), (32, 32), (128, 1), (24, 8)):
            size = launch.split_size(capacity, heads, kv_heads, 132)
            group = triton.next_power_of_2(heads // kv_heads)
            assert size & (size - 1) == 0 and size >= max(launch.LEAST_SPLIT, 32 * group)
            assert size % 64 == 0
            splits = launch.num_splits(capacity, size) * kv_heads
            shortest = size == max(launch.LEAST_SPLIT, 32 * group)
            assert shortest or 2 * splits >= 132
    assert launch.num_splits(0, 128) == 1 and launch.num_splits(129, 128) == 2


def test_tiles_fit() -> None:
    """A tile holds the query heads of a token, and its stages the memory that there is; the keys
    of a split are whole tiles."""
    for head_size in (16, 64, 80, 128, 256):
        for group in (1, 3, 8, 128):
            for compute in (tl.float32, tl.bfloat16):
                pad = triton.next_power_of_2(head_size)
                numbers = launch.Numbers(group, 16, head_size, pad, compute)
                for memory in (64 << 10, 227 << 10):
                    tiles = (launch.decode_tile(numbers), launch.prefill_tile(numbers, memory))
                    for tile in tiles:
                        assert tile.rows >= group and launch.LEAST_SPLIT % tile.keys == 0
                        assert tile.keys >= 16


def test_a_prefix_is_split_for_few_queries_only() -> None:
    """Where tiles of queries fill the device the prefix stays whole, else it is cut."""
    tile = launch.Tile(128, 64, 8, 3)
    assert launch.prefix_split_size(32768, 4096, 132, tile) >= 32768
    assert launch.prefix_split_size(32768, 8, 132, tile) == 1024
    assert launch.prefix_split_size(100, 8, 132, tile) == 512


def test_costs_are_counted() -> None:
    """Bytes and flops of small batches, added by hand."""
    model = Model(num_heads=4, num_kv_heads=2, head_size=8)
    assert (model.token_bytes, model.row_bytes, model.pair_flops) == (64, 128, 128)
    assert decode_cost(model, [20, 0], 16) == Cost(20 * 64 + 128 + 8, 20 * 128)
    mixed = paged_cost(model, [5, 20], [5, 1], 16)
    assert mixed == Cost(25 * 64 + 6 * 128 + 12, (15 + 20) * 128)
    shared = cascade_cost(model, [40, 50], [1, 1], 16, 2)
    assert shared.num_bytes == (32 + 8 + 18) * 64 + 2 * 128 + 4 * (2 + 1 + 2)
    assert shared.flops == 90 * 128
    assert partial_bytes(model, [100, 300], 128) == 2 * 4 * 10 * 4 * 3
    assert Cost(100, 100).seconds(10, 50) == 10


GOOD = {
    "key_cache": torch.zeros(3, 16, 2, 8),
    "value_cache": torch.zeros(3, 16, 2, 8),
    "block_table": torch.zeros(2, 4, dtype=torch.int32),
    "seq_lens": torch.zeros(2, dtype=torch.int32),
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"key_cache": torch.zeros(3, 24, 2, 8)}, "value_cache"),
        ({k: torch.zeros(3, 24, 2, 8) for k in ("key_cache", "value_cache")}, "block_size is 24"),
        ({k: torch.zeros(3, 16, 3, 8) for k in ("key_cache", "value_cache")}, "4 query heads"),
        ({k: torch.zeros(3, 16, 2, 9) for k in ("key_cache", "value_cache")}, "key_cache"),
        ({"value_cache": torch.zeros(3, 16, 2, 8).half()}, "value_cache"),
        ({"block_table": torch.zeros(2, 4)}, "block_table"),
        ({"seq_lens": torch.zeros(3, dtype=torch.int32)}, "seq_lens"),
        ({"max_seq_len": -1}, "max_seq_len"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, object], said: str) -> None:
    """One line that names the argument, before anything is launched."""
    query = torch.zeros(2, 4, 8)
    check(query, PagedContext(**GOOD), 1.0)
    with pytest.raises(ValueError, match=said) as raised:
        paged_decode_attention(query, PagedContext(**{**GOOD, **change}), softmax_scale=1.0)
    assert "\n" not in str(raised.value)


def test_other_arguments_are_refused_too() -> None:
    """The query's rows, the scale, and where results go."""
    context, query = PagedContext(**GOOD), torch.zeros(2, 4, 8)
    with pytest.raises(ValueError, match="one token a request|token a request"):
        paged_decode_attention(torch.zeros(3, 4, 8), context, softmax_scale=1.0)
    with pytest.raises(ValueError, match="softmax_scale"):
        paged_decode_attention(query, context, softmax_scale=0.0)
    with pytest.raises(ValueError, match="out"):
        paged_decode_attention(query, context, softmax_scale=1.0, out=query.half())
    with pytest.raises(ValueError, match="lse"):
        paged_decode_attention(query, context, softmax_scale=1.0, lse=torch.zeros(2, 3))
