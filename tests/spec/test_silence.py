"""A step that returns without a token that it owes."""

from collections.abc import Callable
from typing import Any

import pytest

from nullblock.spec.explorer.actions import Schedule, Update, perform
from nullblock.spec.explorer.draft_scopes import SILENCE, SILENCE_AHEAD
from nullblock.spec.explorer.model import Scope, beginning
from nullblock.spec.explorer.search import explore
from nullblock.spec.explorer.transitions import TRANSITIONS
from nullblock.spec.fields import PREEMPTED, RUNNING
from nullblock.spec.kernel import Disabled
from nullblock.spec.machine import events, update
from nullblock.spec.machine.schedule import schedule
from nullblock.spec.machine.update import update_from_output
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, Semantics
from nullblock.spec.rules.silence import get_nothing, start_anew
from nullblock.spec.rules.steps import begin_update


def sampled_once(scope: Scope, semantics: Semantics = NORMATIVE) -> Any:
    """Request a has one output, and the step that is in flight for it will have none."""
    s: Any = beginning(scope, semantics)
    events.add(s, "a")
    schedule(s)
    update_from_output(s)
    schedule(s)
    assert s.ndraft[s.cur] == 2
    return s


def test_who_runs_starts_over_with_what_is_cached() -> None:
    """UPD-61: it waits with nothing, owed nothing, and hits its own blocks when it is resumed."""
    s = sampled_once(SILENCE)
    assert s.ph["a"] == 1
    update_from_output(s)
    assert (s.stage["a"], s.comp["a"], s.ntok["a"], s.tlen["a"]) == (PREEMPTED, 0, 4, 0)
    assert (s.ph["a"], s.pd["a"], s.drop["a"], s.npre["a"]) == (0, 0, 0, 1)
    schedule(s)
    assert (s.stage["a"], s.spot[s.cur], s.grant[s.cur]) == (RUNNING, 4, 2)
    update_from_output(s)
    assert s.ntok["a"] == 5


def test_what_is_in_flight_behind_it_is_dropped() -> None:
    """UPD-61: scheduling ahead, the next step computes behind a token that nobody knows."""
    s = sampled_once(SILENCE_AHEAD)
    schedule(s)
    assert s.ph["a"] == 2
    update_from_output(s)
    assert (s.stage["a"], s.ph["a"], s.pd["a"], s.drop["a"]) == (PREEMPTED, 0, 0, 1)
    update_from_output(s)
    assert (s.ntok["a"], s.drop["a"]) == (4, 0)


def test_who_waits_goes_on_waiting() -> None:
    """UPD-60: a request that a reset has preempted meanwhile is owed nothing any more."""
    s = sampled_once(SILENCE)
    events.reset_prefix_cache(s, True)
    assert s.ph["a"] == 1
    update_from_output(s)
    assert (s.stage["a"], s.ph["a"], s.npre["a"], s.ntok["a"]) == (PREEMPTED, 0, 1, 4)


def test_an_output_to_be_dropped_is_dropped_without_a_token_too() -> None:
    """UPD-60: nothing is lost with it; in vllm-0.22.1 the next one is dropped in its place."""
    for semantics, left in ((NORMATIVE, 0), (VLLM_0_22_1, 3)):
        s = sampled_once(SILENCE_AHEAD, semantics)
        events.reset_prefix_cache(s, True)
        update_from_output(s)
        assert (s.drop["a"], s.ntok["a"]) == (left, 4)


def test_the_release_leaves_everything_as_it_is() -> None:
    """UPD-60: in vllm-0.22.1 the token and its drafts stay computed, and in flight."""
    s = sampled_once(SILENCE_AHEAD, VLLM_0_22_1)
    update_from_output(s)
    assert (s.stage["a"], s.comp["a"], s.ntok["a"]) == (RUNNING, 6, 4)
    assert (s.ph["a"] + s.pd["a"], s.oldest, s.steps) == (3, 2, 2)


def test_a_step_that_may_not_lack_a_token_lacks_none() -> None:
    """UPD-60, UPD-61: neither rule fires where every token comes, nor for who is not next."""
    s = sampled_once(SILENCE)
    begin_update(s)
    with pytest.raises(Disabled, match="it does not run"):
        get_nothing(s, "a")
    with pytest.raises(Disabled, match="the index is in range"):
        start_anew(s, 1)
    s.k.silences = False
    with pytest.raises(Disabled, match="lack"):
        get_nothing(s, "a")
    with pytest.raises(Disabled, match="lack"):
        start_anew(s, 0)


def loses(s: Any, r: Any) -> bool:
    """Whether r has three tokens, and drafts in the entry at hand."""
    return bool(s.ndraft[s.cur] > 0 and s.ntok[r] == 3)


def waits(s: Any, r: Any) -> bool:
    """Whether it does not run, and nothing of it is to be dropped."""
    return bool(s.stage[r] != RUNNING and s.drop[r] == 0)


@pytest.mark.parametrize("scope", [SILENCE, SILENCE_AHEAD], ids=lambda s: s.name)
@pytest.mark.parametrize("lost", [loses, waits])
def test_a_token_that_has_come_is_not_lost(
    scope: Scope, lost: Callable[[Any, Any], bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """UPD-15: where some steps return without a token, those of others are taken all the same."""
    silent = update.returns_without
    monkeypatch.setattr(update, "returns_without", lambda s, r: silent(s, r) or lost(s, r))
    example = explore(scope).counterexample
    assert example is not None and example.breaks == "UPD-15"


@pytest.mark.parametrize("scope", [SILENCE, SILENCE_AHEAD], ids=lambda s: s.name)
def test_a_token_that_has_not_come_is_not_taken(
    scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UPD-15: be it the last one that the request may take."""
    silent = update.returns_without
    monkeypatch.setattr(update, "returns_without", lambda s, r: silent(s, r) and waits(s, r))
    example = explore(scope).counterexample
    assert example is not None and example.breaks == "UPD-15"


def test_what_others_took_has_its_place_beside_who_took_nothing() -> None:
    """UPD-15, UPD-23: of one that the step had no token for the position is what it was scheduled
    for; of one whose token has come, what it took, be it that it waits again.
    """
    s = sampled_once(SILENCE)
    was = s.copy()
    perform(s, Update())
    for id in ("UPD-15", "UPD-23"):
        assert TRANSITIONS[id](was, s, Update())
    s.ntok["a"] += 1
    assert not TRANSITIONS["UPD-15"](was, s, Update())
    s = beginning(SILENCE, NORMATIVE)
    events.add(s, "b")
    perform(s, Schedule())
    was = s.copy()
    perform(s, Update())
    assert all(TRANSITIONS[id](was, s, Update()) for id in ("UPD-15", "UPD-23"))
    s.ntok["b"], s.stage["b"] = was.ntok["b"], PREEMPTED
    assert not TRANSITIONS["UPD-15"](was, s, Update())
    assert not TRANSITIONS["UPD-23"](was, s, Update())
