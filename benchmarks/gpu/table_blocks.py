"""Whole blocks: zeroed and copied. 32 KiB each: 16 tokens, 8 heads of 128, bfloat16."""

from collections.abc import Iterator
from functools import partial

import torch
from figures import Cost, Row
from workbench import Bench, Peer

from nullblock.kernels.cache.blocks import copy_blocks, zero_blocks
from nullblock.kernels.errors import new_error

TITLE = "Block zeroing and copy"
TEXT = "Blocks are drawn at random from one layer's pool of keys."
SHAPE = (16, 8, 128)


def rows(bench: Bench) -> Iterator[Row]:
    """16 and 4096 blocks, each way."""
    device = bench.device
    pool = 16_384 if device.type == "cuda" else 1024
    cache = torch.zeros(pool, *SHAPE, dtype=torch.bfloat16, device=device)
    roles = torch.zeros(pool, dtype=torch.int32, device=device)
    words, error = cache.view(pool, -1), new_error(device)
    size = words.shape[1] * 2
    for count in (16, pool // 4):
        ids = (torch.randperm(pool - 1, device=device) + 1)[: 2 * count]
        num = torch.full((1,), count, dtype=torch.int32, device=device)
        sources, targets = ids[:count].clone(), ids[count:].clone()
        yield bench.row(
            f"zero {count} blocks",
            partial(zero_blocks, cache, targets, num, error),
            Cost(bytes=count * size),
            peers={
                "torch index_fill_": Peer(lambda i=targets: partial(words.index_fill_, 0, i, 0))
            },
        )
        yield bench.row(
            f"copy {count} blocks",
            partial(copy_blocks, cache, sources, targets, num, roles, error),
            Cost(bytes=2 * count * size),
            peers={
                "torch index_copy_": Peer(
                    lambda i=sources, j=targets: lambda: words.index_copy_(0, j, words[i])
                )
            },
        )
