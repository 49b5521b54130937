"""Blocks are zeroed and copied whole, and what would depend on the order is refused."""

import random
from functools import partial

import pytest
import torch
from twins import bits, same

from nullblock.kernels.cache import blocks
from nullblock.kernels.errors import Error, new_error

pytestmark = pytest.mark.usefixtures("checked_kernels")

DTYPES = [torch.bfloat16, torch.float32, torch.float8_e4m3fn, torch.uint8]


def ids(values: list[int], device: torch.device, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    """Block numbers, or a count."""
    return torch.tensor(values, dtype=dtype, device=device)


def memory(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """A cache of random bits."""
    size = dtype.itemsize
    raw = torch.randint(0, 256, (*shape[:-1], shape[-1] * size), dtype=torch.uint8)
    return raw.view(dtype).to(device)


def zero(cache: torch.Tensor, given: list[int], count: int | None = None) -> Error:
    """The kernel beside its twin."""
    some = ids(given, cache.device)
    num = ids([len(given) if count is None else count], cache.device)

    def kernel(cache: torch.Tensor, error: torch.Tensor) -> None:
        blocks.zero_blocks(cache, some, num, error, backend="triton")

    def twin(cache: torch.Tensor, error: torch.Tensor) -> None:
        blocks.zero_blocks_torch(cache, some, num, error)

    return same(kernel, twin, cache)


def copy(cache: torch.Tensor, pairs: list[tuple[int, int]], count: int | None = None) -> Error:
    """The kernels beside their twin; the scratch space is left as it was found."""
    device = cache.device
    sources = ids([source for source, _ in pairs], device, torch.int64)
    targets = ids([target for _, target in pairs], device, torch.int64)
    num = ids([len(pairs) if count is None else count], device)
    roles = torch.zeros(cache.shape[0], dtype=torch.int32, device=device)

    def kernel(cache: torch.Tensor, error: torch.Tensor) -> None:
        blocks.copy_blocks(cache, sources, targets, num, roles, error, backend="triton")

    def twin(cache: torch.Tensor, error: torch.Tensor) -> None:
        blocks.copy_blocks_torch(cache, sources, targets, num, error)

    said = same(kernel, twin, cache)
    assert not roles.any()
    return said


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2, 1), (5, 16, 2, 64), (40, 3, 7), (3, 5000)])
def test_blocks_named_are_zero_and_no_others(
    device: torch.device, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    """Odd sizes, one word, several tiles, a block named twice: its bits are 0, all others as they
    were."""
    cache = memory(shape, dtype, device)
    wanted = bits(cache).clone()
    given = random.Random(0).sample(range(1, shape[0]), (shape[0] - 1) // 2) + [shape[0] - 1] * 2
    wanted[given] = 0
    assert zero(cache, given) == Error(0)
    assert torch.equal(bits(cache), wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 1), (9, 16, 2, 64), (40, 3, 7), (5, 5000)])
