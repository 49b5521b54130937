"""Rules, reference and the real vLLM as state machines in lockstep."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from fuzz import lockstep
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from machine import Lockstep
from oracle.client import Oracle

from nullblock.conformance.lockstep.reach import table
from nullblock.reference.block_pool import BlockPool
from nullblock.reference.sched.request_queue import FCFSRequestQueue
from nullblock.spec.profiles import NORMATIVE

ROUNDS, RUNS, LENGTH = 6, 60, 15
PERCENT = {
    "preemption": 5,
    "resumption": 10,
    "resumption with a hit": 2,
    "prefix hit": 12,
    "eviction of a hashed block": 8,
    "duplicate hash": 10,
    "shared block": 12,
    "partial prefill": 10,
    "three scheduled at once": 10,
    "finish: length": 50,
    "stop token": 6,
    "abort in flight": 3,
    "reset done": 10,
    "reset of running requests in flight": 3,
    "output for a preempted request": 3,
    "two steps in flight (synchronous)": 3,
    "two steps in flight (asynchronous)": 20,
    "three steps in flight (asynchronous)": 10,
    "preemption in flight (asynchronous)": 2,
    "frame dropped": 1,
}
"""In how many of a hundred runs each case is met at least."""


def options(runs: int, *, derandomize: bool = True) -> settings:
    """The same runs every time."""
    return settings(
        max_examples=runs,
        stateful_step_count=LENGTH,
        derandomize=derandomize,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        # The scenario is made small by our own means, which know what it consists of.
        phases=(Phase.generate,),
    )


def machine(**members: Any) -> type[Lockstep]:
    """A machine of its own, with counters of its own."""
    counters = {"reached": Counter(), "runs": 0, "events_played": 0}
    return type("Lockstep", (Lockstep,), counters | members)


@pytest.mark.slow
def test_rules_and_reference_stay_together_and_reach_the_corners() -> None:
    """Whatever Hypothesis does next both decide alike; the cases that are easy to miss are met."""
    run = machine()
    for number in range(ROUNDS):
        # What a seed draws is not the same everywhere, so it may begin again a few times.
        run_state_machine_as_test(seed(number)(run), settings=options(RUNS, derandomize=False))
        rates = {what: 100 * run.reached[what] / run.runs for what in PERCENT}
        seldom = {what: round(rate, 1) for what, rate in rates.items() if rate < PERCENT[what]}
        if not seldom:
            break
    print(f"{run.runs} runs, {run.events_played} events\n{table(run.reached, run.runs)}")
    assert not seldom, f"seldom reached: {seldom}\n{table(run.reached, run.runs)}"


def test_normative_rules_and_reference_stay_together() -> None:
    """The same in the profile in which everything holds."""
    run = machine(semantics=NORMATIVE)
    run_state_machine_as_test(run, settings=options(20))
    assert run.runs >= 20 and run.reached["preemption"]


@pytest.mark.oracle
def test_the_real_engine_comes_along(oracle: Oracle) -> None:
    """Each run is played on the real vLLM 0.22.1 too, from its beginning to its end."""

    def teardown(self: Lockstep) -> None:
        Lockstep.teardown(self)
        outcome = lockstep.run(self.document, ("reference",), oracle)
        assert not outcome.differences and not outcome.refused, (outcome, self.document)

    run = machine(teardown=teardown)
    run_state_machine_as_test(run, settings=options(30))
    assert run.runs >= 30 and run.reached["preemption"]


def _resume_last(prepend: Callable[..., None]) -> Callable[..., None]:
    """A preempted request waits behind everybody."""

    def patched(self: FCFSRequestQueue, request: Any) -> None:
        self.append(request)

    return patched


def _free_forward(free: Callable[..., None]) -> Callable[..., None]:
    """Whole tables are released from their first block."""

    def patched(self: BlockPool, ordered_blocks: Any) -> None:
        free(self, reversed(list(ordered_blocks)))

    return patched


@pytest.mark.parametrize(
    ("owner", "name", "defect"),
    [
        (FCFSRequestQueue, "prepend_request", _resume_last),
        (BlockPool, "free_blocks", _free_forward),
    ],
    ids=["resume last", "free forward"],
)
def test_a_defect_is_found_and_printed_as_a_scenario(
    owner: type, name: str, defect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A canary: the failure is short, and is a file that ``nullblock run`` takes."""
    monkeypatch.setattr(owner, name, defect(getattr(owner, name)))
    with pytest.raises(AssertionError) as caught:
        run_state_machine_as_test(machine(), settings=options(RUNS))
    difference, _, text = str(caught.value).partition("\n")
    document = json.loads(text[: text.rindex("}") + 1])
    assert difference.startswith("line ") and len(document["events"]) <= 5
    outcome = lockstep.run(document, ("spec", "reference"), None)
    assert "reference" in outcome.differences
