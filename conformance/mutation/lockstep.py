"""A defect in lockstep with the reference, over the golden scenarios: in both profiles, and with a
later switch.

The reference is not mutated: what it prints is asked for once. A scenario in which the
specification calls no function that a defect changes comes out the same with the defect in it, and
is not run again.
"""

import json
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import FrameType

from nullblock.conformance import compare, driver, scenario
from nullblock.conformance.engines import make_engine
from nullblock.conformance.errors import InputError
from nullblock.conformance.mutation.cross_scenarios import MORE_CROSS
from nullblock.conformance.mutation.deferred_scenarios import MORE_DEFERRED
from nullblock.conformance.mutation.draft_scenarios import MORE_DRAFTS
from nullblock.conformance.mutation.encoder_scenarios import MORE_ITEMS
from nullblock.conformance.mutation.found_scenarios import MORE_FOUND
from nullblock.conformance.mutation.group_scenarios import MORE_GROUPS
from nullblock.conformance.mutation.input_scenarios import MORE_INPUTS
from nullblock.conformance.mutation.later_scenarios import MORE_LATER
from nullblock.conformance.mutation.layer_scenarios import MORE_LAYERS
from nullblock.conformance.mutation.mamba_scenarios import MORE_MAMBA
from nullblock.conformance.mutation.reclaim_scenarios import MORE_RECLAIM
from nullblock.conformance.mutation.remote_scenarios import MORE_REMOTE
from nullblock.conformance.mutation.room_scenarios import MORE_ROOM
from nullblock.conformance.mutation.scenarios import MORE
from nullblock.conformance.mutation.session_scenarios import MORE_SESSIONS
from nullblock.conformance.mutation.wait_scenarios import MORE_WAITS
from nullblock.conformance.scenario_format import Scenario
from nullblock.spec.mutation.forks import LATE, Json, with_defect
from nullblock.spec.mutation.generate import Defect
from nullblock.spec.profiles import PROFILES, VLLM_0_22_1, Semantics

VECTORS = Path(__file__).parents[1] / "vectors"
SOUGHT = Path(__file__).parent / "sought.json"
"""What `tests/mutants/seek.py` found: by name a scenario, its profile, and the mutants that it
shows there.
"""
ADDED = {
    **(MORE | MORE_DRAFTS | MORE_GROUPS | MORE_WAITS | MORE_ITEMS | MORE_CROSS),
    **(MORE_MAMBA | MORE_LAYERS | MORE_LATER | MORE_SESSIONS | MORE_INPUTS),
    **(MORE_REMOTE | MORE_DEFERRED | MORE_ROOM | MORE_RECLAIM | MORE_FOUND),
}
"""Scenarios for what no golden scenario notices."""
SECONDS = 60.0
"""Of processor time: four times as much as the specification takes for all of them."""
NEVER_ENDS = "never ends"
SEMANTICS = {**PROFILES, "later": replace(VLLM_0_22_1, freed_unhashed_first=True)}
"""The profiles, and a switch that both leave alone."""


@dataclass(frozen=True, slots=True)
class Golden:
    """A scenario, a profile, and what the reference prints."""

    name: str
    profile: str
    given: Scenario
    semantics: Semantics
    lines: tuple[str, ...]
    called: frozenset[str]
    """The names of the functions that the specification calls on its way."""


@cache
def golden() -> tuple[Golden, ...]:
    """What both engines can run of the golden scenarios, shortest first."""
    return tuple(sorted(_golden(), key=lambda g: len(g.lines)))


def _golden() -> Iterator[Golden]:
    named = json.loads((VECTORS / "index.json").read_text())
    documents = {name: json.loads((VECTORS / f"{name}.json").read_text()) for name in named}
    for name, document in (documents | ADDED).items():
        given = scenario.from_dict(document)
        known: list[tuple[str, ...]] = []
        for profile, semantics in SEMANTICS.items():
            try:
                found = seen(name, profile, given, semantics)
            except InputError:
                continue
            # What both profiles print alike is asked for once; the header names the profile.
            if found.lines[1:] not in known:
                yield found
                known.append(found.lines[1:])
    for name, entry in json.loads(SOUGHT.read_text()).items():
        given = scenario.from_dict(entry["scenario"])
        yield seen(name, entry["profile"], given, PROFILES[entry["profile"]])


def seen(name: str, profile: str, given: Scenario, semantics: Semantics) -> Golden:
    """A scenario in a profile. Raises InputError."""
    called = _called(given, semantics)
    return Golden(name, profile, given, semantics, played("reference", given, semantics), called)


def _called(given: Scenario, semantics: Semantics) -> frozenset[str]:
    """The names of the functions that the specification calls in a scenario. Raises InputError."""
    names: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            names.add(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        played("spec", given, semantics)
    finally:
        sys.setprofile(before)
    return frozenset(names)


def played(engine: str, given: Scenario, semantics: Semantics) -> tuple[str, ...]:
    """What an engine prints. Raises InputError."""
    return tuple(driver.run(given, make_engine(engine, given.config, semantics)))


def judge(defect: Defect | None, over: Collection[str] | None = None) -> Json:
    """Where a defect parts from the reference: the scenario, the profile and the place; nothing
    if it does not.

    Args:
        over: the names of the scenarios to look at; None: all of them.
    """
    wanted = [g for g in golden() if defect is None or defect.functions & g.called]
    if over is not None:
        wanted = [g for g in wanted if g.name in over]
    return parted(defect, wanted) if wanted else {}


def parted(defect: Defect | None, some: Sequence[Golden]) -> Json:
    """The first of some scenarios in which it does, as `judge` tells it."""

    def work() -> Json:
        for g in some:
            try:
                lines = played("spec", g.given, g.semantics)
            except InputError as error:
                # The reference takes the scenario: whoever refuses a part of it went another way.
                return {"by": g.name, "profile": g.profile, "line": 0, "at": str(error)}
            found = compare.first_difference(g.lines, lines)
            if found is not None:
                return {"by": g.name, "profile": g.profile, "line": found.line, "at": found.path}
        return {}

    said = with_defect(defect, work, SECONDS)
    return {"by": NEVER_ENDS} if said == LATE else said
