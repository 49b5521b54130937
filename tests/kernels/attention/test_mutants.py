"""Defects planted in the attention kernels, and the batch that each of them fails."""

from collections.abc import Callable
from pathlib import Path

import checks
import pytest
import torch
import triton
from planting import defect

HEADS = "kv_head * GROUP + row"
OTHER_HEADS = "kv_head + row * (num_heads // GROUP)"
MUTANTS = {
    "a row sees one key too many": (
        "tiles", "token[None, :] < seen[:, None]", "token[None, :] <= seen[:, None]",
        checks.chunks,
    ),
    "the mask of keys is off by one": (
        "tiles", "inside = token < end", "inside = token <= end", checks.decodes
    ),
    "a decode at a stale position": (
        "decode_kernels", "tl.minimum(begin + split, length)",
        "tl.minimum(begin + split, length - 1)", checks.decodes,
    ),
    "a chunk at a stale position": (
        "prefill_kernel", "past = length - count", "past = length - count - 1", checks.chunks
    ),
    "decode heads mapped across groups": ("decode_kernels", HEADS, OTHER_HEADS, checks.decodes),
    "chunk heads mapped across groups": (
        "prefill_kernel", f"{HEADS} % GROUP",
        "kv_head + row % GROUP * (num_heads // GROUP)", checks.chunks,
    ),
    "values are not rescaled": ("tiles", "acc = acc * fade[:, None]", "acc = acc", checks.decodes),
    "the total is not rescaled": (
        "tiles", "tl.fma(total, fade, tl.sum(weight, 1))", "total + tl.sum(weight, 1)",
        checks.decodes,
    ),
    "the largest score is not kept": (
        "tiles", "tl.maximum(top, tl.max(score, 1) * scale)", "tl.max(score, 1) * scale",
        checks.steep,
    ),
    "splits are added without their largest scores": (
        "partials", "tl.exp2(tops - level)", "tl.where(there, 1.0, 0.0)", checks.decodes
    ),
    "earlier splits are not rescaled": (
        "partials", "tl.fma(acc, fade[:, None],", "tl.fma(acc, 1.0,", checks.many_splits
    ),
    "the last split is forgotten": (
        "partials", "there = slot < count", "there = slot < count - 1", checks.decodes
    ),
    "a split too few": (
        "requests", "(length - prefix + split - 1) // split", "(length - prefix) // split",
        checks.decodes,
    ),
    "programs past the last split write": (
        "decode_kernels", " & (own < splits)", "", checks.decodes
    ),
    "offsets of 32 bits": (
        "tiles", "cache_entry(block.to(tl.int64), offset.to(tl.int64)",
        "cache_entry(block, offset", checks.far_pool,
    ),
    "the slot after": (
        "tiles", "block_offset(token, BLOCK_SIZE)", "block_offset(token + 1, BLOCK_SIZE)",
        checks.decodes,
    ),
    "keys of another head": ("decode_kernels", "keys + kv_head", "keys + 0 * kv_head",
        checks.decodes),
    "values are not scaled": (
        "tiles", "share = value_scale / something", "share = 1.0 / something", checks.scales
    ),
    "an lse to base 2": ("tiles", "tl.log2(something)) * LN_2", "tl.log2(something))",
        checks.decodes),
    "a padded request divides by 0": (
        "tiles", "tl.where(total == 0.0, 1.0, total)", "total", checks.decodes
    ),
    "the null block is read": ("tiles", "(block > 0)", "(block >= 0)", checks.null_block),
    "tiles of the wrong request": (
        "requests", "first_tile(start, request, WIDTH)", "start // WIDTH", checks.chunks
    ),
    "tiles counted from the wrong one": (
        "prefill_kernel", "first_tile(start, request, TOKENS)", "start // TOKENS",
        checks.chunks,
    ),
    "the prefix is seen whole from inside": (
        "cascade_kernels", "seen = length - count + (token - start) + 1",
        "seen = length + 0 * token", checks.prefixes,
    ),
    "zeros past the prefix's end count": (
        "tiles", "seen = tl.minimum(seen, end)", "seen = seen", checks.prefixes
    ),
    "the rest begins with the prefix": (
        "decode_kernels", "begin = prefix + own * split", "begin = own * split", checks.prefixes
    ),
    "the prefix is not merged": (
        "cascade_kernels", "tl.where(refused, prefix_slots, 0)", "prefix_slots", checks.prefixes
    ),
    "the rest is not merged": (
        "cascade_kernels", "prefix_slots + own, slots", "prefix_slots, slots", checks.prefixes
    ),
}  # fmt: skip


@pytest.mark.skipif(
    not triton.knobs.runtime.interpret, reason="defects are planted in the interpreter"
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_a_defect_is_noticed(
    mutant: tuple[str, str, str, Callable[[], None]], tmp_path: Path
) -> None:
    """The batch fails with the defect, and nothing but its own assertion says so."""
    file, old, new, check = mutant
    with defect(tmp_path, f"attention/{file}.py", old, new), pytest.raises(AssertionError):
        check()


@pytest.mark.usefixtures("checked_kernels")
@pytest.mark.parametrize(
    "check",
    [checks.decodes, checks.chunks, checks.prefixes, checks.null_block, checks.steep],
    ids=lambda check: check.__name__,
)
def test_the_batches_pass_without_a_defect(
    check: Callable[[torch.device], None], device: torch.device
) -> None:
    """So that what fails above fails for its defect; and no race, stray access, overflow or
    masked lane is found on the way."""
    check(device)
