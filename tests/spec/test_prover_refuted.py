"""A counterexample is a step that the ordinary rule takes, from a state that satisfies every
invariant; and what is asked for by an invariant's ID is that invariant alone.
"""

from collections.abc import Callable
from typing import Any

import pytest

from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import RULES, Engines
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.prover import prove
from nullblock.spec.prover.claims import broken, proved_rules
from nullblock.spec.prover.finite.refuter import Refuter
from nullblock.spec.prover.finite.search import INSTANCES, Seeker
from nullblock.spec.prover.jobs import jobs
from nullblock.spec.switches import with_switches

JOBS = {job.name: job for job in jobs()}
Change = Callable[[str, Any], None]


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Change:
    """Replaces the body of a rule."""
    return lambda name, body: monkeypatch.setattr(RULES[name], "body", body)


def test_an_invariant_is_proved_alone() -> None:
    """By its ID: of the first state and of every rule, no other obligation."""
    report = prove("POOL-3")
    assert {c.what for c in report.checked} == {"POOL-3"}
    assert {c.where for c in report.checked} == {"initial", *proved_rules()}
    assert report.open == [] and not broken(report)


def test_an_invariant_of_a_rule_is_proved_alone() -> None:
    """A rule, here by its ID, and an invariant: what both select."""
    report = prove("POOL-12", "HASH-6", "POOL-1")
    assert {(c.where, c.what) for c in report.checked} == {
        ("pop_block", "HASH-6"),
        ("pop_block", "POOL-1"),
    }


def test_a_switch_makes_just_its_invariants_fall() -> None:
    """Where hashes of withdrawn blocks stay, the two invariants that they break fall in the rule
    that frees those blocks, under both policies.
    """
    report = prove("HASH-6", "HASH-17", "HASH-4", sem=with_switches(NORMATIVE, SWITCH))
    assert {(c.where, c.what, c.policy, c.status) for c in report.open} == {
        ("pop_block", what, policy, "refuted")
        for what in ("HASH-6", "HASH-17")
        for policy in ("fcfs", "priority")
    }


SWITCH = ["withdraw_uncaches=false"]


def test_the_story_is_short_and_concrete() -> None:
    """Where, before, step, falls: with the fields that the fallen invariant reads."""
    found = Refuter(with_switches(NORMATIVE, SWITCH)).refute(JOBS["pop_block"], "HASH-6", False)
    assert found is not None
    assert found.step.startswith("POOL-12 pop_block(request a, block ")
    assert any("is on its way" in line for line in found.before)
    assert any(line.startswith("ref[") and line.endswith("1 -> 0") for line in found.changes)
    assert any("done 0" in line for line in found.values)
    assert len(list(found.lines())) < 12


def test_what_is_proved_is_not_refuted() -> None:
    """No instance holds a counterexample to what is true."""
    refuter = Refuter(NORMATIVE)
    for what in ("HASH-6", "POOL-2", "TABLE-5"):
        assert refuter.refute(JOBS["pop_block"], what, False) is None


def test_only_what_the_concrete_rule_does_is_believed(changed: Change) -> None:
    """A rule that goes wrong on terms alone is not refuted, though a solver finds a state."""
    honest = RULES["set_pause"].body

    def two_faced(s: Any, state: Any) -> None:
        honest(s, state)
        if Engines.prover is not None:
            s.nfree = s.nfree + 1

    changed("set_pause", two_faced)
    job = next(job for job in jobs() if job.name == "set_pause")
    assert Seeker(INSTANCES[0], NORMATIVE, False).seek(job, "QUEUE-4") is not None
    assert Refuter(NORMATIVE).refute(job, "QUEUE-4", False) is None


def test_a_promise_that_is_broken_is_told(changed: Change) -> None:
    """An `ensure` that does not hold falls by its own words."""
    from nullblock.spec.kernel import ensure

    honest = RULES["set_pause"].body

    def promising(s: Any, state: Any) -> None:
        honest(s, state)
        ensure(s.nr == 0, "nobody runs while the pause changes")

    changed("set_pause", promising)
    found = prove("set_pause", stop_at_first=True).open
    assert [c.status for c in found] == ["refuted"]
    assert "a promise of the rule: nobody runs" in str(found[0].counterexample)


def test_a_first_state_that_breaks_an_invariant_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The start of the induction has a story too."""
    monkeypatch.setitem(INVARIANTS, "POOL-1", lambda s: s.k.forall("B", lambda b: s.ref[b] >= 1))
    found = prove("initial", "POOL-1", stop_at_first=True).open
    assert [c.status for c in found] == ["refuted"]
    assert "nothing has happened yet" in str(found[0].counterexample)
