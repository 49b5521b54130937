"""The departures of vllm-0.22.1: the explorer finds each by itself, and none in normative."""

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from nullblock.conformance.ledger.sources.departures import shown
from nullblock.spec import departures
from nullblock.spec.compiled import search
from nullblock.spec.departures import DEPARTURES, Defect
from nullblock.spec.explorer.actions import (
    Action,
    Add,
    Evict,
    Pause,
    Reset,
    Schedule,
    Step,
    Update,
)
from nullblock.spec.explorer.draft_scopes import DRAFTS_EAGLE
from nullblock.spec.explorer.export import sampled, scenario
from nullblock.spec.explorer.liveness import SERVED, cycle, served_in_the_end
from nullblock.spec.explorer.model import Scope, Template
from nullblock.spec.explorer.result import Counterexample, Lasso
from nullblock.spec.explorer.search import explore
from nullblock.spec.explorer.story import Untold, tell
from nullblock.spec.fields import PAUSED_ALL
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1
from nullblock.spec.switches import differences, meaning, switches

sys.path.insert(0, str(Path(__file__).parent))
import both_forms  # noqa: E402  (a module beside this one)
from both_forms import needs_compiler, recorded  # noqa: E402
from shortest import SHORTEST  # noqa: E402

EACH = pytest.mark.parametrize("defect", DEPARTURES, ids=lambda d: d.name, scope="module")
"""With this scope all that is asked of one departure comes one after the other, and what a search
found is kept.
"""
find, clear = cache(departures.find), cache(departures.clear)


def named(name: str) -> Defect:
    """The departure of that name."""
    return next(d for d in DEPARTURES if d.name == name)


def spelled(found: Counterexample | None) -> tuple[str, str] | None:
    """A counterexample as in `SHORTEST`."""
    return (found.breaks, "; ".join(map(str, found.actions))) if found else None


def test_every_departure_is_pinned() -> None:
    """The table above has them all, under distinct names."""
    assert [d.name for d in DEPARTURES] == list(SHORTEST)


NO_SUCH_SETTING = {"inner_states_kept"}
"""What a later release can be set to, and vLLM 0.22.1 cannot: it decides nothing wrong there."""


def test_every_switch_that_differs_departs() -> None:
    """No switch of vllm-0.22.1 differs from normative without a departure to show why, but for
    settings that it does not have.
    """
    departs = {d.switch for d in DEPARTURES}
    assert departs | NO_SUCH_SETTING == set(differences(NORMATIVE, VLLM_0_22_1))
    assert not departs & NO_SUCH_SETTING
    for d in DEPARTURES:
        assert switches(VLLM_0_22_1)[d.switch] == d.value != switches(NORMATIVE)[d.switch]
        assert meaning(d.switch)


@EACH
def test_the_explorer_finds_it(defect: Defect) -> None:
    """In vllm-0.22.1 the search comes upon just the pinned actions, and what breaks is pinned."""
    assert spelled(find(defect).counterexample) == SHORTEST[defect.name]


@EACH
def test_its_switch_makes_it(defect: Defect) -> None:
    """Normative with that switch alone (and named companions) breaks in the same way."""
    assert spelled(find(defect, defect.flipped).counterexample) == SHORTEST[defect.name]


@EACH
def test_its_switch_mends_it(defect: Defect) -> None:
    """In vllm-0.22.1 with that one switch mended nothing breaks as soon, nor in that way."""
    found = find(defect, defect.repaired).counterexample
    before = find(defect).counterexample
    assert before is not None
    assert found is None or (
        found.breaks != defect.breaks and len(found.actions) > len(before.actions)
    )


@pytest.mark.parametrize("defect", [d for d in DEPARTURES if d.companions], ids=lambda d: d.name)
def test_companions_are_needed(defect: Defect) -> None:
    """Without its companions a switch breaks nothing: the search ends and finds nothing."""
    alone = replace(NORMATIVE, **{defect.switch: defect.value})
    result = explore(defect.scope, alone)
    assert result.complete and result.counterexample is None


@EACH
def test_normative_has_none(defect: Defect) -> None:
    """In normative the whole scope passes, its witnesses are reached, and everybody is served."""
    result = clear(defect)
    assert result.passed and result.complete
    assert defect.scope.witnesses and defect.scope.witnesses <= result.witnesses


