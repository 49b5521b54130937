"""The rules and the fast engine as state machines in lockstep, on each of its backends."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from planted import planted
from stateful.machine import Lockstep
from where import KERNELS_ON

from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, Semantics

RUNS = {"impl": 60, "impl:twins": 40, f"impl:{KERNELS_ON}": 3}
LENGTH = {"impl": 15, "impl:twins": 15, f"impl:{KERNELS_ON}": 5}
"""By backend: how many machines, and of how many steps at most; the interpreter is slow."""
REACHED = ("preemption", "resumption", "prefix hit", "eviction of a hashed block")
ALL = [(engine, semantics) for engine in RUNS for semantics in (VLLM_0_22_1, NORMATIVE)]


def machine(engine: str, semantics: Semantics) -> type[Lockstep]:
    """The specification beside a backend, with counters of its own."""
    counters: dict[str, Any] = {"reached": Counter(), "runs": 0, "events_played": 0, "refused": 0}
    members = counters | {"engines": ("spec", engine), "semantics": semantics}
    return type("Lockstep", (Lockstep,), members)


def run(lockstep: type[Lockstep]) -> None:
    """Let Hypothesis choose what comes next, the same every time."""
    engine = lockstep.engines[1]
    taken = settings(
        max_examples=RUNS[engine],
        stateful_step_count=LENGTH[engine],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate,),  # a scenario is made small by our own means
    )
    run_state_machine_as_test(lockstep, settings=taken)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "semantics"), ALL)
def test_rules_and_fast_engine_stay_together(engine: str, semantics: Semantics) -> None:
    """Whatever Hypothesis does next both decide alike, and their whole states are alike."""
    lockstep = machine(engine, semantics)
    run(lockstep)
    assert lockstep.runs >= RUNS[engine] and lockstep.refused <= lockstep.runs // 2
    if engine != f"impl:{KERNELS_ON}":
        assert {what for what in REACHED if not lockstep.reached[what]} == set()


def test_a_defect_is_found() -> None:
    """A canary: a table that is freed from its first block parts from the rules at once."""
    with planted("state.py", "(i)[::-1].copy()", "(i).copy()"):
        with pytest.raises(AssertionError, match="line "):
            run(machine("impl", VLLM_0_22_1))
