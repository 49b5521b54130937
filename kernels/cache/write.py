"""Keys and values go into the paged cache: as they are, or rounded to float8 e4m3.

A cache is ``[num_blocks, block_size, num_kv_heads, head_size]`` in this order of dimensions, in
whatever order they lie in memory, but for the last, which is dense. Both layouts in use are views
of that shape: token-major (NHD), as it stands, and head-major (HND, ``[num_blocks, num_kv_heads,
block_size, head_size]``), by ``.transpose(1, 2)``. Keys and values have caches of their own, which
may be halves of one tensor, and head sizes of their own.

Where source and cache have one type, bits are moved, NaN payloads included. Offsets are 64-bit: a
pool may hold more than 2**31 elements.
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels import errors
from nullblock.kernels.arguments import Backend, check, check_error, lanes, use_triton
from nullblock.kernels.batch.layout import PAD_SLOT
from nullblock.kernels.cache.e4m3 import e4m3_bits, e4m3_bits_torch
from nullblock.kernels.errors import SLOT, Error, report
from nullblock.kernels.index import (
    block_index,
    block_offset,
    cache_entry,
    row_entry,
    tile_entry,
)

FLOATS = (torch.float16, torch.bfloat16, torch.float32)
FP8 = torch.float8_e4m3fn
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
"""By size in bytes: the type as which bits are moved."""
MOST_COLUMNS = 1024
TILE = 8192
"""Elements that one program moves at once."""
PAD: tl.constexpr = tl.constexpr(PAD_SLOT)


def write_kv(
    key: torch.Tensor,
    value: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    error: torch.Tensor,
    *,
    key_scale: torch.Tensor | None = None,
    value_scale: torch.Tensor | None = None,
    backend: Backend = "auto",
) -> None:
    """Write each token's key and value, ``[T, num_kv_heads, head_size]``, into its slot.

    Tokens with PAD_SLOT are left out. No two tokens may have one slot: TABLE-2 and TABLE-6 see to
    that; if two do, either may win, element by element. A cache of float8_e4m3fn needs scales,
    float32 ``[1]``: it holds ``key / key_scale``, divided in float32 and rounded as `e4m3` says.
    A slot that the cache does not have sets SLOT in the error word and is left out. Raises
    ValueError for tensors that do not belong together.
    """
    _write(key, key_cache, key_scale, slot_mapping, error, "key", backend)
    _write(value, value_cache, value_scale, slot_mapping, error, "value", backend)


def _write(
    source: torch.Tensor,
    cache: torch.Tensor,
    scale: torch.Tensor | None,
    slot_mapping: torch.Tensor,
    error: torch.Tensor,
    name: str,
    backend: Backend,
) -> None:
    """Write keys or values: checked, then by kernel or twin."""
    _check(source, cache, scale, slot_mapping, error, name)
    if not use_triton(error, backend):
        write_torch(source, cache, scale, slot_mapping, error)
        return
    tokens, heads, head_size = source.shape
    columns = heads * head_size
    if not tokens or not columns:
        return
    width = lanes(columns, MOST_COLUMNS)
    height = max(1, min(TILE // width, triton.next_power_of_2(tokens)))
    grid = (triton.cdiv(tokens, height), triton.cdiv(columns, width))
    shape = (tokens, cache.shape[0] * cache.shape[1], *source.stride()[:2], *cache.stride()[:3])
    sizes = {"COLUMNS": columns, "HEAD_SIZE": head_size, "BLOCK_SIZE": cache.shape[1]}
    if scale is None:
        bits = BITS[cache.element_size()]
        _move_kernel[grid](
            source.view(bits), cache.view(bits), slot_mapping, error, *shape,
            **sizes, H=height, W=width, num_warps=4,
        )  # fmt: skip
    else:
        _round_kernel[grid](
            source, cache.view(torch.uint8), scale, slot_mapping, error, *shape,
            **sizes, H=height, W=width, num_warps=4,
        )  # fmt: skip


def _check(
    source: torch.Tensor,
    cache: torch.Tensor,
    scale: torch.Tensor | None,
    slot_mapping: torch.Tensor,
    error: torch.Tensor,
    name: str,
) -> None:
    """ValueError, in one line, unless the tensors of one cache belong together."""
    device = cache.device
    check(name, source, FLOATS, (None, None, None), device)
    _, heads, head_size = source.shape
    check(f"{name}_cache", cache, (*FLOATS, FP8), (None, None, heads, head_size), device)
    check("slot_mapping", slot_mapping, (torch.int64,), (source.shape[0],), device)
    check_error(error, device)
    if cache.dtype == FP8:
        if scale is None:
            raise ValueError(f"{name}_cache is float8_e4m3fn: give {name}_scale")
        check(f"{name}_scale", scale, (torch.float32,), (1,), device)
    elif scale is not None:
        raise ValueError(f"{name}_scale is for a cache of float8_e4m3fn: leave it out")
    elif cache.dtype != source.dtype:
        raise ValueError(f"{name} is {source.dtype}, its cache {cache.dtype}: convert it first")


def write_torch(
    source: torch.Tensor,
    cache: torch.Tensor,
    scale: torch.Tensor | None,
    slot_mapping: torch.Tensor,
    error: torch.Tensor,
) -> None:
    """Index assignment, of bits, for the tokens whose slots the cache has."""
    block_size = cache.shape[1]
    real = slot_mapping != PAD_SLOT
    inside = (slot_mapping >= 0) & (slot_mapping < cache.shape[0] * block_size)
    errors.report_torch(error, real & ~inside, Error.SLOT)
    slots = slot_mapping[inside]
    kept = source[inside]
    if scale is None:
        bits = kept.view(BITS[cache.element_size()])
    else:
        bits = e4m3_bits_torch(kept.float() / scale)
    at = (block_index.fn(slots, block_size), block_offset.fn(slots, block_size))
    cache.view(bits.dtype)[at] = bits


@triton.jit
def _places(
    slot_mapping, error, tokens, slots, source_stride, head_stride, block_stride, slot_stride,
    cache_head_stride, COLUMNS: tl.constexpr, HEAD_SIZE: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    H: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Of a tile of tokens and columns: offsets in the source, in the cache, and which count."""
    token = tile_entry(tl.program_id(0), H, tl.arange(0, H)).to(tl.int64)
    slot = tl.load(slot_mapping + token, mask=token < tokens, other=PAD)
    inside = (slot >= 0) & (slot < slots)
    report(error, (slot != PAD) & (inside == 0), SLOT)
    slot = tl.where(inside, slot, 0)
    column = tile_entry(tl.program_id(1), W, tl.arange(0, W))
    head, within = (column // HEAD_SIZE)[None, :], (column % HEAD_SIZE)[None, :]
    block, offset = block_index(slot, BLOCK_SIZE), block_offset(slot, BLOCK_SIZE)
    source = row_entry(token[:, None], source_stride, row_entry(head, head_stride, within))
    target = cache_entry(
        block[:, None], offset[:, None], head.to(tl.int64), within,
        block_stride, slot_stride, cache_head_stride,
    )  # fmt: skip
    return source, target, inside[:, None] & (column < COLUMNS)[None, :]


@triton.jit
def _move_kernel(
    source, cache, slot_mapping, error, tokens, slots, source_stride, head_stride,
    block_stride, slot_stride, cache_head_stride, COLUMNS: tl.constexpr, HEAD_SIZE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    reads, writes, there = _places(
        slot_mapping, error, tokens, slots, source_stride, head_stride, block_stride, slot_stride,
        cache_head_stride, COLUMNS, HEAD_SIZE, BLOCK_SIZE, H, W,
    )  # fmt: skip
    tl.store(cache + writes, tl.load(source + reads, mask=there, other=0), mask=there)


@triton.jit
def _round_kernel(
    source, cache, scale, slot_mapping, error, tokens, slots, source_stride, head_stride,
    block_stride, slot_stride, cache_head_stride, COLUMNS: tl.constexpr, HEAD_SIZE: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    reads, writes, there = _places(
        slot_mapping, error, tokens, slots, source_stride, head_stride, block_stride, slot_stride,
        cache_head_stride, COLUMNS, HEAD_SIZE, BLOCK_SIZE, H, W,
    )  # fmt: skip
    x = tl.load(source + reads, mask=there, other=0.0).to(tl.float32)
    # The plain division of a GPU is off by an ulp or two: enough to round the other way.
    bits = e4m3_bits(tl.div_rn(x, tl.load(scale)))
    tl.store(cache + writes, bits.to(tl.uint8), mask=there)
