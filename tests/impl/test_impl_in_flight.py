"""Who waits when its token comes may stop by it: in every way in which a running request may."""

from typing import Any

import pytest
from audit import audited_lines
from fuzz import lockstep
from planted import planted

from nullblock.impl.known import KNOWN

SCENARIO: dict[str, Any] = {
    "config": {"vocab": 1, "max_model_len": 16, "block_size": 4, "num_blocks": 40},
    "events": [
        {"op": "add", "id": "eos", "prompt": [0, 0], "max_tokens": 5, "eos": 0},
        {"op": "add", "id": "stop", "prompt": [0, 0, 0], "max_tokens": 5, "stop": [0]},
        {"op": "add", "id": "both", "prompt": [0], "max_tokens": 5, "stop": [0], "eos": 0},
        {
            "op": "add",
            "id": "early",
            "prompt": [0] * 3,
            "max_tokens": 5,
            "min_tokens": 3,
            "eos": 0,
        },
        {"op": "add", "id": "limit", "prompt": [0] * 15, "max_tokens": 9, "min_tokens": 3},
        {"op": "add", "id": "last", "prompt": [0, 0], "max_tokens": 1, "stop": [0]},
        {"op": "add", "id": "length", "prompt": [0, 0], "max_tokens": 1},
        {"op": "schedule"},
        {"op": "reset_prefix_cache", "reset_running": True},
        {"op": "update"},
        {"op": "run", "max_steps": 20},
    ],
}
"""The model knows one token, 0. All run, all are put back with the step in flight, and then each
gets its token.
"""


def parts() -> bool:
    """Whether the fast engine parts from the reference in one of the profiles."""
    return any(
        lockstep.difference(
            lockstep.lines_of("reference", SCENARIO, semantics),
            audited_lines(SCENARIO, semantics),
            bytewise=False,
        )
        for semantics in KNOWN.values()
    )


def test_a_request_that_waits_stops_as_one_that_runs() -> None:
    """By eos, by a stop token, by a limit, and not below min_tokens, in this order (UPD-4)."""
    assert not parts()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if output < request.min_tokens:", "if False:"),
        ("early = state.semantics.length_before_min_tokens and at_limit", "early = at_limit"),
        ("if request.eos != NO_EOS and token == request.eos:", "if False:"),
        ("if token in request.stop:\n        return STOPPED_BY_ID", "pass"),
        ("        return STOPPED_BY_ID\n    return LENGTH if at_limit else CONTINUE",
         "        return LENGTH if at_limit else STOPPED_BY_ID\n    return CONTINUE"),
    ],
)  # fmt: skip
def test_a_planted_defect_shows(old: str, new: str) -> None:
    """Each rule that is left out, and their order."""
    with planted("update.py", old, new):
        assert parts()
