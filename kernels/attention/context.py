"""What attention reads, how it is checked, and how a fault on the device is told.

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
``block_table[request, t // block_size]``; entries of the table past the last token are never read.
"""

from dataclasses import dataclass
from enum import IntFlag
from typing import Literal

import torch

Backend = Literal["auto", "triton", "torch"]
"""``auto`` takes Triton on a GPU and the twin on a CPU; the tests ask for the interpreter."""

QUERY_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
CACHE_DTYPES = (*QUERY_DTYPES, torch.float8_e4m3fn, torch.float8_e5m2)


class Fault(IntFlag):
    """Bits of the error word. A request that has one gets NaN in all its rows."""

    SEQ_LEN = 1
    """``seq_lens`` is negative, or more than a row of the block table holds."""
    BLOCK_ID = 2
    """The block table names a block outside the pool, before the request's last token."""
    QUERY_LEN = 4
    """``query_start_loc`` decreases, leaves the query, or gives a request more tokens than
    ``seq_lens`` does."""


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
    k_scale: float = 1.0
    """What a stored key is multiplied by: the scale of a float8 cache."""
    v_scale: float = 1.0

    @property
    def block_size(self) -> int:
        """Tokens a block."""
        return int(self.key_cache.shape[1])

    @property
    def num_kv_heads(self) -> int:
        """Heads of keys and values."""
        return int(self.key_cache.shape[2])

    @property
    def max_seq_len(self) -> int:
        """The most tokens that a row of the block table can hold."""
        return int(self.block_table.shape[1]) * self.block_size


def check(query: torch.Tensor, context: PagedContext, softmax_scale: float) -> None:
    """Refuse shapes, dtypes and devices that no kernel here takes.

    Raises ``ValueError``: one line that names the argument and what it has to be.
    """
    _check_query(query, softmax_scale)
    _check_cache(query, context)
    _require(
        context.block_table.dim() == 2 and context.block_table.dtype == torch.int32,
        "block_table",
        "int32 of shape [num_reqs, max_num_blocks_per_req]",
        context.block_table,
    )
    _require(
        context.seq_lens.shape == context.block_table.shape[:1]
        and context.seq_lens.dtype == torch.int32,
        "seq_lens",
        f"int32 of shape [{context.block_table.shape[0]}], as block_table has rows",
        context.seq_lens,
    )
    for name in ("block_table", "seq_lens"):
        tensor: torch.Tensor = getattr(context, name)
        _require(tensor.device == query.device, name, f"on {query.device}", tensor)
        _require(tensor.numel() == 0 or tensor.stride(-1) == 1, name, "contiguous", tensor)


def check_results(
    query: torch.Tensor,
    out: torch.Tensor | None,
    lse: torch.Tensor | None,
    error: torch.Tensor | None,
) -> None:
    """Refuse tensors for results that do not fit the query."""
    if out is not None:
        fits = out.shape == query.shape and out.dtype == query.dtype
        _require(fits, "out", f"{query.dtype} of shape {list(query.shape)}, as query", out)
        _require(_rows_are_contiguous(out), "out", "contiguous in its last dimension", out)
    if lse is not None:
        fits = lse.shape == query.shape[:2] and lse.dtype == torch.float32
        _require(fits, "lse", f"float32 of shape {list(query.shape[:2])}", lse)
        _require(lse.is_contiguous(), "lse", "contiguous", lse)
    if error is not None:
        fits = error.numel() == 1 and error.dtype == torch.int32
        _require(fits, "error", "int32 of one element", error)
    for name, tensor in (("out", out), ("lse", lse), ("error", error)):
        if tensor is not None:
            _require(tensor.device == query.device, name, f"on {query.device}", tensor)


def check_query_start_loc(query_start_loc: torch.Tensor, context: PagedContext) -> None:
    """Refuse offsets of requests that do not fit the block table."""
    num_reqs = context.block_table.shape[0]
    fits = query_start_loc.shape == (num_reqs + 1,) and query_start_loc.dtype == torch.int32
    _require(fits, "query_start_loc", f"int32 of shape [{num_reqs + 1}]", query_start_loc)
    device = context.seq_lens.device
    _require(query_start_loc.device == device, "query_start_loc", f"on {device}", query_start_loc)
    _require(query_start_loc.is_contiguous(), "query_start_loc", "contiguous", query_start_loc)


def use_triton(query: torch.Tensor, backend: Backend) -> bool:
    """Whether the kernel runs, rather than its twin."""
    return backend == "triton" or (backend == "auto" and query.device.type != "cpu")


def raise_faults(error: torch.Tensor) -> None:
    """Raise ``ValueError`` if the error word has a bit set; waits for the device."""
    word = int(error.item())
    if word:
        names = ", ".join(bit.name or "" for bit in Fault if bit & word)
        raise ValueError(f"attention met requests with bad metadata ({names}): their rows are NaN")


def _check_query(query: torch.Tensor, softmax_scale: float) -> None:
    wanted = "[num_tokens, num_query_heads, head_size], float32, float16 or bfloat16"
    _require(query.dim() == 3 and query.dtype in QUERY_DTYPES, "query", wanted, query)
    _require(_rows_are_contiguous(query), "query", "contiguous in its last dimension", query)
    if not 0 < softmax_scale < float("inf"):
        raise ValueError(f"softmax_scale has to be positive and finite, not {softmax_scale}")


def _check_cache(query: torch.Tensor, context: PagedContext) -> None:
    key, value = context.key_cache, context.value_cache
    wanted = "[num_blocks, block_size, num_kv_heads, head_size], a float of 8, 16 or 32 bits"
    _require(key.dim() == 4 and key.dtype in CACHE_DTYPES, "key_cache", wanted, key)
    same = value.shape == key.shape and value.dtype == key.dtype
    _require(same, "value_cache", f"{key.dtype} of shape {list(key.shape)}, as key_cache", value)
    num_blocks, block_size, num_kv_heads, head_size = key.shape
    _require(num_blocks > 0, "key_cache", "of at least one block", key)
    power = block_size > 0 and block_size & (block_size - 1) == 0
    _require(power, "key_cache", "of a block_size that is a power of two", key)
    heads = num_kv_heads > 0 and query.shape[1] % num_kv_heads == 0
    _require(heads, "query", f"of heads that {num_kv_heads} kv heads divide", query)
    _require(head_size == query.shape[2], "key_cache", f"of head_size {query.shape[2]}", key)
    _require(0 < head_size <= 256, "query", "of head_size 1 to 256", query)
    for name, tensor in (("key_cache", key), ("value_cache", value)):
        _require(tensor.device == query.device, name, f"on {query.device}", tensor)
        _require(_rows_are_contiguous(tensor), name, "contiguous in its last dimension", tensor)


def _rows_are_contiguous(tensor: torch.Tensor) -> bool:
    return bool(tensor.stride(-1) == 1 or tensor.shape[-1] <= 1)


def _require(holds: bool, name: str, wanted: str, found: torch.Tensor) -> None:
    if not holds:
        what = f"{found.dtype} {list(found.shape)} on {found.device}"
        raise ValueError(f"{name} has to be {wanted}; it is {what}, strides {found.stride()}")
