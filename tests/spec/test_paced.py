"""Tokens that a pipeline paces (RUN-43), which only vllm-0.32.0 has: what that costs, and what it
leaves as it is.
"""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from nullblock.spec.compiled import search
from nullblock.spec.explorer.actions import Action, Add, Schedule, Update
from nullblock.spec.explorer.model import Scope
from nullblock.spec.explorer.scopes import PIPELINE_CHUNKS, RESETS
from nullblock.spec.explorer.search import explore
from nullblock.spec.explorer.transitions import CLAIMS, TRANSITIONS
from nullblock.spec.facts import Config
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.profiles import NORMATIVE

sys.path.insert(0, str(Path(__file__).parent))
import both_forms  # noqa: E402  (a module beside this one)
from both_forms import needs_compiler  # noqa: E402

PACED = replace(NORMATIVE, pipeline_paces_tokens=True)
LOST: dict[str, tuple[Action, ...]] = {
    "RUN-28": (Add("a"), Schedule(), Schedule()),
    "RUN-20": (Add("a"), Schedule(), Update(), Schedule()),
}
"""What does not hold any more, and the shortest way to see it."""
KEPT = frozenset({*INVARIANTS, *CLAIMS, *TRANSITIONS}) - LOST.keys()


def ahead(scope: Scope, stages: int) -> Scope:
    """The scope scheduled ahead, for the second model runner, beside so many stages."""
    runner = {"async_scheduling": True, "use_v2_model_runner": True}
    config = replace(scope.config, **runner, pipeline_parallel_size=stages)
    return replace(scope, config=config, witnesses=frozenset())


def test_the_pipeline_paces_who_is_scheduled_ahead_for_the_second_runner() -> None:
    """And nobody else."""
    config = replace(RESETS.config, pipeline_parallel_size=3)
    both = {"async_scheduling": True, "use_v2_model_runner": True}
    for name, value in both.items():
        assert stages(config, **{**both, name: not value}) == 1
    assert stages(config, **both) == 3


def stages(config: Config, **changed: bool) -> int:
    """Of a configuration with some of it changed."""
    return replace(config, **changed).stages


@pytest.mark.parametrize("broken", LOST)
def test_who_has_work_is_passed_over(broken: str) -> None:
    """Even in a step beside which none is in flight: that is why normative has it not."""
    result = explore(ahead(RESETS, 2), PACED, claims=frozenset({broken}))
    assert result.counterexample is not None
    assert result.counterexample.breaks == broken
    assert result.counterexample.actions == LOST[broken]
    assert explore(ahead(RESETS, 2), claims=frozenset({broken})).passed


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("scope", [RESETS, PIPELINE_CHUNKS], ids=lambda scope: scope.name)
def test_all_else_holds(scope: Scope, stages: int) -> None:
    """In every state: the numbers of steps make them no more than there are."""
    result = explore(ahead(scope, stages), PACED, claims=KEPT)
    assert result.passed and result.complete


@needs_compiler
def test_its_states_are_the_same_compiled() -> None:
    """As many, by as many ways."""
    made = ahead(RESETS, 3)
    readable = explore(made, PACED, claims=KEPT)
    assert both_forms.differences(readable, search.explore(made, PACED, claims=KEPT)) == []
