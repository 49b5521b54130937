"""Requests that hold what they have loaded, and wait for the rest (REMOTE-45, REMOTE-46)."""

from dataclasses import replace

import pytest

from nullblock.spec.explorer.actions import Received
from nullblock.spec.explorer.liveness import SERVED
from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.explorer.remote_scopes import LOADS_BEFORE_ONE
from nullblock.spec.explorer.result import Lasso
from nullblock.spec.explorer.search import explore
from nullblock.spec.facts import Config
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1
from nullblock.spec.zoo import ZOO

A, B = 1001, 1002
CROWDED = Scope(
    "two-loads",
    "two prompts of which a block each is loaded, in a pool that has no room for the rest of one",
    Config(5, 2, 8, 3, 8, connector=True),
    (
        Template("a", (A,) * 7, 1, remote=2, loads_over_steps=True),
        Template("b", (B,) * 5, 1, remote=2, loads_over_steps=True),
    ),
    frozenset({"reclaims-for-head"}),
    halves=True,
    aborts=False,
)
KEPT = replace(NORMATIVE, loaded_blocks_come_back=False)


def test_a_head_that_lacks_what_others_hold_goes_on() -> None:
    """REMOTE-46, B51 of the zoo: when both loads have ended, blocks of one come back, and
    everything holds; where they do not, nobody is ever admitted.
    """
    (entry,) = (e for e in ZOO if e.id == "B51")
    assert entry.how == "departure"
    result = explore(CROWDED)
    assert result.complete and result.passed
    for semantics in (KEPT, VLLM_0_22_1):
        found = explore(CROWDED, semantics, claims=frozenset({"RUN-20"})).counterexample
        assert found is not None and found.breaks == "RUN-20"
        assert {a.id for a in found.actions if isinstance(a, Received)} == {"a", "b"}


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("reserves", [True, False])
def test_whoever_is_first_and_however_the_gate_stands(policy: str, reserves: bool) -> None:
    """With three, of whom one needs no load and comes first under PRIORITY, all are served."""
    config = replace(CROWDED.config, policy=policy, scheduler_reserve_full_isl=reserves)
    a, b = CROWDED.templates
    urgent = Template("c", (A, A, A, B, B, B, B), 1, priority=-1)
    scope = replace(CROWDED, config=config, templates=(a, b, urgent))
    result = explore(scope)
    assert result.complete and result.passed


def test_whoever_runs_alone_takes_what_others_have_loaded() -> None:
    """REMOTE-46 in the running phase: without it a request that comes first preempts itself, and
    starts over for ever, beside another that waits with what the first lacks.
    """
    claims = frozenset({SERVED})
    assert explore(LOADS_BEFORE_ONE, claims=claims).passed
    found = explore(LOADS_BEFORE_ONE, KEPT, claims=claims).counterexample
    assert isinstance(found, Lasso)
