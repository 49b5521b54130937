"""Whole blocks: zeroed before somebody reads what nobody wrote, or copied for somebody new.

A cache here is memory, ``[num_blocks, ...]`` without gaps, of any type: of a head-major cache the
tensor itself, not the view that `write_kv` takes. Bits are moved, four bytes at a time where a
block's size allows. Offsets are 64-bit.

Rules: what stands in a block that was just taken is nobody's (POOL-10), so it may be zeroed; a
block that is written to has one holder (TABLE-6), so no copy has two sources.
"""

import torch
import triton
import triton.language as tl

from nullblock.kernels import errors
from nullblock.kernels.arguments import (
    INTEGERS,
    Backend,
    check,
    check_count,
    check_error,
    lanes,
    use_triton,
)
from nullblock.kernels.errors import ALIAS, BLOCK, COUNT, Error, report
from nullblock.kernels.index import row_entry, tile_entry

MOST_WORDS = 2048
TILE = 8192
MOST_LANES = 1024
READ: tl.constexpr = tl.constexpr(1)
WRITTEN: tl.constexpr = tl.constexpr(2)
"""A block's role counts: 1 if it is read, 2 for each time that it is written."""


def zero_blocks(
    cache: torch.Tensor,
    block_ids: torch.Tensor,
    num_ids: torch.Tensor,
    error: torch.Tensor,
    *,
    backend: Backend = "auto",
) -> None:
    """Every bit of the first `num_ids` blocks of `block_ids`, ``[K]``, becomes 0.

    A block may be named twice. One that the pool does not have, or the null block, is left out and
    sets BLOCK in the error word; a bad count sets COUNT. Raises ValueError for tensors that do not
    belong together.
    """
    words = _words(cache)
    device = cache.device
    check("block_ids", block_ids, INTEGERS, (None,), device)
    check_count("num_ids", num_ids, device)
    check_error(error, device)
    if not use_triton(error, backend):
        zero_blocks_torch(cache, block_ids, num_ids, error)
    elif words.numel() and len(block_ids):
        grid, height, width = _tiles(len(block_ids), words.shape[1])
        _zero_kernel[grid](
            words, block_ids, num_ids, error, len(block_ids), *words.shape, H=height, W=width
        )


def zero_blocks_torch(
    cache: torch.Tensor, block_ids: torch.Tensor, num_ids: torch.Tensor, error: torch.Tensor
) -> None:
    """Indexed assignment of zeros."""
    good = _good_torch(block_ids, num_ids, cache.shape[0], error)
    _words(cache)[block_ids[good].long()] = 0


def copy_blocks(
    cache: torch.Tensor,
    sources: torch.Tensor,
    targets: torch.Tensor,
    num_pairs: torch.Tensor,
    roles: torch.Tensor,
    error: torch.Tensor,
    *,
    backend: Backend = "auto",
) -> None:
    """Block ``targets[k]`` becomes a copy of block ``sources[k]``, for the first `num_pairs` k.

    The result must not depend on the order of copying: a pair whose target is a target of another
    pair or a source of any, or whose source is a target of any, is left out and sets ALIAS. One
    block may be copied to many. A block that the pool does not have, or the null block, sets
    BLOCK; a bad count sets COUNT. `roles`, ``[num_blocks]`` int32, is scratch space: 0 between
    calls. Raises ValueError for tensors that do not belong together.
    """
    words = _words(cache)
    device, most = cache.device, len(sources)
    check("sources", sources, INTEGERS, (None,), device)
    check("targets", targets, INTEGERS, (most,), device)
    check_count("num_pairs", num_pairs, device)
    check("roles", roles, (torch.int32,), (cache.shape[0],), device)
    check_error(error, device)
    if not use_triton(error, backend):
        copy_blocks_torch(cache, sources, targets, num_pairs, error)
    elif words.numel() and most:
        lists = (sources, targets, num_pairs, roles)
        width = lanes(most, MOST_LANES)
        _roles_kernel[(1,)](*lists, error, most, words.shape[0], W=width)
        grid, height, columns = _tiles(most, words.shape[1])
        _copy_kernel[grid](words, *lists, most, *words.shape, H=height, W=columns)
        # A kernel of its own: the copies read roles until the last of them is done.
        _clear_kernel[(1,)](*lists, most, words.shape[0], W=width)


def copy_blocks_torch(
    cache: torch.Tensor,
    sources: torch.Tensor,
    targets: torch.Tensor,
    num_pairs: torch.Tensor,
    error: torch.Tensor,
) -> None:
    """Pairs that disturb no other, then one indexed assignment."""
    good = _good_torch(sources, num_pairs, cache.shape[0], error)
    good &= _good_torch(targets, num_pairs, cache.shape[0], error)
    source, target = sources[good].long(), targets[good].long()
    read = torch.zeros(cache.shape[0], dtype=torch.int32, device=cache.device)
    written = read.index_add(0, target, torch.ones_like(target, dtype=torch.int32))
    read[source] = 1
    clear = (written[target] == 1) & (read[target] == 0) & (written[source] == 0)
    errors.report_torch(error, ~clear, Error.ALIAS)
    words = _words(cache)
    words[target[clear]] = words[source[clear]]


