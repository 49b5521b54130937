"""Defects planted in the kernels of the cache, and the small call that each of them fails."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
import triton
from planting import defect
from twins import same

from nullblock.kernels.cache import blocks, write
from nullblock.kernels.checks import checked

CPU = torch.device("cpu")
FP8 = torch.float8_e4m3fn
Check = Callable[[], None]


def ints(*values: int) -> torch.Tensor:
    """An int32 tensor."""
    return torch.tensor(values, dtype=torch.int32)


def both(
    key: torch.Tensor, cache: torch.Tensor, slots: list[int], scale: float | None = None
) -> None:
    """The kernel beside its twin, values other than keys."""
    mapping = torch.tensor(slots)
    scales = (None, None) if scale is None else (torch.tensor([scale]), torch.tensor([3.0]))

    def run(backend: str, cache: torch.Tensor, other: torch.Tensor, error: torch.Tensor) -> None:
        write.write_kv(
            key, -key, cache, other, mapping, error, key_scale=scales[0], value_scale=scales[1],
            backend=backend,  # type: ignore[arg-type]
        )  # fmt: skip

    same(partial(run, "triton"), partial(run, "torch"), cache, cache.clone())


def odd() -> None:
    """Three heads of 5, slots out of order, padding, and slots that are none."""
    both(torch.randn(6, 3, 5), torch.zeros(3, 4, 3, 5), [7, -1, 11, 0, 12, -9])


def halves() -> None:
    """Every 16-bit float, and a quotient that is a tie."""
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    both(every.view(64, 8, 128), torch.zeros(4, 16, 8, 128).to(FP8), list(range(64)), 1.0)
    tie = (torch.tensor([1.0625]) * 0.12).view(1, 1, 1)
    both(tie, torch.zeros(1, 1, 1, 1).to(FP8), [0], 0.12)


def far_slot() -> None:
    """A slot of a pool that crosses 2**31 elements."""
    pool = torch.empty(2**31 // (16 * 128) + 2, 16, 1, 128, dtype=torch.uint8).view(FP8)
    scale, last = torch.ones(1), pool.shape[0] * 16 - 1
    pool[-1].view(torch.uint8)[:] = 0
    ones, error = torch.ones(1, 1, 128), ints(0)
    mapping = torch.tensor([last])
    write.write_kv(
        ones, ones, pool, pool, mapping, error, key_scale=scale, value_scale=scale,
        backend="triton",
    )  # fmt: skip
    assert int(error) == 0 and (pool[-1, -1].float() == 1.0).all()


def copies() -> None:
    """Pairs, a chain, two into one, the null block; twice, by the same scratch space."""
    cache = torch.randn(12, 40)
    sources, targets = ints(1, 2, 5, 6, 0, 8), ints(2, 3, 7, 7, 4, 9)
    roles = torch.zeros(12, dtype=torch.int32)

    def kernel(cache: torch.Tensor, error: torch.Tensor) -> None:
        blocks.copy_blocks(cache, sources, targets, ints(6), roles, error, backend="triton")

    def twin(cache: torch.Tensor, error: torch.Tensor) -> None:
        blocks.copy_blocks_torch(cache, sources, targets, ints(6), error)

    same(kernel, twin, cache)
    assert not roles.any()


def zeros() -> None:
    """Blocks of an odd size; the null block, and one that is none."""
    ids = ints(3, 0, 9, 5)
    kernel = partial(_zero, ids, "triton")
    same(kernel, partial(_zero, ids, "torch"), torch.randn(7, 33))


def _zero(ids: torch.Tensor, backend: str, cache: torch.Tensor, error: torch.Tensor) -> None:
    blocks.zero_blocks(cache, ids, ints(4), error, backend=backend)  # type: ignore[arg-type]


WRITE, E4M3, BLOCKS = "cache/write.py", "cache/e4m3.py", "cache/blocks.py"
MUTANTS: dict[str, tuple[str, str, str, Check]] = {
    "padding is written": (
        WRITE, "inside = (slot >= 0) & (slot < slots)\n    report(",
        "inside = slot < slots\n    report(", odd,
    ),
    "columns beyond a token": (
        WRITE, "inside[:, None] & (column < COLUMNS)[None, :]",
        "inside[:, None] & (column >= 0)[None, :]", odd,
    ),
    "heads in each other's place": (
        WRITE, "offset[:, None], head.to(tl.int64)", "offset[:, None], (2 - head).to(tl.int64)",
        odd,
    ),
    "values where keys are": (
        WRITE, "tl.store(value_cache + writes, tl.load(value + reads",
        "tl.store(value_cache + writes, tl.load(key + reads", odd,
    ),
    "slots of 32 bits": (
        WRITE, "return token, tl.where(inside, slot, 0), inside",
        "return token, tl.where(inside, slot, 0).to(tl.int32), inside", far_slot,
    ),
    "a product with the reciprocal": (
        WRITE, "tl.div_rn(x.to(tl.float32), tl.load(scale))",
        "x.to(tl.float32) * (1.0 / tl.load(scale))", halves,
    ),
    "ties go up": (E4M3, " + ((low >> 20) & 1)", " + 1", halves),
    "nothing saturates": (E4M3, "tl.minimum(size, MOST_BITS)", "size", halves),
    "NaN becomes a number": (
        E4M3, "tl.where(size > INFINITY_BITS, 0x7F, rounded)", "rounded", halves,
    ),
    "subnormals are lost": (
        E4M3, "tl.where(low < NORMAL_BITS, small, normal)", "normal", halves,
    ),
    "sources may be written": (BLOCKS, "other=0) < WRITTEN)", "other=0) < 99)", copies),
    "targets may be read": (
        BLOCKS, "        tl.atomic_or(roles + source, READ, mask=good)\n", "", copies,
    ),
    "targets may be written twice": (
        BLOCKS, "tl.atomic_add(roles + target, WRITTEN", "tl.atomic_or(roles + target, WRITTEN",
        copies,
    ),
    "roles are not given back": (
        BLOCKS, "        tl.store(roles + source, 0, mask=good)\n", "", copies,
    ),
    "the null block is zeroed": (
        BLOCKS, "there & (block > 0) & (block < num_blocks)\n    report",
        "there & (block < num_blocks)\n    report", zeros,
    ),
    "the next block is zeroed too": (
        BLOCKS, "mask=good[:, None] & (j < columns)", "mask=good[:, None]", zeros,
    ),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.skipif(not triton.knobs.runtime.interpret, reason="planted in the interpreter")
@pytest.mark.parametrize("check", [odd, halves, far_slot, copies, zeros])
def test_without_a_defect(check: Check) -> None:
    """The same calls find nothing in the kernels as they are."""
    with checked():
        check()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.skipif(not triton.knobs.runtime.interpret, reason="planted in the interpreter")
@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS.keys())
def test_a_defect_is_noticed(mutant: tuple[str, str, str, Check], tmp_path: Path) -> None:
    """The call fails with the defect: its own assertion says so, or a check of the kernels."""
    file, old, new, check = mutant
    with defect(tmp_path, file, old, new), pytest.raises(AssertionError):
        with checked():  # under which a store out of bounds does no harm
            check()
