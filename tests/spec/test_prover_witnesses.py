"""Nothing is proved of nothing: of every path of every rule there is a state from which it is
gone, or a reason; and every invariant forbids something.
"""

from functools import cache
from typing import Any

import pytest

from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import RULES, require
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.prover.claims import DEAD, IMPLIED, proved_invariants, proved_rules
from nullblock.spec.prover.finite.bites import bites
from nullblock.spec.prover.finite.witnesses import paths
from nullblock.spec.prover.jobs import jobs
from nullblock.spec.prover.vacuity import Vacuity, dead, vacuity


@cache
def found() -> Vacuity:
    """What is found of the specification as it is."""
    return vacuity()


def test_nothing_is_proved_of_nothing() -> None:
    """Every rule fires, every path is gone or has a reason, every invariant says something."""
    assert list(found().problems()) == []
    assert {p.rule for p in found().paths} == proved_rules()
    assert {b.invariant for b in found().bites} == proved_invariants()
    assert sum(p.witness for p in found().paths) > 140


def test_no_reason_is_left_over() -> None:
    """Each reason excuses a path, each implication an invariant."""
    excused = {(p.rule, label) for p in found().paths if not p.witness for label in p.because}
    assert set(DEAD) <= excused
    assert {b.invariant for b in found().bites if not b.alone} == set(IMPLIED)
    assert all(dead(p) for p in found().paths if not p.witness)


def problems(rule: str) -> list[str]:
    """What is said of one rule as it now is, under FCFS."""
    job = next(job for job in jobs() if job.name == rule)
    return list(Vacuity(tuple(paths(job, NORMATIVE, False, {})), ()).problems())


def test_a_rule_that_never_fires_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards that contradict each other leave no state."""
    honest = RULES["wipe"].body

    def impossible(s: Any) -> None:
        require(s.nfree < 0, "the free queue is shorter than empty")
        honest(s)

    monkeypatch.setattr(RULES["wipe"], "body", impossible)
    assert problems("wipe") == ["shows nothing: wipe (fcfs) fires in no state that was found"]


def test_a_path_that_is_closed_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard that shuts one way through a rule is told with what it contradicts."""
    honest = RULES["pop_block"].body

    def sharing_only(s: Any, r: Any, b: Any) -> None:
        require(s.ref[b] > 1, "somebody else holds it")
        honest(s, r, b)

    monkeypatch.setattr(RULES["pop_block"], "body", sharing_only)
    (said,) = problems("pop_block")
    assert "if s.ref[b] == 0: yes" in said and "guard: somebody else holds it" in said


def test_an_invariant_that_says_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weakened to what is always true, or to what others say already."""
    monkeypatch.setitem(INVARIANTS, "HASH-6", lambda s: True)
    monkeypatch.setitem(INVARIANTS, "TABLE-7", INVARIANTS["TABLE-1"])
    said = list(Vacuity((), tuple(bites(NORMATIVE))).problems())
    assert said == [
        "says nothing: HASH-6 holds in every state",
        "says nothing new: TABLE-1 follows from the other invariants",
        "says nothing new: TABLE-7 follows from the other invariants",
    ]