def _words(cache: torch.Tensor) -> torch.Tensor:
    """A cache as ``[num_blocks, words]``; ValueError, in one line, if it has gaps."""
    if cache.dim() < 1 or not cache.is_contiguous():
        raise ValueError("cache has gaps or another order: give the memory that it is a view of")
    flat = cache.view(cache.shape[0], -1) if cache.numel() else cache.new_empty(0, 0)
    whole = flat.shape[1] * flat.element_size() % 4 == 0
    return flat.view(torch.int32 if whole else torch.uint8)


def _tiles(things: int, words: int) -> tuple[tuple[int, int], int, int]:
    """A grid over so many blocks of so many words, and the height and width of its tiles."""
    width = lanes(words, MOST_WORDS)
    height = max(1, min(TILE // width, triton.next_power_of_2(things)))
    return (triton.cdiv(things, height), triton.cdiv(words, width)), height, width


def _good_torch(
    ids: torch.Tensor, count: torch.Tensor, num_blocks: int, error: torch.Tensor
) -> torch.Tensor:
    """Which ids count and are blocks."""
    errors.report_torch(error, (count < 0) | (count > len(ids)), Error.COUNT)
    there = torch.arange(len(ids), device=ids.device) < count
    block = (ids > 0) & (ids < num_blocks)
    errors.report_torch(error, there & ~block, Error.BLOCK)
    return there & block


@triton.jit
def _zero_kernel(
    words, block_ids, num_ids, error, most, num_blocks, columns, H: tl.constexpr, W: tl.constexpr
):
    k = tile_entry(tl.program_id(0), H, tl.arange(0, H))
    n = tl.load(num_ids)
    if (n < 0) | (n > most):
        tl.atomic_or(error, COUNT)
    there = (k < n) & (k < most)
    block = tl.load(block_ids + k, mask=there, other=0).to(tl.int64)
    good = there & (block > 0) & (block < num_blocks)
    report(error, there & (good == 0), BLOCK)
    j = tile_entry(tl.program_id(1), W, tl.arange(0, W))[None, :]
    at = row_entry(block[:, None], columns, j)
    tl.store(words + at, tl.zeros([H, W], tl.int32), mask=good[:, None] & (j < columns))


@triton.jit
def _pair(sources, targets, num_pairs, k, most, num_blocks):
    """Of places: both blocks, which places count, and which of these name blocks."""
    there = (k < tl.load(num_pairs)) & (k < most)
    source = tl.load(sources + k, mask=there, other=0).to(tl.int64)
    target = tl.load(targets + k, mask=there, other=0).to(tl.int64)
    real = (source > 0) & (source < num_blocks) & (target > 0) & (target < num_blocks)
    return source, target, there, there & real


@triton.jit
def _undisturbed(roles, source, target, good):
    """Whether a pair's target is written once and never read, and its source never written."""
    alone = tl.load(roles + target, mask=good, other=0) == WRITTEN
    return good & alone & (tl.load(roles + source, mask=good, other=0) < WRITTEN)


@triton.jit
def _roles_kernel(sources, targets, num_pairs, roles, error, most, num_blocks, W: tl.constexpr):
    n = tl.load(num_pairs)
    if (n < 0) | (n > most):
        tl.atomic_or(error, COUNT)
    for tile in range(0, tl.cdiv(most, W)):
        k = tile_entry(tile, W, tl.arange(0, W))
        source, target, there, good = _pair(sources, targets, num_pairs, k, most, num_blocks)
        report(error, there & (good == 0), BLOCK)
        tl.atomic_or(roles + source, READ, mask=good)
    tl.debug_barrier()
    for tile in range(0, tl.cdiv(most, W)):
        k = tile_entry(tile, W, tl.arange(0, W))
        source, target, there, good = _pair(sources, targets, num_pairs, k, most, num_blocks)
        tl.atomic_add(roles + target, WRITTEN, mask=good)
    tl.debug_barrier()
    for tile in range(0, tl.cdiv(most, W)):
        k = tile_entry(tile, W, tl.arange(0, W))
        source, target, there, good = _pair(sources, targets, num_pairs, k, most, num_blocks)
        report(error, good & (_undisturbed(roles, source, target, good) == 0), ALIAS)


@triton.jit
def _copy_kernel(
    words, sources, targets, num_pairs, roles, most, num_blocks, columns,
    H: tl.constexpr, W: tl.constexpr,
):  # fmt: skip
    k = tile_entry(tl.program_id(0), H, tl.arange(0, H))
    source, target, there, good = _pair(sources, targets, num_pairs, k, most, num_blocks)
    copied = _undisturbed(roles, source, target, good)[:, None]
    j = tile_entry(tl.program_id(1), W, tl.arange(0, W))[None, :]
    inside = copied & (j < columns)
    bits = tl.load(words + row_entry(source[:, None], columns, j), mask=inside, other=0)
    tl.store(words + row_entry(target[:, None], columns, j), bits, mask=inside)


@triton.jit
def _clear_kernel(sources, targets, num_pairs, roles, most, num_blocks, W: tl.constexpr):
    for tile in range(0, tl.cdiv(most, W)):
        k = tile_entry(tile, W, tl.arange(0, W))
        source, target, there, good = _pair(sources, targets, num_pairs, k, most, num_blocks)
        tl.store(roles + source, 0, mask=good)
        tl.store(roles + target, 0, mask=good)
