"""Scenarios that are sought for mutants: what notices one, and those that are kept."""

import itertools
import json

import pytest
import seek

from nullblock.conformance.mutation.lockstep import ADDED, SOUGHT, golden, parted
from nullblock.spec.mutation import survivors
from nullblock.spec.mutation.generate import by_id

KEPT = json.loads(SOUGHT.read_text())
LATE = {
    "config": {"block_size": 4, "num_blocks": 8},
    "events": [
        {"op": "add", "id": "a", "prompt": {"range": [0, 9]}, "max_tokens": 2},
        {"op": "step", "n": 3},
    ],
}


@pytest.mark.parametrize("profile", ["normative", "vllm-0.22.1", "vllm-0.32.0"])
def test_a_planted_mutant_is_noticed_and_the_text_is_not(profile: str) -> None:
    """By the first scenario that comes out otherwise; one that makes no difference by none."""
    without = seek.of(LATE | {"events": LATE["events"][:1]}, "nobody runs", profile)
    other = seek.of(LATE, "one runs", profile)
    assert without is not None and other is not None
    counts = by_id()["rules.pool._enqueue.skip-5"]
    assert parted(counts, [without, other])["by"] == "one runs"
    assert parted(counts, [without]) == {}
    assert parted(by_id()["rules.pool._publish.constant-1"], [without]) == {}


def test_a_scenario_gets_smaller_and_notices_as_much() -> None:
    """What makes no difference for a mutant is left out."""
    golden = seek.of(LATE, "one runs", "vllm-0.22.1")
    assert golden is not None
    mutant = by_id()["rules.pool._enqueue.skip-5"]
    less = seek.smaller(LATE, golden, [mutant], 40)
    assert len(json.dumps(less)) < len(json.dumps(LATE))
    again = seek.of(less, "less", "vllm-0.22.1")
    assert again is not None and parted(mutant, [again])["by"] == "less"


def test_random_scenarios_are_of_every_profile() -> None:
    """And both engines play them alike."""
    some = [g.profile for _, g in itertools.islice(seek.drawn(7, 4), 6)]
    assert set(some) == {"normative", "vllm-0.22.1", "vllm-0.32.0"}


def test_what_was_found_is_played() -> None:
    """Under its own name, in the profile in which it notices something."""
    assert not KEPT.keys() & ADDED.keys()
    played = {g.name: g.profile for g in golden()}
    assert KEPT
    assert all(played[name] == entry["profile"] for name, entry in KEPT.items())
    assert all(entry["shows"] for entry in KEPT.values())


def test_explained_ones_are_asked_about_in_place_of_the_others() -> None:
    """Both kinds are there, none is of both, and an ID begins those that are asked for."""
    open_ones = seek.asked_about(explained=False, only=[])
    explained = seek.asked_about(explained=True, only=[])
    assert open_ones and explained
    assert not {m.id for m in open_ones} & {m.id for m in explained}
    assert all(survivors.reason(m) is not None for m in explained)
    some = seek.asked_about(explained=True, only=["rules.pool."])
    assert some and all(m.id.startswith("rules.pool.") for m in some)
    assert len(some) < len(explained)
