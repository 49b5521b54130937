"""The departures are real: vLLM 0.22.1 does what their counterexamples say, line by line."""

import json
from typing import Any

import pytest
from fuzz import lockstep
from oracle.client import Oracle

from nullblock.spec.departures import DEPARTURES, Defect, find
from nullblock.spec.explorer.actions import Action, Schedule, Step, Update
from nullblock.spec.explorer.export import scenario
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, Semantics

pytestmark = pytest.mark.oracle
AFTERWARDS: tuple[Action, ...] = (Step(), Step(), Step())
"""What follows the counterexample, so that its consequences show too."""


def replay(defect: Defect, more: tuple[Action, ...] = ()) -> dict[str, Any]:
    """The shortest counterexample of a departure as a scenario."""
    found = find(defect).counterexample
    assert found is not None
    actions = found.actions
    if isinstance(actions[-1], Schedule):
        actions = (*actions, Update())
    return scenario(defect.scope, (*actions, *more), VLLM_0_22_1)


def steps(lines: list[str]) -> list[dict[str, Any]]:
    """The lines but header and trailer."""
    return [json.loads(line) for line in lines[1:-1]]


@pytest.mark.parametrize("defect", DEPARTURES, ids=lambda d: d.name)
@pytest.mark.parametrize("more", [(), AFTERWARDS], ids=["alone", "and on"])
def test_the_real_engine_departs_as_the_specification_says(
    defect: Defect, more: tuple[Action, ...], oracle: Oracle
) -> None:
    """Spec and reference in profile vllm-0.22.1 print what the real engine prints."""
    outcome = lockstep.run(replay(defect, more), lockstep.ENGINES, oracle)
    assert outcome.real and not outcome.refused
    assert not outcome.differences


@pytest.mark.parametrize("defect", DEPARTURES, ids=lambda d: d.name)
def test_the_normative_profile_does_otherwise(defect: Defect, oracle: Oracle) -> None:
    """With the normative profile the same scenario takes another course than the real engine."""
    document = replay(defect, AFTERWARDS)
    for engine in lockstep.ENGINES:
        ours = lockstep.lines_of(engine, document, NORMATIVE)
        assert lockstep.difference(oracle.lines(document), ours, bytewise=False)


def real(name: str, oracle: Oracle, more: tuple[Action, ...] = ()) -> list[dict[str, Any]]:
    """What the real engine prints for a departure's counterexample."""
    (defect,) = (d for d in DEPARTURES if d.name == name)
    return steps(oracle.lines(replay(defect, more)))


def test_nobody_is_served_behind_an_unfit_prompt(oracle: Oracle) -> None:
    """The real engine schedules nothing, step after step."""
    lines = real("unfit-prompt", oracle, AFTERWARDS)
    totals = [line["total"] for line in lines if line["ev"] == "schedule"]
    assert totals == [0, 0, 0, 0]


def test_less_than_nothing_is_scheduled(oracle: Oracle) -> None:
    """The real engine schedules a negative number of tokens for a prompt that is too long."""
    lines = real("long-prompt", oracle)
    assert min(line["total"] for line in lines if line["ev"] == "schedule") == -1


def test_a_request_with_work_is_skipped(oracle: Oracle) -> None:
    """In the real engine's last step y has a token to compute, budget is left, but only x runs."""
    last = [line for line in real("skipped-request", oracle) if line["ev"] == "schedule"][-1]
    assert last["order"] == ["x"] and last["preempted"] == ["v"]
    assert last["state"]["running"] == ["x", "y"]


def test_what_nobody_computed_is_hit(oracle: Oracle) -> None:
    """In the real engine the victim resumes with a hit on the blocks it never filled."""
    lines = real("uncomputed-hit", oracle, (Step(),))
    resumed = [c for line in lines for c in line.get("cached", []) if c["resumed"]]
    assert [c["computed"] for c in resumed] == [5]


def test_an_adapter_hits_a_salt(oracle: Oracle) -> None:
    """In the real engine the salted request starts with a block computed for the adapter."""
    lines = real("one-spelling", oracle)
    computed = {new["id"]: new["computed"] for line in lines for new in line.get("new", [])}
    assert computed == {"a": 0, "b": 2}


def test_the_next_owner_gets_a_token(oracle: Oracle) -> None:
    """In the real engine the request that was only added has an output token."""
    update = real("next-owner", oracle)[-1]
    assert update["state"]["requests"]["a"]["status"] == "WAITING"
    assert update["state"]["requests"]["a"]["output"] == 1


def test_a_lone_request_starts_over(oracle: Oracle) -> None:
    """In the real engine it is preempted again and again, and no token comes of it."""
    lines = real("start-over", oracle, AFTERWARDS * 3)
    states = [line["state"]["requests"]["a"] for line in lines if line["ev"] == "update"]
    assert states[-1]["tokens"] == states[3]["tokens"] == 5
    assert states[-1]["preemptions"] >= 5


def test_semantics_decide_the_course() -> None:
    """With the departure repaired the reference does not even start the course of the defect."""
    (defect,) = (d for d in DEPARTURES if d.name == "unfit-prompt")
    document = replay(defect)
    courses: list[Semantics] = [defect.repaired, NORMATIVE]
    for semantics in courses:
        lines = steps(lockstep.lines_of("reference", document, semantics))
        outputs = [o for line in lines for o in line.get("outputs", [])]
        assert [o["finish"] for o in outputs] == ["rejected"]
