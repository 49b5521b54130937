"""Loads, drafts, windows and steps in flight together: what is seen only where they meet."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nullblock.spec.explorer.model import Scope, beginning
from nullblock.spec.explorer.search import explore
from nullblock.spec.explorer.together_scopes import (
    LOSSY_GROUPS,
    LOSSY_GROUPS_ENDS,
    LOSSY_WINDOW,
    LOSSY_WINDOW_ENDS,
    RULES_LOSSY_GROUPS,
    TOGETHER_SCOPES,
)
from nullblock.spec.profiles import NORMATIVE

DEFECTS: dict[str, tuple[str, Callable[..., Any], Scope, str]] = {
    "drafts of who starts over stay in flight": (
        "rules.remote.drop_drafts",
        lambda s, r: None,
        LOSSY_WINDOW,
        "DRAFT-15",
    ),
    "a window passes blocks by drafts": (
        "groups.verified",
        lambda s, r: s.comp[r],
        LOSSY_WINDOW_ENDS,
        "GROUP-8",
    ),
}
"""The reading or effect that is changed, what it becomes, where it is noticed, and by what."""


@pytest.mark.parametrize("scope", TOGETHER_SCOPES, ids=lambda s: s.name)
def test_all_of_them_meet(scope: Scope) -> None:
    """Each scope schedules ahead, with drafts, several steps in flight, a connector that loads
    over steps and within one, and a window; there are two groups, or a store that is lossy, or
    both.
    """
    k = beginning(scope, NORMATIVE).k
    assert k.asynchronous and k.num_spec and k.connector and k.windowed and scope.halves
    loaded = [t for t in scope.templates if t.remote]
    assert {t.loads_over_steps for t in loaded} == {False, True}
    assert k.several or scope.lossy
    both = {"freed-beside-load", "rejected-behind-window"}
    assert scope is RULES_LOSSY_GROUPS or scope.depth > 1 and both <= scope.witnesses


def test_two_groups_a_lossy_store_drafts_and_steps_ahead_meet_in_one_scope() -> None:
    """Whoever lacks blocks of one group alone starts over there, or ends."""
    for scope in (LOSSY_GROUPS, LOSSY_GROUPS_ENDS):
        k = beginning(scope, NORMATIVE).k
        assert k.several and scope.lossy and k.num_spec and k.asynchronous and scope.depth > 1
        assert {"lacks-one-group", "loses-beside-drafts"} <= scope.witnesses


def test_each_policy_for_failed_loads_has_its_scope() -> None:
    """They differ in nothing else, but for what can be asked of it."""
    ends = replace(LOSSY_WINDOW.config, fail_failed_loads=True)
    assert LOSSY_WINDOW_ENDS.config == ends
    assert LOSSY_WINDOW_ENDS.templates == LOSSY_WINDOW.templates


@pytest.mark.parametrize("what", DEFECTS)
def test_a_planted_defect_is_found(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the statement that says so."""
    where, defect, scope, breaks = DEFECTS[what]
    monkeypatch.setattr(f"nullblock.spec.{where}", defect)
    found = explore(scope).counterexample
    assert found is not None and found.breaks == breaks, found and found.breaks
