"""What a later line does with sessions that wait: WAIT-60 and WAIT-61."""

import json
from dataclasses import replace
from typing import Any

import pytest

from nullblock.conformance.adapters.reference import create as reference
from nullblock.conformance.adapters.spec import create
from nullblock.conformance.driver import run
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.scenario import from_dict
from nullblock.spec.profiles import VLLM_0_22_1, VLLM_0_32_0, Semantics

SEAT = {"block_size": 4, "num_blocks": 20, "max_num_seqs": 1}


def chunk(first: int) -> dict[str, Any]:
    """Six tokens of a session."""
    prompt = {"range": [first, first + 6]}
    return {"op": "add", "id": "s", "prompt": prompt, "max_tokens": 2, "resumable": True}


OTHER = {"op": "add", "id": "b", "prompt": {"range": [40, 45]}, "max_tokens": 2}


def admitted(semantics: Semantics, *events: dict[str, Any]) -> list[list[str]]:
    """Whom each step schedules."""
    taken = from_dict({"config": SEAT, "events": list(events)})
    lines = map(json.loads, run(taken, create(taken.config, semantics)))
    return [line["order"] for line in lines if line["ev"] == "schedule"]


@pytest.mark.parametrize(("apart", "then"), [(True, [["s"]]), (False, [[]])])
def test_a_session_that_waits_with_blocks_is_admitted_in_a_pause(
    apart: bool, then: list[list[str]]
) -> None:
    """WAIT-60: of those that wait it alone, and first of all."""
    line = replace(VLLM_0_32_0, holders_wait_apart=apart)
    pause = {"op": "pause", "state": "PAUSED_NEW"}
    events = chunk(0), chunk(20), OTHER, {"op": "step", "n": 2}, pause, {"op": "step"}
    assert admitted(line, *events) == [["s"], ["s"], *then]


@pytest.mark.parametrize(("keeps", "then"), [(True, [[]]), (False, [["b"]])])
def test_a_session_that_pauses_keeps_its_place(keeps: bool, then: list[list[str]]) -> None:
    """WAIT-61: with one place nobody else runs meanwhile."""
    line = replace(VLLM_0_32_0, pausing_sessions_keep_seats=keeps)
    events = chunk(0), OTHER, {"op": "step", "n": 3}
    assert admitted(line, *events) == [["s"], ["s"], *then]


def test_items_of_an_earlier_turn_beyond_what_is_kept_are_refused_by_name() -> None:
    """A later line looks for items by halves, which takes them to be in order: where a session has
    some of an earlier turn behind the beginning of a later one's, vllm-0.22.1 alone is followed.
    """
    x, y, z = (
        {"hash": name, "offset": offset, "length": length}
        for name, offset, length in (("x", 0, 2), ("y", 2, 8), ("z", 1, 1))
    )
    first, later = (
        {**chunk(n), "prompt": {"range": [n, n + 1]}, "mm_features": items}
        for n, items in ((0, [x, y]), (9, [z]))
    )
    encoder = {"max_num_encoder_input_tokens": 6, "max_tokens_per_item": 8}
    step = {"op": "step", "n": 2}
    taken = from_dict({"config": {"encoder": encoder}, "events": [first, step, later, step]})
    for make in (create, reference):
        with pytest.raises(OutOfScope, match="a session whose encoder inputs overlap"):
            list(run(taken, make(taken.config, VLLM_0_32_0)))
    lines = map(json.loads, run(taken, reference(taken.config, VLLM_0_22_1)))
    assert [line["order"] for line in lines if line["ev"] == "schedule"] == [["s"]] * 4
