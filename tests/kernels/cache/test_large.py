"""Pools of more elements than 32 bits count: what is written behind that stands where it should,
and nowhere else.
"""

from functools import partial

import pytest
import torch

from nullblock.kernels.cache.blocks import copy_blocks, zero_blocks
from nullblock.kernels.cache.write import write_kv
from nullblock.kernels.errors import new_error, raise_if

BLOCK_SIZE, HEADS, HEAD_SIZE = 16, 8, 128
BLOCK = BLOCK_SIZE * HEADS * HEAD_SIZE


def room(elements: int, size: int, device: torch.device) -> None:
    """Skip the test where so many elements of so many bytes have no place."""
    if elements < 1 << 31:
        return
    if device.type != "cuda":
        pytest.skip("a pool of 2**31 elements is for a GPU: the interpreter would take minutes")
    if torch.cuda.mem_get_info()[0] < elements * size:
        pytest.skip(f"the GPU has no {elements * size / 1e9:.0f} GB free")


@pytest.mark.parametrize("edge", [1 << 16, 1 << 31])
def test_keys_and_values_behind_the_edge(edge: int, device: torch.device) -> None:
    """Tokens on both sides of element `edge`, and in the last slot of all (TABLE-2)."""
    room(5 * edge // 2, 2, device)
    blocks = edge // BLOCK + 3
    shape = (blocks, BLOCK_SIZE, HEADS, HEAD_SIZE)
    caches = [torch.zeros(shape, dtype=torch.float16, device=device) for _ in range(2)]
    last = edge // BLOCK * BLOCK_SIZE
    slots = [BLOCK_SIZE, last - 1, last, last + 7, blocks * BLOCK_SIZE - 1]
    key = torch.ones(len(slots), HEADS, HEAD_SIZE, dtype=torch.float16, device=device)
    key *= torch.arange(1, 1 + len(slots), device=device)[:, None, None]
    mapping = torch.tensor(slots, device=device)
    error = new_error(device)
    write_kv(key, -key, *caches, mapping, error, backend="triton")
    raise_if(error)
    for cache, written in zip(caches, (key, -key), strict=True):
        assert torch.equal(cache.flatten(0, 1)[mapping], written)
        assert int(cache.count_nonzero()) == written.numel()


@pytest.mark.parametrize("edge", [1 << 16, 1 << 31])
def test_blocks_behind_the_edge(edge: int, device: torch.device) -> None:
    """Blocks of an odd number of bytes, which are moved byte by byte: so 2**31 of what a kernel
    counts take least memory. They are copied over the edge both ways, then zeroed (POOL-10)."""
    room(3 * edge // 2, 1, device)
    size = edge // 64 + 1
    blocks = 68
    cache = torch.zeros((blocks, size), dtype=torch.uint8, device=device)
    across = (edge - 1) // size  # the block that begins before the edge and ends behind it
    cache[1], cache[blocks - 1] = 3, 5
    ids = partial(torch.tensor, dtype=torch.int32, device=device)  # no wider than kernels ask for
    sources, targets = ids([1, 1, blocks - 1]), ids([across, blocks - 2, 2])
    roles = torch.zeros(blocks, dtype=torch.int32, device=device)
    count, error = ids([3]), new_error(device)
    copy_blocks(cache, sources, targets, count, roles, error, backend="triton")
    raise_if(error)
    held = {1: 3, across: 3, blocks - 2: 3, blocks - 1: 5, 2: 5}
    for block in range(blocks):
        assert bool((cache[block] == held.get(block, 0)).all()), block
    zero_blocks(cache, targets, count, error, backend="triton")
    raise_if(error)
    for block in range(blocks):
        left = 0 if block in targets.tolist() else held.get(block, 0)
        assert bool((cache[block] == left).all()), block
