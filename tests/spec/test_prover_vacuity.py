"""What is proved is not proved of nothing: concrete states satisfy every hypothesis.

The prover shows, of every state that satisfies the invariants and the guards, that a rule keeps
the invariants. Here is, for every rule, a state that does satisfy them, and for every operation of
the machine one from which it starts. Most are met on random runs; `tests/spec/test_prover_axioms`
shows that the axioms hold there too. `Report.vacuous` asks Z3 whether hypotheses contradict each
other, which it may fail to notice; a state in hand cannot be mistaken.
"""

import sys
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import z3  # type: ignore[import-untyped]

from nullblock.spec.fields import FIELDS
from nullblock.spec.invariants import INVARIANTS, invariants
from nullblock.spec.kernel import RULES, Disabled
from nullblock.spec.prover import prove
from nullblock.spec.prover.claims import UNREACHED, proved_rules
from nullblock.spec.prover.jobs import INITIAL, MACHINE

sys.path.insert(0, str(Path(__file__).parent))
from world import new_state, observed, random_run  # noqa: E402  (beside this one)

SEEDS = range(1000)
"""Runs, until everything is met."""


@cache
def met() -> tuple[dict[str, Any], dict[str, Any]]:
    """The first state in which random runs fire each rule, by name, and the first from which each
    operation may start.
    """
    fired: dict[str, Any] = {}
    begun: dict[str, Any] = {}
    names = {rule.id: name for name, rule in RULES.items()}
    before: list[Any] = []

    def after(s: Any, id: str) -> None:
        if before:
            fired.setdefault(names[id], before.pop())
        now = s.copy()
        before[:] = [now]
        for job in MACHINE:
            if job.name not in begun and may_start(job, now):
                begun[job.name] = now

    for seed in SEEDS:
        if len(fired) == len(proved_rules()) and len(begun) == len(MACHINE):
            break
        before.clear()
        observed(after, lambda seed=seed: random_run(seed))  # type: ignore[misc]
    return fired, begun


def may_start(job: Any, s: Any) -> bool:
    """Whether an operation may start in s, with some arguments."""
    return any(job.before(s, *args) for args in product(*map(s.k.domain, job.sorts)))


def test_the_runs_meet_every_rule_and_every_operation() -> None:
    """No rule but those of which it is claimed is left without a state."""
    fired, begun = met()
    assert set(fired) == proved_rules()
    assert set(begun) == {job.name for job in MACHINE}


@pytest.mark.parametrize("name", sorted(proved_rules()))
def test_the_hypotheses_of_a_rule_hold_somewhere(name: str) -> None:
    """In a state in which the rule's guards let it fire, every invariant holds."""
    assert [id for id, holds in invariants(met()[0][name]).items() if not holds] == []


@pytest.mark.parametrize("job", MACHINE, ids=lambda job: job.name)
def test_the_hypotheses_of_an_operation_hold_somewhere(job: Any) -> None:
    """In a state from which the operation may start, every invariant holds."""
    s = met()[1][job.name]
    assert may_start(job, s)
    assert [id for id, holds in invariants(s).items() if not holds] == []


def test_a_state_that_breaks_an_invariant_is_no_witness() -> None:
    """The check can fail: a guard that no longer holds, an invariant that does not."""
    s = new_state()
    with pytest.raises(Disabled):
        RULES["end_reset"](s)
    s.nfree -= 1
    assert not INVARIANTS["QUEUE-4"](s)


def test_the_first_state_of_the_proofs_is_that_of_the_runs() -> None:
    """The state from which the induction starts is, field by field, that in which runs start."""
    s, t = new_state(), new_state()
    assert INITIAL.before(s)
    INITIAL.text(t)
    for field in FIELDS:
        was, is_ = getattr(s, field), getattr(t, field)
        assert was == (is_.as_long() if z3.is_int_value(is_) else is_), field


def test_what_is_excused_from_firing_never_fires() -> None:
    """Z3 finds that just the rules excused in `UNREACHED` cannot fire in the running phase."""
    report = prove("schedule_running_requests")
    assert report.open == []
    excused = {name for name in UNREACHED if name.startswith("schedule_running_requests")}
    assert set(report.vacuous) == excused
