"""Short scenes for kernels with a defect: each is quiet if they have none. Those of nothing but a
pool play on any device."""

from dataclasses import replace

import torch
from beside import Beside
from control_bench import CPU, Bench

from nullblock.impl import Request
from nullblock.spec.facts import Config
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1


def taken(device: torch.device = CPU) -> None:
    """Blocks are popped, with holes and hashes among them."""
    bench = Bench(9, False, "triton", device=device)
    bench.touch([2, 3])
    bench.insert([4], [1])
    bench.take(5)


def touched(device: torch.device = CPU) -> None:
    """Blocks in the queue and blocks that are held are hit together."""
    bench = Bench(6, False, "triton", device=device)
    bench.take(2)
    bench.touch([1, 4, 5])
    bench.touch([4])


def shared(device: torch.device = CPU) -> None:
    """Requests that share blocks leave together, some hashed and some not; then again."""
    bench = Bench(12, True, "triton", device=device)
    bench.take(9)
    bench.insert([1, 2, 4], [5, 6, 7])
    bench.touch([1, 2, 3])
    bench.touch([2])
    bench.release([[1, 2, 3, 4, 5], [1, 2, 3, 6, 7], [8, 9]])
    bench.touch([9, 8, 7])
    bench.release([[7], [9, 8]])


def holes(device: torch.device = CPU) -> None:
    """The ring fills with holes until they have to be closed."""
    bench = Bench(4, False, "triton", device=device)
    for _ in range(9):
        bench.touch([2, 1])
        bench.release([[1, 2]])
    assert bench.compactions


def cached(device: torch.device = CPU) -> None:
    """Three copies of one content, evicted one by one."""
    bench = Bench(6, False, "triton", device=device)
    bench.insert([5, 3, 1], [7, 7, 7])
    assert bench.find([7]) == [5]
    bench.evict([5])
    assert bench.find([7]) == [3]
    bench.evict([3])
    assert bench.find([7, 8]) == [1, 0]


def clusters(device: torch.device = CPU) -> None:
    """Equal keys stand one behind another: behind a deleted one the search goes on."""
    bench = Bench(6, False, "triton", device=device)
    bench.insert([1, 2, 3], [7, 7, 7])
    for block in (1, 2, 3):
        bench.evict([block])
        assert bench.find([7]) == [bench.cached.get(7, [0])[0]]


def halves(device: torch.device = CPU) -> None:
    """Two keys with the same first word are two keys."""
    bench = Bench(6, False, "triton", device=device)
    bench.insert([1, 2], [7, 7])
    bench.state.arrays.cache.carried[1, 1] = 8
    assert bench.find([7]) == [2]


def rebuilt(device: torch.device = CPU) -> None:
    """So many blocks are cached and evicted that the index is built anew."""
    bench = Bench(4, False, "triton", device=device)
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


def _priority(num_blocks: int, budget: int, requests: list[tuple[str, int, int]]) -> Beside:
    """Request `a`, of little priority, runs; one step later so do these: id, priority, tokens of
    the prompt. No request reserves more than it needs for the moment."""
    config = Config(
        *(num_blocks, 2, budget, 4, 20),
        policy="priority",
        scheduler_reserve_full_isl=False,
        semantics=replace(VLLM_0_22_1, withdraw_uncaches=True),
    )
    both = Beside(config, "triton")
    both.add(Request("a", prompt=[1, 2, 3, 4], max_tokens=9, priority=5))
    both.step([5])
    for id, priority, length in requests:
        prompt = range(100 * ord(id), 100 * ord(id) + length)
        both.add(Request(id, prompt=prompt, max_tokens=9, priority=priority))
    return both


def withdrawn() -> None:
    """A victim that the step had served already returns its tokens, which the next one gets."""
    both = _priority(7, 6, [("b", 0, 4), ("c", 1, 9)])
    both.step([6, 7, 8])
    step, _ = both.step([6, 7, 8])
    assert step.preempted == ["a"] and step.num_scheduled_tokens.tolist() == [1, 5]


