"""Spec, reference and the real vLLM 0.22.1 print the same for scenarios that nobody chose."""

import os
from collections import Counter

import pytest
from fuzz import lockstep, reach, sources
from fuzz.families import FAMILIES
from hypothesis import HealthCheck, given, seed, settings
from oracle.client import Oracle

from nullblock.conformance.lockstep.generator import seeded
from nullblock.conformance.lockstep.reach import table
from nullblock.spec.profiles import NORMATIVE, PROFILES, VLLM_0_22_1

as_vllm_walks = pytest.mark.skipif(
    os.environ.get("PYTHONHASHSEED") != "0",
    reason="vLLM walks over a set of those whose loads failed: set PYTHONHASHSEED=0, as make does",
)
ROUNDS = 6
EXAMPLES = 800
WATCH_EVERY = 3
PLENTY = 5
"""Each of the cases that must be reached is met in at least so many watched scenarios."""

BESIDE = (
    *("waits", "remote", "sessions", "windows", "items", "hybrid", "mamba", "cross"),
    "anywhere",
)
"""Families of what there is beside the core."""

MUST_REACH = (
    "preemption",
    "several victims in a step",
    "self-preemption",
    "withdrawal of a scheduled victim (priority)",
    "output for a preempted request",
    "resumption with a hit",
    "eviction of a hashed block",
    "duplicate hash",
    "shared block",
    "partial prefill",
    "three scheduled at once",
    "stop token",
    "finish: length",
    "finish: stop",
    "abort in flight",
    "id used again in flight",
    "reset of running requests in flight",
    "reset done",
    "reset refused",
    "nothing to do while somebody waits",
    "somebody is stuck at the end",
    "exception",
    "three steps in flight (synchronous)",
    "three steps in flight (asynchronous)",
    "preemption in flight (asynchronous)",
    "resumption in flight (asynchronous)",
    "abort in flight (asynchronous)",
    "finish with a step more in flight (asynchronous)",
    "frame dropped (asynchronous)",
    "passed over: the outputs in flight are its last",
    "a step scheduled whose output nobody takes",
    "blocks cached by an update",
    "event: BlockStored",
    "event: BlockRemoved",
    "event: AllBlocksCleared",
    "event: stored behind a parent",
    "event: stored several blocks",
    "event: stored with an adapter",
    "event: stored with extra keys",
)
MUST_REACH_WITH_A_SEED = (
    *MUST_REACH,
    "four steps in flight (synchronous)",
    "four steps in flight (asynchronous)",
    "preemption in flight (synchronous)",
    "resumption in flight (synchronous)",
    "finish with a step more in flight (synchronous)",
    "finish while preempted (asynchronous)",
    "reset of running requests in flight (synchronous)",
    "reset of running requests in flight (asynchronous)",
    "reset with frames left to drop (asynchronous)",
    "id used again in flight (synchronous)",
    "id used again in flight (asynchronous)",
    "scheduled with an id used again in flight",
    "pause in flight",
    "nothing scheduled in flight",
    "tokens for the next pipeline stage",
    "event: several in one update",
)
"""Rarer: in the longer scenarios of a seed."""


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("engine", lockstep.ENGINES)
def test_an_engine_prints_what_the_real_one_prints(engine: str, oracle: Oracle) -> None:
    """No scenario that Hypothesis finds makes an engine of ours part from the real engine."""

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(scenario=sources.scenarios(features=lockstep.features((engine,))))
    def agrees(scenario: lockstep.Scenario) -> None:
        outcome = lockstep.run(scenario, (engine,), oracle)
        assert not outcome.refused
        assert not outcome.differences, outcome.differences

    agrees()


@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize("engines", [lockstep.ENGINES, ("reference",)], ids=len)
@pytest.mark.parametrize("part", range(4))
def test_ours_print_what_the_real_one_prints_for_seeded_scenarios(
    part: int, engines: tuple[str, ...], oracle: Oracle
) -> None:
    """The scenarios of ``bulk.py --seed 0``, which are longer, show no difference.

    The reference by itself takes those of seed 1, with all that it does.
    """
    features = lockstep.features(engines)
    for number in range(part * 60, (part + 1) * 60):
        scenario = seeded(f"{len(engines) == 1:d}:{number}", features=features)
        outcome = lockstep.run(scenario, engines, oracle)
        assert not outcome.refused and not outcome.differences, (number, outcome.differences)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROFILES)
def test_spec_and_reference_agree_where_there_is_no_real_engine(name: str) -> None:
    """In each profile, for the same scenarios, neither parts from the other."""
    features = lockstep.features(lockstep.ENGINES)
    for number in range(0, 240, 2):
        scenario = seeded(f"0:{number}", features=features)
        outcome = lockstep.run(scenario, lockstep.ENGINES, None, PROFILES[name])
        assert not outcome.differences, (number, outcome.differences)


@pytest.mark.slow
@pytest.mark.parametrize("family", BESIDE)
def test_they_agree_on_what_is_right_beside_the_core(family: str) -> None:
    """In the normative profile, where some scenario comes out otherwise than in the release."""
    engines, make, are_corrected = lockstep.ENGINES, FAMILIES[family].make, False
    for number in range(40):
        scenario = make(f"5:{number}", 30, lockstep.features(engines))
        outcome = lockstep.run(scenario, engines, None, NORMATIVE)
        assert not outcome.differences, (number, outcome.differences)
        if not outcome.refused and not are_corrected:
            released = lockstep.run(scenario, ("reference",), None, VLLM_0_22_1)
            are_corrected |= bool(
                lockstep.difference(released.lines, outcome.lines, bytewise=False)
            )
    assert are_corrected


@as_vllm_walks
@pytest.mark.oracle
@pytest.mark.parametrize("family", BESIDE)
def test_beside_the_core_they_agree_with_the_live_engine(oracle: Oracle, family: str) -> None:
    """No line differs, and less than half of the scenarios are refused."""
    taken = 0
    for number in range(16):
        scenario = FAMILIES[family].make(f"6:{number}", 25, lockstep.features(lockstep.ENGINES))
        outcome = lockstep.run(scenario, lockstep.ENGINES, oracle)
        assert not outcome.differences, (number, outcome.differences)
        taken += not outcome.refused
    assert taken > 8


@pytest.mark.slow
def test_the_seeded_scenarios_reach_what_they_are_for() -> None:
    """Every case that is easy to miss is met again and again."""
    counts: Counter[str] = Counter()
    for number in range(0, 240):
        counts.update(reach.reached(seeded(f"0:{number}")))
    missing = {w: counts[w] for w in MUST_REACH_WITH_A_SEED if counts[w] < PLENTY}
    assert not missing, f"seldom reached: {missing}\n{table(counts, 240)}"


@pytest.mark.slow
def test_the_drawn_scenarios_reach_what_they_are_for() -> None:
    """Hypothesis meets the same cases, with its shorter scenarios. What a seed draws is not
    the same everywhere; so it may begin again a few times.
    """
    counts: Counter[str] = Counter()

    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(scenario=sources.scenarios())
    def watch(scenario: lockstep.Scenario) -> None:
        counts.update(reach.reached(scenario))
        counts["scenarios"] += 1

    for number in range(ROUNDS):
        seed(number)(watch)()
        missing = [what for what in MUST_REACH if not counts[what]]
        if not missing:
            return
    pytest.fail(f"not reached: {missing}\n{table(counts, counts['scenarios'])}")