@EACH
def test_the_ledger_has_it(defect: Defect) -> None:
    """What is recorded is what the searches find now, state for state and story for story."""
    assert recorded("departures")[defect.name] == shown(defect, find(defect), clear(defect))


@needs_compiler
@EACH
def test_it_is_found_by_the_same_way_compiled(defect: Defect) -> None:
    """A guard, an invariant, a statement about steps, or a cycle on which nobody is served: the
    counterexample is the same, action for action.
    """
    compiled = search.explore(defect.scope, VLLM_0_22_1, claims=frozenset({defect.breaks}))
    assert compiled.counterexample is not None
    assert both_forms.differences(find(defect), compiled) == []


@needs_compiler
@EACH
def test_its_scope_is_the_same_compiled(defect: Defect) -> None:
    """Normative, where the whole scope is searched."""
    assert both_forms.differences(clear(defect), search.explore(defect.scope)) == []


def test_the_order_of_later_lines_breaks_nothing() -> None:
    """`freed_unhashed_first` is a change, not a departure: with it every statement holds too."""
    later = replace(NORMATIVE, freed_unhashed_first=True)
    for name in ("one-spelling", "next-owner", "no-room-for-min-tokens"):
        result = explore(named(name).scope, later)
        assert result.passed, name


@pytest.mark.parametrize(
    "switch", ["admissions_look_ahead", "admissions_padded", "drafting_takes_slots"]
)
def test_what_later_lines_do_with_drafts_breaks_nothing(switch: str) -> None:
    """Nor are these: every statement holds of drafts that an EAGLE-like method proposes."""
    result = explore(DRAFTS_EAGLE, replace(NORMATIVE, **{switch: True}))
    assert result.passed and result.complete


@EACH
def test_the_story_is_told_from_the_rules(defect: Defect) -> None:
    """Each action has its place in the story, and the end says what broke."""
    found = find(defect).counterexample
    assert found is not None
    story = tell(found, defect.scope, VLLM_0_22_1)
    assert [b.action for b in story.beats] == list(found.actions)
    assert all(b.changes for b in story.beats[:-1])
    text = str(story)
    assert found.sentence in text and found.breaks in text


def test_a_story_says_what_changed_and_with_which_values() -> None:
    """Who was scheduled, preempted and hit, what moved, and where the statement is false."""
    defect = named("uncomputed-hit")
    found = find(defect).counterexample
    assert found is not None
    story = tell(found, defect.scope, VLLM_0_22_1)
    last = story.beats[-1]
    assert last.changes == (
        "a goes on: 2 tokens, takes blocks 6 7, hashes blocks 6 7",
        "a is preempted by b though it was scheduled in this step (its 2 tokens go back), "
        "releases blocks 7 6 4 3 2 1",
        "b goes on: 1 token, takes block 7, hashes block 7",
        "b takes output token 2 and stops: max_tokens",
        "b is gone, releases blocks 7 5",
    )
    assert last.after == "running nobody; waiting a 0/6; free 6* 4* 3* 2* 1* 7* 5*"
    assert story.values == ("block 6: ref 0, hsh 6, done 0",)


def test_a_story_speaks_of_encoder_inputs() -> None:
    """What is computed, taken out of a step, found in the cache, and where a step ends for it."""
    said = {}
    for name in ("item-never-computed", "waits-between-items"):
        found = find(named(name)).counterexample
        assert found is not None
        beats = tell(found, named(name).scope, VLLM_0_22_1).beats
        said[name] = [change for beat in beats for change in beat.changes]
    taken = "a goes on: 2 tokens, takes block 4, hashes block 4, has the encoder compute item 1"
    kept = "an item of a is taken out of the step, and stays in the cache"
    at = said["item-never-computed"].index(taken)
    assert said["item-never-computed"][at + 1] == kept
    ended = "item 2 cannot be had now: a gets no token from there on"
    assert said["waits-between-items"].count(ended) >= 2


def test_a_story_that_does_not_come_out_is_not_told() -> None:
    """Under normative the same actions break nothing, and the story says so instead of lying."""
    for name in ("uncomputed-hit", "next-owner", "skipped-request"):
        found = find(named(name)).counterexample
        assert found is not None
        with pytest.raises(Untold, match="holds after|cannot happen"):
            tell(found, named(name).scope, NORMATIVE)


