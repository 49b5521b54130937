"""Whether a request stops, in every combination of what decides it (UPD-4)."""

from itertools import product
from typing import Any

import pytest
import torch
from planted import planted
from where import COMPILED

from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1

CASES = list(product((2, 3, 4), (2, 3, 4), (-1, 7), (0, 1, 2), (0, 1)))
"""limit, at_least, eos, stop ids, and which one is 7. A request has 3 tokens, the last one 7."""


def expected(length_first: bool) -> list[int]:
    """By the rule, case after case: CONTINUE, STOPPED, STOPPED_BY_ID, LENGTH."""
    found = []
    for limit, at_least, eos, stops, at in CASES:
        at_limit = limit <= 3
        if at_least > 3:
            found.append(3 if at_limit and length_first else 0)
        elif eos == 7:
            found.append(1)
        elif at < stops:
            found.append(2)
        else:
            found.append(3 if at_limit else 0)
    return found


def said(backend: Any, length_first: bool) -> list[int]:
    """What the update tells of as many requests, and that it has ended those that it says."""
    from nullblock.kernels.control import exchange as at
    from nullblock.kernels.control import words
    from nullblock.kernels.control.sizes import Sizes
    from nullblock.kernels.control.state import new_state
    from nullblock.kernels.control.update import update

    n, rings = len(CASES), at.Rings(letters=1, steps=1)
    sizes = Sizes(
        num_blocks=4,
        block_size=4,
        max_num_seqs=n,
        max_model_len=9,
        max_num_scheduled_tokens=1,
        stop_width=2,
        length_before_min_tokens=length_first,
    )
    device = "cuda" if COMPILED and backend == "triton" else "cpu"
    state = new_state(sizes, device, seed=1)
    exchange = at.new_exchange(sizes, rings, state.device)
    exchange.progress[at.NUM_STEPS.value] = 1
    requests, decision = state.arrays.requests, state.arrays.decision
    rows = torch.arange(n, dtype=torch.int32)
    limit, at_least, eos, stops, _ = torch.tensor(CASES, dtype=torch.int32).T
    requests.limit.copy_(limit)
    requests.at_least.copy_(at_least)
    requests.eos.copy_(eos)
    requests.num_stop.copy_(stops)
    for row, (*_, place) in enumerate(CASES):
        requests.stop_ids[row, place] = 7
        requests.stop_ids[row, 1 - place] = 5
    requests.num_tokens.fill_(2)
    requests.stage.fill_(words.RUNNING.value)
    state.arrays.queues.running.copy_(rows)
    state.set_word(words.NUM_RUNNING, n)
    decision.row.copy_(rows)
    decision.samples.fill_(1)
    state.set_word(words.NUM_SCHEDULED, n)
    sampled = torch.full((n,), 7, dtype=torch.int32, device=device)
    update(state, exchange, rings, sampled, backend)
    assert int(state.arrays.error) == 0 and bool((requests.num_tokens == 3).all())
    told = exchange.log.scheduled[0]
    assert told[at.OUTPUT_ROW.value].tolist() == rows.tolist()
    assert bool((told[at.OUTPUT_TOKEN.value] == 7).all())
    why: list[int] = told[at.OUTPUT_WHY.value].tolist()
    ended = [row for row, how in enumerate(why) if how]
    assert state.arrays.queues.ended[: state.word(words.NUM_ENDED)].tolist() == ended
    assert state.arrays.queues.running[: state.word(words.NUM_RUNNING)].tolist() == [
        row for row, how in enumerate(why) if not how
    ]
    return why


@pytest.mark.parametrize("backend", ["triton", "torch"])
@pytest.mark.parametrize("semantics", [NORMATIVE, VLLM_0_22_1])
def test_every_way_to_stop(backend: Any, semantics: Any) -> None:
    """Kernel and twin say of each combination what the rule says."""
    first = semantics.length_before_min_tokens
    assert said(backend, first) == expected(first)


DEFECTS = {
    "a stop id comes before eos": (
        "triton",
        "sampling/stop.py",
        "tl.where(by_eos, BY_EOS, answer)",
        "tl.where(by_eos & (by_id == 0), BY_EOS, answer)",
    ),
    "min_tokens counts one too many": (
        "triton",
        "control/stop.py",
        "num_tokens < at_least, by_eos",
        "num_tokens <= at_least, by_eos",
    ),
    "the last stop id is not looked at": (
        "triton",
        "control/stop.py",
        "there & (j < n)",
        "there & (j < n - 1)",
    ),
    "the limit waits for min_tokens": (
        "triton",
        "control/stop.py",
        "BY_LENGTH if z.length_before_min_tokens else ON",
        "ON",
    ),
    "the limit comes before eos": (
        "torch",
        "sampling/stop.py",
        "torch.where(by_eos, STOPPED, answer)",
        "torch.where(by_eos & ~at_limit, STOPPED, answer)",
    ),
    "a request ends one token late": (
        "torch",
        "control/stop.py",
        "num_tokens >= requests.limit[row]",
        "num_tokens > requests.limit[row]",
    ),
}


@pytest.mark.parametrize("what", DEFECTS)
def test_a_planted_defect_shows(what: str) -> None:
    """In some combination."""
    backend, path, old, new = DEFECTS[what]
    folder, _, file = path.partition("/")
    with planted(file, old, new, package=f"nullblock.kernels.{folder}"):
        assert said(backend, True) != expected(True)
