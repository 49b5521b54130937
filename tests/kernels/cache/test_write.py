"""Keys and values stand in their slots, bit for bit, and nowhere else."""

from functools import partial

import pytest
import torch
from twins import bits, same

from nullblock.kernels.arguments import Backend
from nullblock.kernels.batch.layout import PAD_SLOT
from nullblock.kernels.cache import write
from nullblock.kernels.errors import Error, new_error

pytestmark = pytest.mark.usefixtures("checked_kernels")

FP8 = torch.float8_e4m3fn


def random_bits(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """Any bits at all: numbers of every size, infinities, NaNs with payloads."""
    raw = torch.randint(0, 256, (*shape[:-1], shape[-1] * dtype.itemsize), dtype=torch.uint8)
    return raw.view(dtype).to(device)


def run(
    source: torch.Tensor, cache: torch.Tensor, slots: list[int], scale: float | None = None
) -> Error:
    """The kernel beside its twin, with values of other bits than the keys."""
    device = source.device
    factor = None if scale is None else torch.tensor([scale], device=device)
    mapping = torch.tensor(slots, dtype=torch.int64, device=device)
    value, value_cache = source.flip(0), cache.flip(0)

    def both(backend: Backend, cache: torch.Tensor, *rest: torch.Tensor) -> None:
        write.write_kv(
            source, value, cache, rest[0], mapping, rest[1],
            key_scale=factor, value_scale=factor, backend=backend,
        )  # fmt: skip

    return same(partial(both, "triton"), partial(both, "torch"), cache, value_cache)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize(
    ("tokens", "heads", "head_size", "block_size"),
    [(0, 2, 64, 16), (1, 1, 1, 1), (5, 8, 128, 16), (33, 3, 80, 32), (7, 5, 257, 24)],
)
def test_bits_are_moved(
    device: torch.device,
    dtype: torch.dtype,
    tokens: int,
    heads: int,
    head_size: int,
    block_size: int,
) -> None:
    """Every token's row is in its slot as it was, NaN payloads included; padding is left out; all
    other slots are untouched. Odd sizes, one element and none."""
    blocks = 2 + tokens // block_size
    cache = random_bits((blocks, block_size, heads, head_size), dtype, device)
    before = cache.clone()
    source = random_bits((tokens, heads, head_size), dtype, device)
    slots = torch.randperm(blocks * block_size)[:tokens].tolist()
    slots[::3] = [PAD_SLOT] * len(slots[::3])
    assert run(source, cache, slots) == Error(0)
    flat, old = bits(cache).flatten(0, 1), bits(before).flatten(0, 1)
    for token, slot in enumerate(slots):
        if slot != PAD_SLOT:
            assert torch.equal(flat[slot], bits(source)[token])
            old[slot] = flat[slot]
    assert torch.equal(flat, old)


def test_head_major_caches_and_packed_sources(device: torch.device) -> None:
    """A cache that lies head by head, and keys cut out of a packed projection, are views: strides
    say where things are."""
    packed = random_bits((9, 4 + 2 + 2, 64), torch.bfloat16, device)
    key = packed[:, 4:6]
    memory = random_bits((3, 2, 16, 64), torch.bfloat16, device)
    cache = memory.transpose(1, 2)
    slots = [40, 0, 17, PAD_SLOT, 33, 47, 1, 2, 16]
    assert run(key, cache, slots) == Error(0)
    for token, slot in enumerate(slots):
        if slot != PAD_SLOT:
            written = memory[slot // 16, :, slot % 16]
            assert torch.equal(bits(written), bits(key[token]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("scale", [1.0, 0.37, 3e-5, 900.0])
def test_every_half_rounds_to_the_nearest_float8(
    device: torch.device, dtype: torch.dtype, scale: float
) -> None:
    """All 65,536 values of a 16-bit type: what torch makes of the quotient, clamped to 448, ties
    to even; NaN stays NaN."""
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(dtype)
    source = every.view(128, 4, 128).to(device)
    cache = torch.zeros(8, 16, 4, 128, dtype=FP8, device=device)
    assert run(source, cache, list(range(128)), scale) == Error(0)
    wanted = (source.float() / torch.tensor([scale], device=device)).clamp(-448, 448).to(FP8)
    assert torch.equal(bits(cache).flatten(), bits(wanted).flatten())
    assert (bits(cache) & 0x7F == 0x7F).sum() == source.isnan().sum()


def test_ties_go_to_even_and_the_rest_saturates(device: torch.device) -> None:
    """Halfway values, the smallest subnormal and its half, what lies beyond 448, both zeros."""
    given = [1.0625, 1.1875, 432.0, 464.0, 1e30, float("-inf"), 2**-9, 2**-10, 3 * 2**-10, -0.0]
    wants = [1.0, 1.25, 448.0, 448.0, 448.0, -448.0, 2**-9, 0.0, 2**-8, -0.0]
    source = torch.tensor(given, device=device).view(10, 1, 1)
    cache = torch.ones(1, 16, 1, 1, device=device).to(FP8)
    assert run(source, cache, list(range(10)), 1.0) == Error(0)
    written = cache.float().flatten()[:10].cpu()
    assert torch.equal(bits(written), bits(torch.tensor(wants)))


def test_the_quotient_is_rounded_once(device: torch.device) -> None:
    """Where the quotient is a tie it stays one: multiplying by the reciprocal of the scale would
    give a little more, and the next value up."""
    scale = torch.tensor(0.12).item()
    source = (torch.tensor([1.0625]) * scale).view(1, 1, 1).to(device)
    assert source.item() * (torch.tensor(1.0) / scale).item() > 1.0625
    cache = torch.zeros(1, 1, 1, 1, device=device).to(FP8)
    assert run(source, cache, [0], scale) == Error(0)
    assert cache.float().item() == 1.0


def test_a_slot_that_the_cache_does_not_have_is_left_out_and_said(device: torch.device) -> None:
    """Slots beyond either end set SLOT and write nothing; the others are written."""
    cache = torch.zeros(2, 4, 1, 8, device=device)
    source = torch.ones(5, 1, 8, device=device)
    assert run(source, cache, [8, -2, 7, 2**62, -(2**62)]) == Error.SLOT
    assert cache.sum() == 8 and cache[1, 3].sum() == 8


def test_a_pool_of_more_than_two_to_the_31_elements(device: torch.device) -> None:
    """Offsets are 64-bit: the last slot of a pool that crosses 2**31 elements is where it should
    be, and so is the first."""
    blocks = 2**31 // (16 * 8 * 128) + 2
    cache = torch.empty(blocks, 16, 8, 128, dtype=FP8, device=device)
    last = blocks * 16 - 1
    assert cache[: blocks - 1].numel() > 2**31
    source = torch.full((3, 8, 128), 2.0, dtype=torch.float16, device=device)
    error = new_error(device)
    touched = {0: 0, (blocks - 2) * 16: 0, last: 0}
    for slot in touched:
        bits(cache[slot // 16])[:] = 1
    mapping = torch.tensor(list(touched), device=device)
    scale = torch.ones(1, device=device)
    write.write_kv(
        source, source, cache, cache, mapping, error,
        key_scale=scale, value_scale=scale, backend="triton",
    )  # fmt: skip
    assert int(error) == 0
    for slot in touched:
        assert (cache[slot // 16, slot % 16].float() == 2.0).all()
        assert (cache[slot // 16].float() == 2.0).sum() == 8 * 128


def test_keys_and_values_have_caches_of_their_own(device: torch.device) -> None:
    """Both are written, each with its head size and scale."""
    key, value = torch.ones(2, 2, 16, device=device), torch.ones(2, 2, 8, device=device)
    key_cache = torch.zeros(1, 4, 2, 16, device=device, dtype=FP8)
    value_cache = torch.zeros(1, 4, 2, 8, device=device, dtype=FP8)
    write.write_kv(
        key, value, key_cache, value_cache, torch.tensor([3, 1], device=device),
        new_error(device), key_scale=torch.tensor([0.5], device=device),
        value_scale=torch.tensor([4.0], device=device), backend="triton",
    )  # fmt: skip
    assert key_cache.float().sum() == 2 * 2 * 16 * 2.0
    assert value_cache.float().sum() == 2 * 2 * 8 * 0.25


def test_wrong_arguments_get_one_line(device: torch.device) -> None:
    """A cache of another type, head size or order, or a scale too few or too many, is refused."""
    key = torch.zeros(2, 2, 16, device=device)
    slots, error = torch.zeros(2, dtype=torch.int64, device=device), new_error(device)
    one = torch.ones(1, device=device)

    def refused(cache: torch.Tensor, scale: torch.Tensor | None = None) -> str:
        with pytest.raises(ValueError) as caught:
            write.write_kv(key, key, cache, cache, slots, error, key_scale=scale)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    cache = torch.zeros(1, 4, 2, 16, device=device)
    assert "convert it first" in refused(cache.half())
    assert refused(cache.to(FP8)) == "key_cache is float8_e4m3fn: give key_scale"
    assert "leave it out" in refused(cache, one)
    assert refused(cache[..., :8]) == "key_cache has shape [1, 4, 2, 8]: give [any, any, 2, 16]"
    assert "call .contiguous()" in refused(cache.transpose(2, 3).contiguous().transpose(2, 3))


def test_the_public_wrapper_takes_the_twin_on_a_cpu(device: torch.device) -> None:
    """Where there is no GPU the twin runs, unless the interpreter is asked for."""
    key = torch.ones(1, 1, 4, device=device)
    cache = torch.zeros(2, 2, 1, 4, device=device)
    mapping = torch.tensor([2], device=device)
    both = partial(write.write_kv, key, key, cache[:1], cache[1:], mapping * 0, new_error(device))
    both()
    assert cache.sum() == 8