def test_turns_are_taken_for_ever() -> None:
    """Of two equals each preempts itself in turn; a story of whole turns, told once."""
    defect = named("taking-turns")
    found = find(defect).counterexample
    assert isinstance(found, Lasso) and found.repeats == 4
    story = tell(found, defect.scope, VLLM_0_22_1)
    preempted = [c for beat in story.beats for c in beat.changes if "is preempted by itself" in c]
    assert [c[0] for c in preempted] == ["a", "b"]
    assert story.values == ("a is never served", "b is never served")


def test_a_lasso_says_what_repeats() -> None:
    """A request that starts over for ever is shown by the actions that lead back."""
    defect = named("start-over")
    found = find(defect).counterexample
    assert isinstance(found, Lasso) and 0 < found.repeats < len(found.actions)
    story = tell(found, defect.scope, VLLM_0_22_1)
    assert story.values == ("a is never served",)
    assert "actions 6 to 7 lead back to the same state" in str(story)


def test_cycles_are_found_where_they_are() -> None:
    """A way into a cycle, a cycle of one, and none: the earliest state on a cycle counts."""
    step: Action = Step()
    assert cycle({0: (step, 1), 1: (step, 2), 2: (step, 3)}) is None
    assert cycle({0: (step, 1), 1: (step, 2), 2: (step, 1)}) == (1, [step, step])
    assert cycle({5: (step, 5), 0: (step, 5)}) == (5, [step])
    two = {4: (step, 6), 6: (step, 4), 1: (Schedule(), 2), 2: (Update(), 1)}
    assert cycle(two) == (1, [Schedule(), Update()])
    assert served_in_the_end({0: (step, 1)}) and not served_in_the_end({0: (step, 0)})


def test_who_is_paused_is_not_expected_to_be_served() -> None:
    """Pausing is no defect: with pauses in the scope everybody is still served in the end."""
    scope = replace(named("next-owner").scope, pauses=(0, PAUSED_ALL))
    assert explore(scope, claims=frozenset({SERVED})).passed


def test_a_hang_is_a_cycle_too() -> None:
    """A request that runs for ever doing nothing, and one that waits for ever, are both found."""
    for name in ("no-room-for-min-tokens", "unfit-prompt", "outgrown-pool", "full-prompt"):
        found = explore(named(name).scope, VLLM_0_22_1, claims=frozenset({SERVED}))
        assert found.complete and not found.passed
        assert isinstance(found.counterexample, Lasso), name
        assert found.counterexample.repeats == 1, name


def test_a_scenario_says_everything_about_a_scope() -> None:
    """Every action and every property of a request has its words in the scenario format."""
    base = named("one-spelling").scope
    full = Template("a", (1001,), 4, 1, 3, 2.5, eos_at=2, stop_at=1, skip_cache_read=True, salt="")
    scope = Scope("x", "", replace(base.config, policy="priority"), (full,), halves=True)
    actions = (Add("a"), Schedule(), Update(), Reset(True), Evict(2), Pause(PAUSED_ALL))
    document = scenario(scope, actions, NORMATIVE)
    seed = document["config"]["seed"]
    assert document["events"] == [
        {
            "op": "add",
            "id": "a",
            "prompt": [1001],
            "max_tokens": 4,
            "min_tokens": 1,
            "priority": 3,
            "arrival": 2.5,
            "salt": "",
            "skip_cache_read": True,
            "eos": 7,
            "eos_at": 2,
            "stop": [sampled(seed, "a", 2)],
        },
        {"op": "schedule"},
        {"op": "update"},
        {"op": "reset_prefix_cache", "reset_running": True},
        {"op": "evict_blocks", "ids": [2]},
        {"op": "pause", "state": "PAUSED_ALL"},
    ]


@EACH
def test_tokens_of_a_scenario_differ_where_they_must(defect: Defect) -> None:
    """No two sampled tokens are alike, and none is a prompt's: blocks are told apart by them."""
    found = find(defect).counterexample
    assert found is not None
    seed = scenario(defect.scope, found.actions, VLLM_0_22_1)["config"]["seed"]
    places = {
        (t.id, position)
        for t in defect.scope.templates
        for position in range(len(t.prompt), defect.scope.config.max_model_len)
    }
    tokens = [sampled(seed, id, position) for id, position in places]
    assert len(set(tokens)) == len(tokens)
    assert not set(tokens) & {7, *(x for t in defect.scope.templates for x in t.prompt)}
