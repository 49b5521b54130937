"""CrossHair on the helpers: what it confirms, what it only does not refute, what it refutes.

PYTEST_DONT_REWRITE: an assertion that pytest rewrites has paths of its own.
"""

import json

import pytest

from nullblock.conformance import confirm as confirming
from nullblock.conformance.confirm import SECONDS, Subject, canaries, confirm, report, subjects

pytest.importorskip("crosshair", reason="CrossHair is not installed: run make .venv/dev")

ENDLESS = {
    "servable_by_the_rules = servable_by_its_reasons",
    "servable_by_the_rules = servable_by_the_reference",
    "uncut_by_the_rules = uncut_by_the_reference",
    "can_allocate_in_whole_numbers = can_allocate_in_floats",
}
"""Their reasons are sentences with numbers in them, or they divide in floating point."""


@pytest.mark.parametrize("subject", subjects(), ids=lambda s: s.name)
def test_helpers_hold_and_agree(subject: Subject) -> None:
    """Over all paths, but for the few whose paths do not end, which are not refuted."""
    outcome = confirm(subject)
    assert outcome.paths > 1 and not outcome.counterexample, outcome
    if subject.name in ENDLESS:
        assert outcome.words in ("not refuted", "confirmed over all paths")
    else:
        assert outcome.words == "confirmed over all paths"


def test_only_the_endless_are_asked_briefly() -> None:
    """Nothing is let off with less than an answer without being listed here."""
    assert {s.name for s in subjects() if s.seconds < SECONDS} == ENDLESS


@pytest.mark.parametrize("subject", canaries(), ids=lambda s: s.name)
def test_a_wrong_helper_is_refuted(subject: Subject) -> None:
    """With arguments for which it is wrong, though its sample is right."""
    outcome = confirm(subject)
    assert outcome.words == "refuted" and outcome.counterexample


def _takes_nothing(n: int) -> None:
    """Holds of nothing."""
    assert n > 0 and (n < 5 or n == 7)
    assert n < 0 or n > -1


def _impossible(n: int) -> None:
    """No number is taken but the one that hides behind a product."""
    assert n * n == 2
    assert n == 3


def test_a_claim_about_nothing_is_not_confirmed() -> None:
    """Where nothing satisfies what a function takes, its sample does not either."""
    assert confirm(Subject((_takes_nothing,), (1,))).words == "confirmed over all paths"
    with pytest.raises(AssertionError):
        confirm(Subject((_impossible,), (1,)))


def test_without_crosshair_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger can be made without the tools of the tests."""
    monkeypatch.setattr(confirming, "find_spec", lambda name: None)
    rows = json.loads(json.dumps(report()))
    assert len(rows) == len(subjects()) and {row["words"] for row in rows} == {
        "CrossHair is not installed"
    }
    assert all(row["claim"] and row["paths"] == 0 for row in rows)
