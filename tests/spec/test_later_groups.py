"""What a later line does with windows and groups: GROUP-40, GROUP-41, GROUP-67, and what breaks
nothing.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from nullblock.conformance.adapters.reference import create as reference
from nullblock.conformance.adapters.spec import create
from nullblock.conformance.compare import first_difference
from nullblock.conformance.driver import run
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.ledger.sources.scopes import search
from nullblock.conformance.scenario import Scenario, from_dict
from nullblock.spec.explorer.group_scopes import RULES_WINDOW, WINDOW, WINDOW_AHEAD
from nullblock.spec.explorer.hybrid_scopes import (
    HYBRID_AHEAD,
    HYBRID_CHUNKS,
    HYBRID_EAGLE,
    HYBRID_EAGLE_SIZES,
    RULES_HYBRID,
    RULES_HYBRID_SIZES,
)
from nullblock.spec.explorer.model import Scope
from nullblock.spec.keys import num_hashes, prompt_end
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, VLLM_0_32_0, Semantics


@pytest.mark.parametrize(
    ("switch", "scope"),
    [
        *(("freed_unhashed_first", s) for s in (WINDOW, RULES_WINDOW, HYBRID_CHUNKS)),
        *(("freed_unhashed_first", s) for s in (RULES_HYBRID, HYBRID_EAGLE, RULES_HYBRID_SIZES)),
        *(("windows_await_outputs", s) for s in (WINDOW_AHEAD, HYBRID_AHEAD)),
        ("narrow_windows_uncached", WINDOW),
        *(("dropped_hits_reach_on", s) for s in (HYBRID_EAGLE, HYBRID_EAGLE_SIZES)),
    ],
    ids=lambda x: getattr(x, "name", x),
)
def test_what_later_lines_do_with_windows_and_groups_breaks_nothing(
    switch: str, scope: Scope
) -> None:
    """With that switch alone as in a later line every statement holds."""
    result = search(scope, replace(NORMATIVE, **{switch: True}))
    assert result.passed and result.complete


def test_a_larger_block_is_known_by_its_hashes_or_by_the_last() -> None:
    """GROUP-40: by as many as cover it, in the later line by one."""
    assert [num_hashes(s, 3) for s in (NORMATIVE, VLLM_0_22_1, VLLM_0_32_0)] == [3, 3, 1]


@pytest.mark.parametrize(
    ("prompt", "end"), [(22, 20), (21, 20), (20, 0), (24, 20), (17, 0), (25, 0), (1, 0), (5, 4)]
)
def test_a_prompt_ends_within_a_block_or_not(prompt: int, end: int) -> None:
    """GROUP-41: hashes of 4 tokens, blocks of 8, and the last token is no part of it."""
    assert prompt_end(prompt, 4, 8) == end


SIZES = {
    "block_size": 4,
    "num_blocks": 30,
    "groups": [{"type": "full", "block_size": 8}, {"type": "sliding_window", "sliding_window": 6}],
}


def test_the_end_of_a_prompt_in_an_evicted_block_is_refused_by_name() -> None:
    """GROUP-41: the real engine gives the block that key for its only one."""
    events = [
        {"op": "add", "id": "a", "prompt": {"range": [0, 22]}, "max_tokens": 9},
        {"op": "step", "n": 3},
        {"op": "evict_blocks", "ids": list(range(1, 30))},
        {"op": "step"},
    ]
    taken = from_dict({"config": SIZES, "events": events})
    with pytest.raises(OutOfScope, match="the end of a prompt in block"):
        list(run(taken, create(taken.config, VLLM_0_32_0)))


MARKED: dict[str, Any] = {
    "block_size": 2,
    "num_blocks": 30,
    "groups": [
        {"type": "full", "block_size": 4, "eagle": True},
        {"type": "sliding_window", "sliding_window": 3},
    ],
}


@pytest.mark.parametrize(
    ("prompt", "outputs", "keys"),
    [(6, 0, 2), (7, 0, 2), (5, 0, 1), (4, 0, 1), (3, 0, 0), (6, 3, 3), (10, 0, 3), (8, 4, 3)],
)
def test_the_end_of_a_prompt_makes_a_block_known_before_it_is_full(
    prompt: int, outputs: int, keys: int
) -> None:
    """GROUP-67: of blocks of four tokens and hashes of two, the one behind the last unit gets a
    key where a hash of the prompt ends within it; once it is full its own is another (and that of
    the prompt's end is known besides, GROUP-41). Whoever goes back finds it behind those of none.
    """
    events = [
        {"op": "add", "id": "a", "prompt": {"range": [0, prompt]}, "max_tokens": 1 + outputs},
        {"op": "step", "n": 1 + outputs},
        {"op": "reset_prefix_cache"},
    ]
    taken = from_dict({"config": MARKED, "events": events})
    played = [list(run(taken, f(taken.config, VLLM_0_32_0))) for f in (create, reference)]
    assert first_difference(*played) is None
    states = [json.loads(line).get("state") for line in played[0]]
    *_, last = (state for state in states[:-2] if state)
    assert sum(key.endswith(":0") for key in last["cached_map"]) == keys


def test_a_block_that_is_known_by_a_prompts_end_alone_is_reused_late() -> None:
    """GROUP-67, POOL-12: not before what was never taken, as one is that is known by nothing."""
    full, window = MARKED["groups"]
    for eagle in (True, False):
        groups = [{**full, "eagle": eagle}, window]
        events = [
            {"op": "add", "id": "a", "prompt": {"range": [0, 6]}, "max_tokens": 1},
            {"op": "step"},
        ]
        taken = from_dict({"config": {**MARKED, "groups": groups}, "events": events})
        lines = list(run(taken, create(taken.config, VLLM_0_32_0)))
        state = next(s for s in (json.loads(line).get("state") for line in lines[::-1]) if s)
        queue = state["free_queue"]
        assert (queue.index(2) > queue.index(9)) == eagle


@pytest.mark.parametrize(("window", "length"), [(1, 5), (2, 5), (1, 3)])
def test_it_raises_for_blocks_beyond_a_table(window: int, length: int) -> None:
    """GROUP-19: beside a window of one token vLLM 0.32.0 raises where a prompt is longer than
    max_model_len. Beside wider windows, and for shorter prompts, it does not.
    """
    groups = [{"type": "sliding_window", "sliding_window": window}]
    scenario = from_dict(
        {
            "config": {"block_size": 1, "max_model_len": 3, "groups": groups},
            "events": [
                {"op": "add", "id": "a", "prompt": {"range": [0, length]}, "max_tokens": 1},
                {"op": "step"},
            ],
        }
    )
    assert raises(scenario, VLLM_0_32_0) == (window == 1 and length > 3)


@pytest.mark.parametrize("semantics", [VLLM_0_22_1, VLLM_0_32_0], ids=["0.22.1", "0.32.0"])
@pytest.mark.parametrize(("window", "length"), [(4, 6), (6, 6), (4, 1), (7, 6)])
def test_it_raises_for_blocks_left_out_beyond_a_table(
    semantics: Semantics, window: int, length: int
) -> None:
    """GROUP-19: beside a window with blocks that are left out vLLM raises where a prompt is longer
    than max_model_len. Beside a window that leaves none out, and for shorter prompts, it does not.
    """
    window_group = {"type": "sliding_window", "sliding_window": window}
    groups = [{"type": "full", "block_size": 6}, window_group]
    scenario = from_dict(
        {
            "config": {"block_size": 1, "max_model_len": 1, "groups": groups},
            "events": [
                {"op": "add", "id": "a", "prompt": {"range": [0, length]}, "max_tokens": 1},
                {"op": "schedule"},
            ],
        }
    )
    assert raises(scenario, semantics) == (window < 7 and length > 1)


@pytest.mark.parametrize("semantics", [VLLM_0_22_1, VLLM_0_32_0], ids=["0.22.1", "0.32.0"])
@pytest.mark.parametrize("mode", ["none", "all"])
@pytest.mark.parametrize("beside", [[], [{"type": "full"}]], ids=["alone", "beside"])
@pytest.mark.parametrize(("length", "drafts"), [(4, 0), (3, 0), (5, 1), (4, 1)])
def test_it_raises_for_states_beyond_a_table(
    semantics: Semantics, mode: str, beside: list[dict[str, str]], length: int, drafts: int
) -> None:
    """GROUP-25: vLLM 0.32.0 raises where it notes states of a prompt that fills more blocks than
    max_model_len and the blocks for drafts have places for. 0.22.1 goes on, as it does where there
    are places enough; those of full attention, which has fewer, are not noted.
    """
    group = {"type": "mamba", "mamba_cache_mode": mode, "num_speculative_blocks": drafts}
    scenario = from_dict(
        {
            "config": {"block_size": 1, "max_model_len": 3, "groups": [*beside, group]},
            "events": [
                {"op": "add", "id": "a", "prompt": {"range": [0, length]}, "max_tokens": 1},
                {"op": "step"},
            ],
        }
    )
    raised = raises(scenario, semantics, "IndexError")
    assert raised == (semantics == VLLM_0_32_0 and length > 3 + drafts)


def raises(scenario: Scenario, semantics: Semantics, what: str = "AssertionError") -> bool:
    """Whether the engines raise that at a scenario, which both do as vLLM does, or neither: a
    guard that was not meant to say so has an exception of its own.
    """
    played = [list(run(scenario, f(scenario.config, semantics))) for f in (create, reference)]
    assert first_difference(*played) is None
    lines = [json.loads(line) for one in played for line in one]
    raised = {line["type"] for line in lines if line["ev"] == "EXCEPTION"}
    assert raised <= {what}
    return bool(raised)
