"""Both phases of a step and what it tells, beside the NumPy engine: whole games."""

from collections import Counter

import pytest
import torch
from beside import Beside
from play import play

from nullblock.impl import Request
from nullblock.kernels.arguments import Backend
from nullblock.kernels.control.lookup import look_up
from nullblock.spec.facts import Config
from nullblock.spec.profiles import VLLM_0_22_1

RICH = [61, 111, 260]
"""Games in which much happens, for the slow interpreter: preemptions of both policies, hits,
either order of freed blocks, blocks of 1 to 4 tokens."""


def test_twins_decide_as_the_numpy_engine_does() -> None:
    """In random games the twins take every decision that the NumPy engine takes, and are in its
    state after every half of a step (RUN-1 to RUN-7, WAIT-1 to WAIT-11, PREEMPT-1 to PREEMPT-4,
    OUT-1 to OUT-6, UPD-1, LIFE-3, LIFE-10)."""
    seen = sum((play(seed, "torch") for seed in range(40)), Counter[str]())
    assert all(seen[what] for what in ("preempted", "hit", "ended", "aborted", "resets")), seen


@pytest.mark.parametrize("seed", RICH)
def test_kernels_decide_as_the_numpy_engine_does(seed: int, device: torch.device) -> None:
    """The kernels do, in games that are rich in what is rare (the rules above)."""
    play(seed, "triton", turns=25, device=device)


@pytest.mark.usefixtures("checked_kernels")
def test_phases_by_themselves_are_the_whole_step(device: torch.device) -> None:
    """Three launches, a phase each, decide what the one launch does; none of them has a race."""
    play(263, "triton", turns=12, fused=False, device=device)


@pytest.mark.parametrize("backend", ["triton", "torch"])
def test_many_prompts_are_looked_up_at_once(backend: Backend, device: torch.device) -> None:
    """Of each prompt the longest cached prefix is found, of all its tokens but the last, and how
    much of it nobody holds (HASH-11, HASH-16)."""
    both = Beside(Config(20, 2, 100, 4, 30), backend, device=device)
    for id, prompt in (("a", [1, 2, 3, 4, 5]), ("b", [1, 2, 9, 9, 9, 9, 9])):
        both.add(Request(id, prompt=prompt, max_tokens=9))
    both.step([0, 0])
    both.finish(["b"])
    prompts = [[1, 2, 3, 4], [1, 2, 3, 4, 0], [1, 2, 9, 9, 9, 9, 1], [2, 2, 2], [1]]
    for i, prompt in enumerate(prompts):
        both.add(Request(f"p{i}", prompt=prompt, max_tokens=2))
    rows = [both.rows[f"p{i}"] for i in range(len(prompts))]
    hits, unheld = look_up(both.state, both.state.arrays.queues.waiting.new_tensor(rows), backend)
    assert hits.tolist() == [1, 2, 3, 0, 0]
    assert unheld.tolist() == [0, 0, 2, 0, 0]


@pytest.mark.parametrize("backend", ["triton", "torch"])
def test_a_withdrawn_victim_leaves_hashes_as_vllm_does(
    backend: Backend, device: torch.device
) -> None:
    """Under PRIORITY a victim that the step had served already gives tokens and blocks back; that
    0.22.1 keeps its hashes, and miscounts the index, is done as it does (PREEMPT-2, PREEMPT-3)."""
    for semantics in (VLLM_0_22_1, Config(9, 2, 9, 3, 9).semantics):
        config = Config(7, 2, 30, 3, 20, policy="priority", semantics=semantics)
        both = Beside(config, backend, device=device)
        for id, priority in (("a", 5), ("b", 0), ("c", 1)):
            both.add(Request(id, prompt=[1, 2, 3], max_tokens=9, priority=priority))
        preempted = [id for _ in range(5) for id in both.step([4, 5, 6])[0].preempted]
        assert "a" in preempted
