"""Every rule keeps every invariant, for any number of blocks, requests and tokens; and the prover
does not say so of what is wrong.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from nullblock.conformance.cli import main
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.kernel import RULES
from nullblock.spec.profiles import NORMATIVE
from nullblock.spec.prover import UnknownJob, names, prove
from nullblock.spec.prover.claims import (
    UNPROVED,
    UNREACHED,
    broken,
    proved_invariants,
    proved_rules,
)
from nullblock.spec.switches import with_switches

OPERATIONS = {
    *("initial", "schedule_running_requests", "schedule_waiting_requests", "schedule"),
    *("update_from_output", "add", "abort", "reset_prefix_cache", "reset_running_requests"),
    *("evict_blocks", "pause"),
}
SEARCHED = ("GROUP-", "ENC-", "UPD-51", "UPD-52", "UPD-53", "OUT-20", "SESS-", "REMOTE-")
SEARCHED += ("PREEMPT-8", "UPD-60", "UPD-61")
"""What the explorer speaks of, and not the prover, by how it begins."""
HEAP = ("WAIT-54", "WAIT-55")
"""The same of rules alone."""
Change = Callable[[str, Any], None]
OBLIGATIONS = 10_000
"""There are more. A prover that loses obligations proves less; it must not go unnoticed."""


def test_everything_is_proved() -> None:
    """The first state, every rule and every operation, under both policies: no obligation is open,
    and none is shown of hypotheses that contradict each other.
    """
    report = prove()
    assert report.open == []
    assert report.obligations > OBLIGATIONS and report.proved == report.obligations
    assert {r.name for r in report.per_rule.values() if r.kind == "rule"} == proved_rules()
    assert not broken(report)
    assert set(report.vacuous) <= set(UNREACHED)
    asked = sum(r.asked for r in report.per_rule.values())
    assert asked > 500, "Z3 has to be asked, not just earlier answers"


def test_nothing_is_left_unclaimed() -> None:
    """Every invariant and every rule is claimed to be proved, but for those of layers that see
    only a part of the past, of encoder inputs, of vectors, of clients that hear of ends, of
    sessions, of KV connectors, of steps that return without a token, of the cap on adapters, and
    of the heap that chunks of sessions leave out of order.
    """
    searched = {id for id in INVARIANTS if id.startswith(SEARCHED)} | {"WAIT-49"}
    unclaimed = {n for n, rule in RULES.items() if rule.id.startswith((*SEARCHED, *HEAP))}
    assert proved_invariants() == set(INVARIANTS) - searched
    assert proved_rules() == set(RULES) - unclaimed
    assert set(UNPROVED) == searched | set(RULES) - proved_rules()
    assert set(names()) == proved_rules() | OPERATIONS


@pytest.fixture
def changed(monkeypatch: pytest.MonkeyPatch) -> Change:
    """Replaces the body of a rule."""
    return lambda name, body: monkeypatch.setattr(RULES[name], "body", body)


def test_a_rule_that_breaks_an_invariant_is_open(changed: Change) -> None:
    """A rule that counts wrongly is not proved, and the report names the invariant."""
    honest = RULES["pop_block"].body

    def forgetful(s: Any, r: Any, b: Any) -> None:
        honest(s, r, b)
        s.nfree = s.nfree + 1

    changed("pop_block", forgetful)
    report = prove("pop_block", stop_at_first=True)
    assert [(o.where, o.what) for o in report.open] == [("pop_block", "QUEUE-4")]
    assert "not proved: pop_block: QUEUE-4 (priority)" in broken(report)


def test_a_rule_fired_where_it_may_not_is_open(changed: Change) -> None:
    """A guard that the machine does not establish is an obligation that stays open."""
    from nullblock.spec.kernel import require

    honest = RULES["set_pause"].body

    def strict(s: Any, state: Any) -> None:
        require(s.nr == 0, "nobody runs")
        honest(s, state)

    changed("set_pause", strict)
    report = prove("pause", stop_at_first=True)
    assert [o.what for o in report.open] == ["set_pause is enabled: nobody runs"]
    assert "where it is not enabled: nobody runs" in str(report.open[0].counterexample)


def test_a_rule_that_never_fires_shows_nothing(changed: Change) -> None:
    """Guards that contradict the invariants make every obligation true, and are reported."""
    from nullblock.spec.kernel import require

    honest = RULES["wipe"].body

    def impossible(s: Any) -> None:
        require(s.nfree < 0, "the free queue is shorter than empty")
        honest(s)

    changed("wipe", impossible)
    report = prove("wipe")
    assert report.open == [] and report.vacuous == ["wipe"]
    assert broken(report) == ["shows nothing: wipe"]


@pytest.mark.parametrize(
    ("switch", "where", "what"),
    [
        ("victim_shifts_index=false", "preempt", "ALLOC-3"),
        ("withdraw_uncaches=false", "pop_block", "HASH-6"),
        ("length_before_min_tokens=false", "go_on", "LIFE-14"),
        ("reject_unservable=false", "add_request", "LIFE-17"),
        ("frames_match_request=false", "add_request", "UPD-20"),
        ("outputs_owed_once=false", "advance", "UPD-20"),
        ("discards_add_up=false", "preempt_for_reset", "UPD-20"),
        ("stop_check_counts_frames=false", "ask_to_run", "RUN-26"),
    ],
)
def test_a_departure_is_not_proved(switch: str, where: str, what: str) -> None:
    """With one switch set as in vllm-0.22.1, an obligation of the rule concerned is refuted by a
    step that the rule takes.
    """
    report = prove(where, sem=with_switches(NORMATIVE, [switch]), stop_at_first=True)
    assert [(o.what, o.status) for o in report.open] == [(what, "refuted")]
    story = str(report.open[0].counterexample)
    assert f"{RULES[where].id} {where}(" in story and f"falls:  {what}: " in story


def test_a_name_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """One line that tells what there is; exit code 2."""
    with pytest.raises(UnknownJob, match="push_new"):
        prove("push_old")
    assert main(["prove", "push_old"]) == 2
    said = capsys.readouterr().err
    assert "push_old" in said and said.count("\n") == 1


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 0 and every count for what is proved; 1 for what is not; invariants are called
    proved by a run of everything only.
    """
    assert main(["prove", "push_new", "adopt", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["proved"] == found["obligations"] > 100
    assert found["invariants"] == [] and found["open"] == []
    assert [t["name"] for t in found["texts"]] == ["push_new", "adopt"]
    assert main(["prove", "add_request", "--profile", "vllm-0.22.1", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert any(o["what"] == "LIFE-13" for o in found["open"])
    assert main(["prove", "push_new"]) == 0
    assert "0 open" in capsys.readouterr().out


def test_both_policies_are_proved() -> None:
    """A defect that shows under PRIORITY alone is found under PRIORITY alone."""
    report = prove("preempt", sem=with_switches(NORMATIVE, ["victim_shifts_index=false"]))
    assert {o.policy for o in report.open} == {"priority"}
