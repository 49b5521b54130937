"""Short scenes for kernels with a defect: each is quiet if they have none."""

from bench import Bench
from beside import Beside

from nullblock.impl import Request
from nullblock.spec.facts import Config
from nullblock.spec.profiles import VLLM_0_22_1


def taken() -> None:
    """Blocks are popped, with holes and hashes among them."""
    bench = Bench(9, False, "triton")
    bench.touch([2, 3])
    bench.insert([4], [1])
    bench.take(5)


def touched() -> None:
    """Blocks in the queue and blocks that are held are hit together."""
    bench = Bench(6, False, "triton")
    bench.take(2)
    bench.touch([1, 4, 5])
    bench.touch([4])


def shared() -> None:
    """Requests that share blocks leave together, some hashed and some not; then again."""
    bench = Bench(12, True, "triton")
    bench.take(9)
    bench.insert([1, 2, 4], [5, 6, 7])
    bench.touch([1, 2, 3])
    bench.touch([2])
    bench.release([[1, 2, 3, 4, 5], [1, 2, 3, 6, 7], [8, 9]])
    bench.touch([9, 8, 7])
    bench.release([[7], [9, 8]])


def holes() -> None:
    """The ring fills with holes until they have to be closed."""
    bench = Bench(4, False, "triton")
    for _ in range(9):
        bench.touch([2, 1])
        bench.release([[1, 2]])
    assert bench.compactions


def cached() -> None:
    """Three copies of one content, evicted one by one."""
    bench = Bench(6, False, "triton")
    bench.insert([5, 3, 1], [7, 7, 7])
    assert bench.find([7]) == [5]
    bench.evict([5])
    assert bench.find([7]) == [3]
    bench.evict([3])
    assert bench.find([7, 8]) == [1, 0]


def clusters() -> None:
    """Equal keys stand one behind another: behind a deleted one the search goes on."""
    bench = Bench(6, False, "triton")
    bench.insert([1, 2, 3], [7, 7, 7])
    for block in (1, 2, 3):
        bench.evict([block])
        assert bench.find([7]) == [bench.cached.get(7, [0])[0]]


def halves() -> None:
    """Two keys with the same first word are two keys."""
    bench = Bench(6, False, "triton")
    bench.insert([1, 2], [7, 7])
    bench.state.arrays.cache.carried[1, 1] = 8
    assert bench.find([7]) == [2]


def rebuilt() -> None:
    """So many blocks are cached and evicted that the index is built anew."""
    bench = Bench(4, False, "triton")
    for turn in range(12):
        bench.insert([1, 2], [10 * turn + 1, 10 * turn + 2])
        bench.evict([1] if turn % 2 else [1, 2])
        if turn % 2:
            bench.evict([2])
    assert bench.rebuilds


def full_length() -> None:
    """A prompt as long as max_model_len, in chunks: its last token is never computed (0.22.1)."""
    both = Beside(Config(9, 2, 3, 2, 5, semantics=VLLM_0_22_1), "triton")
    both.add(Request("a", prompt=[1, 2, 3, 4, 5], max_tokens=3))
    for _ in range(3):
        both.step([6])


def extras() -> None:
    """An adapter and a salt that are spelled alike make equal first blocks, and others that
    differ."""
    both = Beside(Config(9, 2, 30, 3, 9), "triton")
    for id, extra in (("a", (("x",), ("x",))), ("b", (("x",), ()))):
        both.add(Request(id, prompt=[1, 2, 3, 4, 5], max_tokens=3, extras=extra))
    both.step([6, 6])