def uncached() -> None:
    """A victim that was to fill two blocks in this step loses both hashes, though only one of the
    blocks is taken by somebody else."""
    config = Config(9, 2, 20, 4, 20, long_prefill_token_threshold=4, policy="priority")
    both = Beside(config, "triton")
    both.add(Request("a", prompt=range(12), max_tokens=2, priority=5))
    both.step([5])
    both.add(Request("b", prompt=[90, 91, 92, 93], max_tokens=9))
    both.step([6, 7])
    assert both.step([6, 7])[0].preempted == ["a"]


def fixed() -> None:
    """Who preempts a request that was served gets what it asked for, not what that returned."""
    both = _priority(6, 4, [("b", 0, 9)])
    both.step([6, 7])
    step, _ = both.step([6, 7])
    assert step.preempted == ["a"] and step.num_scheduled_tokens.tolist() == [3]


def shifted() -> None:
    """A victim that stood before the index without anything to do moves the index: nobody behind
    is left out."""
    semantics = replace(VLLM_0_22_1, victim_shifts_index=True)
    config = Config(
        5, 2, 7, 4, 5, long_prefill_token_threshold=3, policy="priority", semantics=semantics
    )
    both = Beside(config, "triton")
    both.add(Request("a", prompt=[1, 2, 3, 4, 5], max_tokens=9, priority=5))
    both.step([5])
    for id in "bc":
        both.add(Request(id, prompt=[8, ord(id)], max_tokens=9))
    both.step([6, 7, 8])
    step, _ = both.step([6, 7, 8])
    assert step.preempted == ["a"] and step.ids == ["b", "c"]


def tied() -> None:
    """Of equals the greatest id is the victim; in vLLM 0.22.1 the first in the list."""
    for semantics, victim in ((NORMATIVE, "b"), (VLLM_0_22_1, "a")):
        config = Config(
            *(6, 1, 9, 3, 20),
            policy="priority",
            scheduler_reserve_full_isl=False,
            semantics=semantics,
        )
        both = Beside(config, "triton")
        for id in "ab":
            both.add(Request(id, prompt=[1 + ord(id), ord(id)], max_tokens=3))
            both.step([3, 4])
        assert both.step([3, 4])[0].preempted == [victim]


def paused() -> None:
    """Nobody is admitted while admissions are paused, and nothing is scheduled while all is."""
    both = Beside(Config(9, 2, 9, 3, 9), "triton")
    both.add(Request("a", prompt=[1, 2, 3], max_tokens=5))
    both.step([4])
    both.add(Request("b", prompt=[1, 2, 3], max_tokens=5))
    for how, count in ((1, 1), (2, 0), (0, 2)):
        both.pause(how)
        assert len(both.step([4, 4])[0].ids) == count


def free_hits() -> None:
    """Hits that stand in the free queue are not free for anything else."""
    both = Beside(Config(5, 2, 30, 3, 9), "triton")
    both.add(Request("a", prompt=[1, 2, 3, 4, 5], max_tokens=3))
    both.step([6])
    both.finish(["a"])
    both.add(Request("b", prompt=[9, 9], max_tokens=3))
    both.add(Request("c", prompt=[1, 2, 3, 4, 6, 6, 6], max_tokens=1))
    assert both.step([6])[0].ids == ["b"]


def whole() -> None:
    """A prompt whose first chunk would fit waits until all of it does."""
    both = Beside(Config(5, 2, 3, 3, 20, semantics=VLLM_0_22_1), "triton")
    both.add(Request("a", prompt=range(9), max_tokens=3))
    assert both.step([6])[0].ids == []


def resets() -> None:
    """A reset fails while a block is held; or everybody starts over, in the same order."""
    both = Beside(Config(9, 2, 30, 3, 9), "triton")
    for id in "abc":
        both.add(Request(id, prompt=[1, 2, ord(id)], max_tokens=3))
    both.step([6, 6, 6])
    both.reset(reset_running=False)
    both.reset(reset_running=True)
    assert [request.id for request in both.engine.waiting] == ["a", "b", "c"]
    assert both.step([6, 6, 6])[0].ids == ["a", "b", "c"]
