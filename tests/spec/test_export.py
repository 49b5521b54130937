"""A way through a scope, written as a scenario: engines go it as the explorer does."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nullblock.conformance import driver, exploration
from nullblock.conformance.engines import make_engine
from nullblock.conformance.scenario import from_dict
from nullblock.spec.explorer.actions import Action, Add, Schedule, Update, actions, perform
from nullblock.spec.explorer.answers import UPDATES
from nullblock.spec.explorer.draft_scopes import SILENCE, SILENCE_AHEAD
from nullblock.spec.explorer.export import scenario
from nullblock.spec.explorer.model import Scope, beginning
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.profiles import NORMATIVE, VLLM_0_22_1, Semantics
from nullblock.spec.state import live

DRAFTED = [s for s in STANDARD.values() if s.config.num_spec_tokens]
SAID = [s for s in DRAFTED if all(t.proposes is None for t in s.templates)]
UNSAID = next(s for s in DRAFTED if s not in SAID)
LENGTH = 120


def walk(scope: Scope, seed: int) -> tuple[list[Action], list[dict[str, Any]]]:
    """Actions drawn at random, and after each who lives, with how many tokens, how many of them
    computed.
    """
    draw, s = Random(seed), beginning(scope, NORMATIVE)
    way: list[Action] = []
    states = []
    for _ in range(LENGTH):
        some = draw.choice(list(actions(s, scope)))
        perform(s, some)
        way.append(some)
        states.append(
            {t.id: (s.ntok[t.id], s.comp[t.id]) for t in scope.templates if live(s, t.id)}
        )
    return way, states


def replayed(document: dict[str, Any], engine: str, semantics: Semantics) -> list[dict[str, Any]]:
    """The lines of a scenario but header and trailer."""
    given = from_dict(document)
    lines = list(driver.run(given, make_engine(engine, given.config, semantics)))
    return [json.loads(line) for line in lines[1:-1]]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("scope", SAID, ids=lambda s: s.name)
@pytest.mark.parametrize("engine", ["spec", "reference"])
def test_a_scenario_says_what_the_model_answers(scope: Scope, seed: int, engine: str) -> None:
    """Whatever the model of a scope says of drafts, be it nothing: on a random way an engine has
    the same requests after each half of a step, with as many tokens.
    """
    way, states = walk(scope, seed)
    lines = replayed(scenario(scope, way, NORMATIVE), engine, NORMATIVE)
    met = 0
    found = [line for line in lines if line["ev"] in ("schedule", "update")]
    wanted: list[dict[str, Any]] = []
    for action, state in zip(way, states, strict=True):
        if isinstance(action, (Schedule, *UPDATES)):
            wanted.append(state)
        elif str(action) == "step":
            wanted += [{}, state]
    assert len(found) == len(wanted)
    for line, state in zip(found, wanted, strict=True):
        requests = line["state"]["requests"]
        if state:
            assert {r: (requests[r]["tokens"], requests[r]["computed"]) for r in state} == state
            met += 1
    assert met


@pytest.mark.parametrize("scope", [SILENCE, SILENCE_AHEAD], ids=lambda s: s.name)
def test_a_step_that_says_nothing_has_its_word(scope: Scope) -> None:
    """The answers are those of this way: nothing for who is silent, all drafts of another."""
    alone = (Add("a"), Schedule(), Update(), Schedule(), Update())
    assert scenario(scope, alone, NORMATIVE)["config"]["accept"] == [None]
    other = (Add("b"), Schedule(), Update(), Schedule(), Update())
    assert scenario(scope, other, NORMATIVE)["config"]["accept"] == [2]
    assert scenario(scope, alone[:3], NORMATIVE)["config"]["accept"] == "all"
    once = scenario(scope, (*alone, Schedule(), Update()), VLLM_0_22_1)["config"]["accept"]
    assert once[0] is None


def test_what_has_no_words_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A scope that a scenario cannot say is refused by name, in one line, and nothing is saved."""
    path = tmp_path / "way.json"
    exploration.save(path, UNSAID, (Add("a"),), NORMATIVE)
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and UNSAID.name in said and "is not written" in said
    assert not path.exists()


def test_states_within_steps_are_said() -> None:
    """Of the layers that keep them."""
    told = scenario(STANDARD["mamba-within"], [], NORMATIVE)["config"]["groups"]
    assert [group.get("prefill_checkpoint_alignment") for group in told] == [None, 2]
