"""Every bit of the error word: what sets it, and that whoever looks is told.

All but the first need a state that the kernels never make: they are made by hand.
"""

import pytest
import torch
from beside import Beside
from control_bench import Bench, ints, place_of

from nullblock.impl import Request
from nullblock.kernels.arguments import Backend
from nullblock.kernels.checks import checked
from nullblock.kernels.checks.shipped import allowed
from nullblock.kernels.control.faults import Fault, raise_if
from nullblock.kernels.control.release import release_rows
from nullblock.kernels.control.reset import reset_prefix_cache
from nullblock.kernels.control.schedule import schedule
from nullblock.kernels.control.sizes import Sizes
from nullblock.kernels.control.state import State, new_state
from nullblock.kernels.control.take import take_blocks
from nullblock.kernels.control.words import HEAD, RUNNING, TAIL, WAITING_HEAD
from nullblock.spec.facts import Config


def says(state: State) -> Fault:
    """What the error word says, and that `raise_if` says it by name."""
    said = Fault(int(state.arrays.error))
    with pytest.raises(RuntimeError, match=str(said.name)):
        raise_if(state.arrays.error)
    return said


def pool_of_four(backend: Backend, device: torch.device) -> State:
    """Four blocks, and nobody; of twins on a CPU."""
    return new_state(Sizes(5, 2, 2, 9, 9, lanes=4), place_of(backend, device), seed=0)


def two_running(device: torch.device) -> Beside:
    """Two requests run."""
    both = Beside(Config(9, 2, 9, 3, 9), "triton", num_rows=3, device=device)
    for id in "ab":
        both.add(Request(id, prompt=[1, 2, 3], max_tokens=5))
    both.step([4, 5])
    return both


@pytest.mark.parametrize("backend", ["triton", "torch"])
def test_pool(backend: Backend, device: torch.device) -> None:
    """More blocks are popped than are free."""
    state = pool_of_four(backend, device)
    take_blocks(state, 3, backend)
    take_blocks(state, 2, backend)
    assert says(state) == Fault.POOL


def test_ring(device: torch.device) -> None:
    """The ring is full of blocks, so that closing holes makes no room."""
    bench = Bench(3, False, "triton", device=device)
    bench.take(1)
    pool = bench.state.arrays.pool
    pool.ring[:] = 2
    bench.state.set_word(TAIL, bench.state.word(HEAD) + len(pool.ring))
    requests = bench.state.arrays.requests
    requests.table[0, 0], requests.num_blocks[0] = 1, 1
    release_rows(bench.state, ints([0], device), "triton")
    assert says(bench.state) == Fault.RING


def test_index(device: torch.device) -> None:
    """Every slot of the index is taken, so that no search comes to an end."""
    bench = Bench(3, False, "triton", device=device)
    bench.state.arrays.cache.slots[:] = 1
    bench.find([5])
    assert says(bench.state) == Fault.INDEX
    bench.state.arrays.error.zero_()
    with pytest.raises(RuntimeError, match="INDEX"):
        bench.insert([1], [5])


def test_tokens(device: torch.device) -> None:
    """A running request has computed as many tokens as max_model_len allows, and has more."""
    both = two_running(device)
    row = both.rows["a"]
    both.state.arrays.requests.num_computed[row] = 9
    both.state.arrays.requests.num_tokens[row] = 10
    schedule(both.state, "triton")
    assert says(both.state) == Fault.TOKENS


@pytest.mark.parametrize("backend", ["triton", "torch"])
def test_row(backend: Backend, device: torch.device) -> None:
    """A request without a token waits."""
    both = Beside(Config(9, 2, 9, 3, 9), backend, device=device)
    both.add(Request("a", prompt=[1], max_tokens=5))
    both.state.arrays.requests.num_tokens[both.rows["a"]] = 0
    schedule(both.state, backend)
    assert says(both.state) == Fault.ROW


def test_waiting(device: torch.device) -> None:
    """The waiting queue is full when running requests are to wait."""
    both = two_running(device)
    full = both.state.sizes.waiting_capacity
    both.state.set_word(WAITING_HEAD, both.state.word(WAITING_HEAD) - full)
    reset_prefix_cache(both.state, True, "triton")
    assert says(both.state) == Fault.WAITING


@pytest.mark.parametrize("backend", ["triton", "torch"])
def test_references(backend: Backend, device: torch.device) -> None:
    """A block is released that nobody holds."""
    state = pool_of_four(backend, device)
    requests = state.arrays.requests
    requests.stage[0], requests.table[0, 0], requests.num_blocks[0] = RUNNING.value, 3, 1
    release_rows(state, ints([0], state.device), backend)
    assert says(state) == Fault.REFERENCES


@pytest.mark.parametrize("backend", ["triton", "torch"])
def test_count(backend: Backend, device: torch.device) -> None:
    """A victim, served already in the step that it loses, has computed fewer tokens than none:
    its hashes are taken back from its first block on, and from no place before its table."""
    both = Beside(Config(7, 2, 30, 3, 20, policy="priority"), backend, device=device)
    both.add(Request("a", prompt=[1, 2], max_tokens=9, priority=5))
    both.step([3])
    for id, priority, prompt in (("b", 0, [4, 5, 6, 7]), ("c", 1, [8, 9])):
        both.add(Request(id, prompt=prompt, max_tokens=9, priority=priority))
    both.step([4, 5, 6])
    both.state.arrays.requests.num_computed[both.rows["a"]] = -4
    with checked(allow=allowed()):
        schedule(both.state, backend)
    assert int(both.state.arrays.decision.preempted[0]) == both.rows["a"]
    assert says(both.state) == Fault.COUNT


def test_what_wrappers_refuse() -> None:
    """Arguments that no kernel can take are refused in one line that says why."""
    state = new_state(Sizes(5, 2, 2, 9, 9), seed=0)
    with pytest.raises(ValueError, match="n is 5: 0 to 4"):
        take_blocks(state, 5)
    with pytest.raises(ValueError, match="rows is int64: give int32"):
        release_rows(state, torch.zeros(1, dtype=torch.int64))
    with pytest.raises(ValueError, match="3 rows: at most 2 requests run"):
        release_rows(state, ints([0, 1, 0]))
    for wrong, why in (
        ({"num_blocks": 0}, "num_blocks is 0"),
        ({"lanes": 6}, "lanes is 6: a power of two"),
        ({"num_rows": 1}, "1 rows for 2 running requests"),
        ({"max_model_len": 1 << 28}, "fewer than"),
        ({"max_num_seqs": 1 << 20, "max_model_len": 1 << 20}, "do not fit 32 bits"),
    ):
        sizes = {"num_blocks": 5, "block_size": 2, "max_num_seqs": 2, "max_model_len": 9}
        with pytest.raises(ValueError, match=why):
            Sizes(**{**sizes, "max_num_scheduled_tokens": 9, **wrong})
