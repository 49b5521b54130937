"""The pool's kernels and twins beside lists: what they do to the block, and in which order."""

import pytest
import torch
from control_bench import Bench, at_random

from nullblock.kernels.arguments import Backend

pytestmark = pytest.mark.usefixtures("checked_kernels")
BACKENDS: list[Backend] = ["triton", "torch"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_any_calls_do_what_lists_do(backend: Backend, device: torch.device) -> None:
    """Whatever is taken, touched, released by several at once, cached, evicted and moved together,
    every block stands where it should (POOL-10, POOL-11, POOL-12, HASH-10, HASH-12, HASH-13).
    """
    for seed in range(3 if backend == "triton" else 30):
        at_random(seed, backend, turns=12 if backend == "triton" else 40, device=device)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("unhashed_first", [False, True])
def test_shared_blocks_leave_with_their_last_holder(
    backend: Backend, unhashed_first: bool, device: torch.device
) -> None:
    """Of blocks that requests share, each queues where the last of those that leave puts it, and
    one that somebody keeps holding does not (POOL-12)."""
    bench = Bench(12, unhashed_first, backend, device=device)
    bench.take(9)
    bench.insert([1, 2, 4, 8], [5, 6, 7, 8])
    bench.touch([1, 2, 3])
    bench.touch([1, 2])
    bench.release([[1, 2, 3, 4, 5], [1, 2, 6, 7], [8, 9]])
    front = [9, 7, 6, 5] if unhashed_first else []
    back = [4, 8] if unhashed_first else [5, 4, 7, 6, 9, 8]
    assert bench.free == [*front, 10, 11, *back]
    bench.release([[1, 2, 3]])
    assert bench.free[-2:] == [2, 1] and bench.free[0] == (3 if unhashed_first else 10)


@pytest.mark.parametrize("backend", BACKENDS)
def test_holes_are_closed_and_the_ring_wraps_around(
    backend: Backend, device: torch.device
) -> None:
    """Blocks that leave from the middle and come back again and again fill the ring with holes:
    they are closed in time, and positions pass the end of the ring in both directions."""
    bench = Bench(6, True, backend, device=device)
    for turn in range(18):
        middle = bench.free[1:3]
        bench.touch(middle)
        if turn % 4 == 0:
            bench.insert(middle, [turn + 1, turn + 2])
        bench.release([middle])
        if turn % 4 == 0:
            bench.evict(middle)
    assert bench.compactions
    for _ in range(12):
        blocks = bench.free[:3]
        bench.take(3)
        bench.release([blocks[:1], blocks[1:]])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_pool_of_one_usable_block(backend: Backend, device: torch.device) -> None:
    """The least pool there is works, and so does one that has nothing but the null block."""
    bench = Bench(2, False, backend, device=device)
    for key in (1, 2, 3):
        bench.take(1)
        bench.insert([1], [key])
        bench.release([[1]])
        assert bench.find([key, key + 1]) == [1, 0]
    nothing = Bench(1, False, backend, device=device)
    nothing.take(0)
    nothing.compact()
    nothing.same()


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_index_is_built_anew_before_it_fills_up(
    backend: Backend, device: torch.device
) -> None:
    """Slots of evicted blocks stay used; when half of the table was in use it is built anew, and
    what is cached is found as before, the first of several first (HASH-10)."""
    bench = Bench(9, False, backend, lanes=8, device=device)
    bench.insert([8, 1], [3, 3])
    for turn in range(12):
        blocks = [2, 3, 4, 5, 6, 7]
        bench.insert(blocks, [3, *(100 + 10 * turn + i for i in range(5))])
        assert bench.find([3, 100 + 10 * turn + 4, 99]) == [8, 7, 0]
        bench.evict(blocks)
    assert bench.rebuilds
    bench.evict([8])
    assert bench.find([3]) == [1]
