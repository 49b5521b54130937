"""Batches whose keys and values are known before they are paged, and the answer they must give.

Nothing here is shared with the kernels or their twins: a request's keys lie in one dense tensor,
and the answer is the whole softmax over them in float64. Whatever no request may see is NaN: the
slots after a request's last token, the blocks of nobody, the null block. Table entries past the
last block name blocks that do not exist.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from nullblock.kernels.attention import PagedContext

NOWHERE = 2**31 - 1
"""A block id that nobody may follow."""


@dataclass(frozen=True)
class Shape:
    """Of a model and its cache."""

    kv_heads: int = 2
    group: int = 2
    head_size: int = 64
    block_size: int = 16
    dtype: torch.dtype = torch.float32
    cache_dtype: torch.dtype | None = None
    """None: as dtype."""

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.kv_heads * self.group

    @property
    def stored(self) -> torch.dtype:
        """The type of the cache."""
        return self.cache_dtype or self.dtype

    @property
    def softmax_scale(self) -> float:
        """The usual one."""
        return self.head_size**-0.5


@dataclass(frozen=True)
class Batch:
    """Requests: dense, and paged."""

    shape: Shape
    lengths: tuple[int, ...]
    counts: tuple[int, ...]
    """Query tokens of each request."""
    queries: tuple[torch.Tensor, ...]
    """Of each request, ``[count, heads, head_size]``."""
    keys: tuple[torch.Tensor, ...]
    """Of each request, ``[length, kv_heads, head_size]``, in the type of the cache."""
    values: tuple[torch.Tensor, ...]
    context: PagedContext

    @property
    def query(self) -> torch.Tensor:
        """All queries, one after another."""
        return torch.cat(self.queries)

    @property
    def query_start_loc(self) -> torch.Tensor:
        """Where each request's queries begin, and the end."""
        starts = torch.tensor((0, *self.counts)).cumsum(0)
        return starts.to(torch.int32).to(self.query.device)

    def rows(self, request: int) -> slice:
        """The rows of a request among all queries."""
        start = sum(self.counts[:request])
        return slice(start, start + self.counts[request])


def batch_of(
    shape: Shape,
    lengths: Sequence[int],
    counts: Sequence[int] | None = None,
    *,
    shared: int = 0,
    width: int = 24,
    seed: int = 0,
    slope: tuple[float, float] = (1, 1),
    device: torch.device | str = "cpu",
) -> Batch:
    """Random requests in random blocks; the first ``shared`` tokens, whole blocks, are common.

    ``slope`` is what the first and the last key are multiplied by; in between it grows steadily.
    A request's numbers depend on the seed and on its place, a block's place on the seed.
    """
    counts = [1] * len(lengths) if counts is None else counts
    keys, values, queries = [], [], []
    for place, (length, count) in enumerate(zip(lengths, counts, strict=True)):
        draw = torch.Generator().manual_seed(1000 * seed + place)
        wide = (shape.kv_heads, shape.head_size)
        both = torch.randn((2, length, *wide), generator=draw)
        steps = torch.linspace(*(math.log(end) for end in slope), length).exp()
        both[0] *= steps[:, None, None]
        both = both.to(shape.stored)
        common = min(shared, length)
        if place and common:
            both[0, :common], both[1, :common] = keys[0][:common], values[0][:common]
        keys.append(both[0])
        values.append(both[1])
        rows = torch.randn((count, shape.heads, shape.head_size), generator=draw)
        queries.append(rows.to(shape.dtype).to(device))
    context = page(shape, keys, values, shared=shared, width=width, seed=seed, device=device)
    return Batch(
        shape, tuple(lengths), tuple(counts), tuple(queries), tuple(keys), tuple(values), context
    )


def page(
    shape: Shape,
    keys: Sequence[torch.Tensor],
    values: Sequence[torch.Tensor],
    *,
    shared: int = 0,
    width: int = 24,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> PagedContext:
    """Scatter requests over a pool in random order; see the top of this file for what is NaN."""
    size = shape.block_size
    needed = [-(-len(key) // size) for key in keys]
    num_blocks = sum(needed) + 4
    order = 1 + torch.randperm(num_blocks - 1, generator=torch.Generator().manual_seed(seed))
    pool = torch.full((2, num_blocks, size, shape.kv_heads, shape.head_size), math.nan)
    pool = pool.to(shape.stored)
    table = torch.full((len(keys), width), NOWHERE, dtype=torch.int32)
    for request, (key, value) in enumerate(zip(keys, values, strict=True)):
        used = sum(needed[:request])
        for column in range(needed[request]):
            first = column * size
            block = int(order[used + column])
            if request and first + size <= shared:
                table[request, column] = table[0, column]
                continue
            table[request, column] = block
            for half, rows in enumerate((key, value)):
                part = rows[first : first + size]
                pool[half, block, : len(part)] = part
    lengths = torch.tensor([len(key) for key in keys], dtype=torch.int32)
    both = pool.to(device)
    return PagedContext(both[0], both[1], table.to(device), lengths.to(device))


def with_context(batch: Batch, **changes: object) -> Batch:
    """The same batch, its context changed."""
    return replace(batch, context=replace(batch.context, **changes))  # type: ignore[arg-type]
