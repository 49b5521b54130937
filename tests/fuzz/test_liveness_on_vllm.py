"""The lassos are real: vLLM 0.22.1 goes round them, line by line, for as long as one looks."""

import json
from typing import Any

import pytest
from fuzz import lockstep
from oracle.client import Oracle

from nullblock.spec.departures import DEPARTURES
from nullblock.spec.explorer.export import scenario
from nullblock.spec.liveness.check import Starvation, check
from nullblock.spec.liveness.preconditions import PRECONDITIONS
from nullblock.spec.profiles import VLLM_0_22_1

pytestmark = pytest.mark.oracle
LASTING = ("unfit-prompt", "start-over", "full-prompt", "taking-turns")
SCOPES = {p.name: p.violated.scope for p in PRECONDITIONS if p.name == "cutting"} | {
    d.name: d.scope for d in DEPARTURES if d.name in LASTING
}
"""One that is no departure, because normative refuses, and some that are."""
TURNS = 12


def decisions(lines: list[str]) -> list[dict[str, Any]]:
    """What each step scheduled, and whom it preempted."""
    read = [json.loads(line) for line in lines]
    return [
        {key: r[key] for key in ("num_scheduled_tokens", "preempted")}
        for r in read
        if "num_scheduled_tokens" in r
    ]


def going_round(found: Starvation) -> tuple[Any, ...]:
    """The way into the cycle, and many turns of it."""
    stem = found.actions[: -found.repeats]
    return (*stem, *found.actions[-found.repeats :] * TURNS)


@pytest.mark.parametrize("name", SCOPES)
def test_the_real_engine_goes_round(name: str, oracle: Oracle) -> None:
    """Spec, reference and the real engine print the same lines on many turns of the cycle; the
    decisions of each turn are those of the first, and nobody finishes.
    """
    found = check(SCOPES[name], VLLM_0_22_1).lasso
    assert found is not None
    document = scenario(SCOPES[name], going_round(found), VLLM_0_22_1)
    outcome = lockstep.run(document, lockstep.ENGINES, oracle)
    assert outcome.real and not outcome.refused and not outcome.differences
    real = decisions(oracle.lines(document))
    steps = sum(str(a) == "step" for a in found.actions[-found.repeats :])
    turns = [real[-steps * n : len(real) - steps * (n - 1)] for n in range(1, TURNS + 1)]
    assert len(turns) == TURNS and all(turn == turns[0] for turn in turns)