def test_targets_become_their_sources(
    device: torch.device, dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    """Random pairs, one source for several: targets are bit for bit what their sources are, and
    all else is as it was."""
    rng = random.Random(1)
    cache = memory(shape, dtype, device)
    wanted = bits(cache).clone()
    shuffled = rng.sample(range(1, shape[0]), shape[0] - 1)
    half = max(1, len(shuffled) // 3)
    pairs = [(rng.choice(shuffled[:half]), target) for target in shuffled[half:]]
    for source, target in pairs:
        wanted[target] = wanted[source]
    assert copy(cache, pairs) == Error(0)
    assert torch.equal(bits(cache), wanted)


@pytest.mark.parametrize(
    ("pairs", "says", "copied"),
    [
        ([(1, 2), (2, 3), (4, 5)], Error.ALIAS, [(4, 5)]),
        ([(2, 3), (1, 2), (4, 5)], Error.ALIAS, [(4, 5)]),
        ([(1, 2), (3, 2), (3, 4)], Error.ALIAS, [(3, 4)]),
        ([(1, 2), (2, 1), (3, 4)], Error.ALIAS, [(3, 4)]),
        ([(1, 1), (3, 4)], Error.ALIAS, [(3, 4)]),
        ([(1, 2), (1, 2), (3, 4)], Error.ALIAS, [(3, 4)]),
        ([(0, 2), (3, 0), (-1, 4), (4, 6), (1, 5)], Error.BLOCK, [(1, 5)]),
        ([], Error(0), []),
    ],
)
def test_pairs_that_disturb_each_other_are_refused(
    device: torch.device,
    pairs: list[tuple[int, int]],
    says: Error,
    copied: list[tuple[int, int]],
) -> None:
    """Chains, swaps, two into one and a block onto itself are left out, whatever their order, and
    the pairs beside them are copied; so with blocks that the pool does not have."""
    cache = memory((6, 8), torch.float32, device)
    wanted = bits(cache).clone()
    for source, target in copied:
        wanted[target] = wanted[source]
    assert copy(cache, pairs) == says
    assert torch.equal(bits(cache), wanted)


def test_only_as_many_as_the_count_says(device: torch.device) -> None:
    """The rest of a list is not looked at; a count beyond the list sets COUNT."""
    cache = memory((6, 8), torch.float32, device)
    before = bits(cache).clone()
    assert copy(cache, [(1, 2), (2, 99)], 1) == zero(cache, [-8, 3], 0) == Error(0)
    assert torch.equal(bits(cache)[3:], before[3:])
    assert copy(cache, [(1, 2)], 2) == zero(cache, [3], -1) == Error.COUNT
    assert zero(cache, [0, 6, -1, 4]) == Error.BLOCK
    assert not bits(cache)[4].any() and torch.equal(bits(cache)[[0, 5]], before[[0, 5]])


def test_more_pairs_than_one_turn_takes(device: torch.device) -> None:
    """2,100 pairs: the plan takes three turns, and sees a target of the last in the first."""
    cache = memory((4300, 1), torch.float32, device)
    wanted = bits(cache).clone()
    pairs = [(1 + i, 2150 + i) for i in range(2099)] + [(2099, 2150)]
    for source, target in pairs[1:-1]:
        wanted[target] = wanted[source]
    assert copy(cache, pairs) == Error.ALIAS
    assert torch.equal(bits(cache), wanted)


def test_a_pool_of_more_than_two_to_the_31_words(device: torch.device) -> None:
    """Offsets are 64-bit: the last block of a pool that crosses 2**31 words is copied and zeroed.
    Pages that nobody touches cost nothing."""
    if device.type == "cuda" and torch.cuda.mem_get_info()[0] < 10 * 2**30:
        pytest.skip("needs 9 GiB on the GPU")
    words = 4096
    count = 2**31 // words + 2
    cache = torch.empty(count, words, dtype=torch.int32, device=device)
    cache[1], cache[count - 1], cache[count - 2] = 7, 5, 3
    error, num = new_error(device), ids([1], device)
    roles = torch.zeros(count, dtype=torch.int32, device=device)
    pair = (ids([1], device), ids([count - 1], device))
    blocks.copy_blocks(cache, *pair, num, roles, error, backend="triton")
    assert (cache[count - 1] == 7).all() and (cache[count - 2] == 3).all()
    blocks.zero_blocks(cache, pair[1], num, error, backend="triton")
    assert not cache[count - 1].any() and (cache[count - 2] == 3).all()
    assert int(error) == 0


def test_a_view_with_gaps_is_refused(device: torch.device) -> None:
    """Views in another order are not memory: one line says what to give."""
    cache = torch.zeros(4, 2, 8, device=device).transpose(1, 2)
    call = partial(blocks.zero_blocks, cache, ids([1], device), ids([1], device))
    with pytest.raises(ValueError, match="give the memory that it is a view of"):
        call(new_error(device))
