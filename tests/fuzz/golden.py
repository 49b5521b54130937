"""Golden scenarios of a feature, and the first whose lines the reference no longer prints."""

import json
from collections.abc import Callable, Collection
from pathlib import Path

from fuzz.lockstep import Scenario, difference, lines_of

from nullblock.conformance.engine import Feature
from nullblock.conformance.scenario import from_dict
from nullblock.conformance.scope import used

VECTORS = Path(__file__).parents[2] / "conformance" / "vectors"
Golden = dict[str, tuple[Scenario, list[str]]]
"""Scenarios and the real engine's lines, by name."""


def golden(is_wanted: Callable[[Scenario], bool]) -> Golden:
    """Those that are wanted, in the order of the index."""
    found = {}
    for name in json.loads((VECTORS / "index.json").read_text()):
        document = json.loads((VECTORS / f"{name}.json").read_text())
        if is_wanted(document):
            found[name] = document, (VECTORS / f"{name}.jsonl").read_text().splitlines()
    return found


def using(features: Collection[Feature]) -> Golden:
    """Those that use one of the features."""
    return golden(lambda document: any(f in features for f, _ in used(from_dict(document))))


def first_missed(some: Golden) -> str:
    """The first for which the reference does not print what was recorded; empty: none."""
    for name, (document, expected) in some.items():
        if difference(expected, lines_of("reference", document), bytewise=True):
            return name
    return ""
