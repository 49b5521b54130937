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
TILE = 4096
"""Elements that one program moves at once, of keys and then of values."""
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
    _check(key, key_cache, key_scale, slot_mapping, error, "key")
    _check(value, value_cache, value_scale, slot_mapping, error, "value")
    if key_cache.dtype != value_cache.dtype or key_cache.shape[:2] != value_cache.shape[:2]:
        raise ValueError("key_cache and value_cache differ: give one dtype, and as many blocks")
    if not use_triton(error, backend):
        write_kv_torch(
            (key, value), (key_cache, value_cache), (key_scale, value_scale), slot_mapping, error
        )
        return
    num_blocks, block_size, _, _ = key_cache.shape
    tokens = len(slot_mapping)
    columns = max(key.shape[1] * key.shape[2], value.shape[1] * value.shape[2])
    if not tokens or not columns:
        return
    width = lanes(columns, MOST_COLUMNS)
    height = max(1, min(TILE // width, triton.next_power_of_2(tokens)))
    bits = BITS[key_cache.element_size()]
    fresh = (key, value) if key_scale is not None else (key.view(bits), value.view(bits))
    kernel = _move_kernel if key_scale is None else _round_kernel
    kernel[triton.cdiv(tokens, height), triton.cdiv(columns, width)](
        *fresh, key_cache.view(bits), value_cache.view(bits), key_scale, value_scale,
        slot_mapping, error, tokens, num_blocks * block_size,
        *_strides(key, key_cache), *_strides(value, value_cache),
        KEY_COLUMNS=key.shape[1] * key.shape[2], VALUE_COLUMNS=value.shape[1] * value.shape[2],
        KEY_SIZE=key.shape[2], VALUE_SIZE=value.shape[2],
        BLOCK_SIZE=block_size, H=height, W=width, num_warps=4,
    )  # fmt: skip


def _strides(source: torch.Tensor, cache: torch.Tensor) -> tuple[int, ...]:
    """Of a source: token and head; of its cache: block, slot and head."""
    return (*source.stride()[:2], *cache.stride()[:3])


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


def write_kv_torch(
    sources: tuple[torch.Tensor, torch.Tensor],
    caches: tuple[torch.Tensor, torch.Tensor],
    scales: tuple[torch.Tensor | None, torch.Tensor | None],
    slot_mapping: torch.Tensor,
    error: torch.Tensor,
) -> None:
    """The twin of `write_kv`: of keys, then of values."""
    for source, cache, scale in zip(sources, caches, scales, strict=True):
        _write_torch(source, cache, scale, slot_mapping, error)


def _write_torch(
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
def _slots(slot_mapping, error, tokens, slots, H: tl.constexpr):
    """Of a tile: tokens, their slots, and which of them the cache has."""
    token = tile_entry(tl.program_id(0), H, tl.arange(0, H)).to(tl.int64)
    slot = tl.load(slot_mapping + token, mask=token < tokens, other=PAD)
    inside = (slot >= 0) & (slot < slots)
    report(error, (slot != PAD) & (inside == 0), SLOT)
    return token, tl.where(inside, slot, 0), inside


@triton.jit
def _places(
    token, slot, inside, source_stride, head_stride, block_stride, slot_stride, cache_head_stride,
    COLUMNS: tl.constexpr, HEAD_SIZE: tl.constexpr, BLOCK_SIZE: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Of a tile of tokens and columns: offsets in the source, in the cache, and which count."""
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
def _rounded(x, scale):
    """The plain division of a GPU is off by an ulp or two: enough to round the other way."""
    return e4m3_bits(tl.div_rn(x.to(tl.float32), tl.load(scale))).to(tl.uint8)


@triton.jit
def _move_kernel(
    key, value, key_cache, value_cache, key_scale, value_scale, slot_mapping, error, tokens, slots,
    k_token, k_head, k_cache_block, k_cache_slot, k_cache_head,
    v_token, v_head, v_cache_block, v_cache_slot, v_cache_head,
    KEY_COLUMNS: tl.constexpr, VALUE_COLUMNS: tl.constexpr, KEY_SIZE: tl.constexpr,
    VALUE_SIZE: tl.constexpr, BLOCK_SIZE: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Bits, unchanged."""
    token, slot, inside = _slots(slot_mapping, error, tokens, slots, H)
    reads, writes, there = _places(
        token, slot, inside, k_token, k_head, k_cache_block, k_cache_slot, k_cache_head,
        KEY_COLUMNS, KEY_SIZE, BLOCK_SIZE, W,
    )  # fmt: skip
    tl.store(key_cache + writes, tl.load(key + reads, mask=there, other=0), mask=there)
    reads, writes, there = _places(
        token, slot, inside, v_token, v_head, v_cache_block, v_cache_slot, v_cache_head,
        VALUE_COLUMNS, VALUE_SIZE, BLOCK_SIZE, W,
    )  # fmt: skip
    tl.store(value_cache + writes, tl.load(value + reads, mask=there, other=0), mask=there)


@triton.jit
def _round_kernel(
    key, value, key_cache, value_cache, key_scale, value_scale, slot_mapping, error, tokens, slots,
    k_token, k_head, k_cache_block, k_cache_slot, k_cache_head,
    v_token, v_head, v_cache_block, v_cache_slot, v_cache_head,
    KEY_COLUMNS: tl.constexpr, VALUE_COLUMNS: tl.constexpr, KEY_SIZE: tl.constexpr,
    VALUE_SIZE: tl.constexpr, BLOCK_SIZE: tl.constexpr, H: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    """Quotients, rounded to float8."""
    token, slot, inside = _slots(slot_mapping, error, tokens, slots, H)
    reads, writes, there = _places(
        token, slot, inside, k_token, k_head, k_cache_block, k_cache_slot, k_cache_head,
        KEY_COLUMNS, KEY_SIZE, BLOCK_SIZE, W,
    )  # fmt: skip
    x = tl.load(key + reads, mask=there, other=0.0)
    tl.store(key_cache + writes, _rounded(x, key_scale), mask=there)
    reads, writes, there = _places(
        token, slot, inside, v_token, v_head, v_cache_block, v_cache_slot, v_cache_head,
        VALUE_COLUMNS, VALUE_SIZE, BLOCK_SIZE, W,
    )  # fmt: skip
    x = tl.load(value + reads, mask=there, other=0.0)
    tl.store(value_cache + writes, _rounded(x, value_scale), mask=there)
