"""What attention reads and writes, and how that is checked.

Layout, shared by every kernel here (``H`` query heads, ``Hkv`` key/value heads, ``H % Hkv == 0``):

    query, out      [num_tokens, H, head_size]                       float32, float16, bfloat16
    key_cache       [num_blocks, block_size, Hkv, head_size]         the same, or float8
    value_cache     [num_blocks, block_size, Hkv, head_size]         as key_cache
    block_table     [num_reqs, max_num_blocks_per_req]               int32
    seq_lens        [num_reqs]                                       int32
    query_start_loc [num_reqs + 1]                                   int32
    lse             [num_tokens, H]                                  float32, natural logarithm

The last dimension is contiguous; every other stride is free, so a cache that is stored head by
head is a permuted view. Token ``t`` of a request stands in slot ``t % block_size`` of block
``block_table[request, t // block_size]`` (TABLE-8); entries of the table past the last token are
never followed.
"""

from dataclasses import dataclass, field

import torch

from nullblock.kernels import arguments

QUERY_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
CACHE_DTYPES = (*QUERY_DTYPES, torch.float8_e4m3fn, torch.float8_e5m2)
LARGEST_HEAD = 256
"""A tile of keys has to fit a processor's own memory beside one of values."""
MOST_REQUESTS = 65535
"""Programs along a grid's last axis."""
LARGEST_GROUP = 128
"""Query heads that share a key/value head stand in the rows of one tile."""


@dataclass(frozen=True, slots=True)
class PagedContext:
    """The keys and values that requests may attend to; layouts stand at the top of this file.

    ``seq_lens`` counts the tokens of a request whose keys and values are in the cache, those of
    the query among them. 0 is a padded request.
    """

    key_cache: torch.Tensor
    value_cache: torch.Tensor
    block_table: torch.Tensor
    seq_lens: torch.Tensor
    k_scale: float | torch.Tensor = field(default=1.0, kw_only=True)
    """What a stored key is multiplied by: the scale of a float8 cache. A tensor, float32 ``[1]``,
    is read when the kernel runs."""
    v_scale: float | torch.Tensor = field(default=1.0, kw_only=True)
    max_seq_len: int | None = field(default=None, kw_only=True)
    """A bound on ``seq_lens`` that the host knows. It makes launches smaller and changes no bit
    of a result. None: what a row of the block table holds."""

    @property
    def num_reqs(self) -> int:
        """Requests, padded ones among them."""
        return int(self.block_table.shape[0])

    @property
    def num_blocks(self) -> int:
        """Blocks of the pool, the null block among them."""
        return int(self.key_cache.shape[0])

    @property
    def block_size(self) -> int:
        """Tokens a block."""
        return int(self.key_cache.shape[1])

    @property
    def num_kv_heads(self) -> int:
        """Heads of keys and values."""
        return int(self.key_cache.shape[2])

    @property
    def capacity(self) -> int:
        """The most tokens that a row of the block table holds: the same for every batch."""
        return int(self.block_table.shape[1]) * self.block_size

    @property
    def longest(self) -> int:
        """The most tokens that a request may have in this batch."""
        return self.capacity if self.max_seq_len is None else min(self.max_seq_len, self.capacity)


@dataclass(frozen=True, slots=True)
class Results:
    """Where results go; layouts stand at the top of this file."""

    out: torch.Tensor
    lse: torch.Tensor | None = None
    """The logarithm of the sum of the exponentials of the scaled scores; -inf of no score."""
    error: torch.Tensor | None = None
    """An error word, of ``nullblock.kernels.errors``."""


def results(
    query: torch.Tensor,
    out: torch.Tensor | None,
    lse: torch.Tensor | None,
    error: torch.Tensor | None,
    *,
    every_row: bool = False,
) -> Results:
    """Where results go, checked against the query.

    ``out`` is made if it is missing: of zeros, unless ``every_row`` will be written.
    """
    if out is None:
        new = torch.empty_like if every_row else torch.zeros_like
        out = new(query, memory_format=torch.contiguous_format)
    arguments.check("out", out, (query.dtype,), tuple(query.shape), query.device)
    if lse is not None:
        arguments.check("lse", lse, (torch.float32,), tuple(query.shape[:2]), query.device)
        if not lse.is_contiguous():
            raise ValueError("lse has rows that lie apart: give a contiguous tensor")
    if error is not None:
        arguments.check_error(error, query.device)
    return Results(out, lse, error)


def check(query: torch.Tensor, context: PagedContext, softmax_scale: float) -> None:
    """Refuse shapes, dtypes and devices that no kernel here takes.

    Raises ValueError: one line that names the argument and the remedy.
    """
    arguments.check("query", query, QUERY_DTYPES, (None, None, None), query.device)
    if not 0 < softmax_scale < float("inf"):
        raise ValueError(f"softmax_scale is {softmax_scale}: give a positive finite number")
    _check_cache(query, context)
    int32 = (torch.int32,)
    if context.num_reqs > MOST_REQUESTS:
        raise ValueError(f"{context.num_reqs} requests: a launch takes {MOST_REQUESTS}")
    arguments.check("block_table", context.block_table, int32, (None, None), query.device)
    arguments.check("seq_lens", context.seq_lens, int32, (context.num_reqs,), query.device)
    for name, scale in (("k_scale", context.k_scale), ("v_scale", context.v_scale)):
        if isinstance(scale, torch.Tensor):
            arguments.check(name, scale, (torch.float32,), (1,), query.device)
    if context.max_seq_len is not None and context.max_seq_len < 0:
        raise ValueError(f"max_seq_len is {context.max_seq_len}: give a count or None")


def check_query_start_loc(query_start_loc: torch.Tensor, context: PagedContext) -> None:
    """Refuse offsets of requests that do not fit the block table."""
    shape = (context.num_reqs + 1,)
    device = context.seq_lens.device
    arguments.check("query_start_loc", query_start_loc, (torch.int32,), shape, device)


def _check_cache(query: torch.Tensor, context: PagedContext) -> None:
    key, value, (_, num_heads, head_size) = context.key_cache, context.value_cache, query.shape
    shape = (None, None, None, head_size)
    arguments.check("key_cache", key, CACHE_DTYPES, shape, query.device)
    arguments.check("value_cache", value, (key.dtype,), tuple(key.shape), query.device)
    if not 0 < head_size <= LARGEST_HEAD:
        raise ValueError(f"head_size is {head_size}: kernels take 1 to {LARGEST_HEAD}")
    if context.block_size < 1 or context.block_size & (context.block_size - 1):
        raise ValueError(f"block_size is {context.block_size}: kernels take powers of two")
    kv_heads = context.num_kv_heads
    if kv_heads < 1 or num_heads % kv_heads or not 0 < num_heads // kv_heads <= LARGEST_GROUP:
        raise ValueError(
            f"{num_heads} query heads over {kv_heads} key/value heads: give each key/value head "
            f"the same number of query heads, 1 to {LARGEST_GROUP}"
        )
