"""The theorems of the specification, and those about the code of engines, by ID."""

from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from typing import TYPE_CHECKING

from nullblock.spec.prover.report import Checked

if TYPE_CHECKING:  # it loads Z3, which --help need not wait for
    from nullblock.spec.theorems import Theorem

Shown = dict[str, tuple[Checked, ...]]
"""What was found of each theorem."""


@cache
def known() -> "dict[str, Theorem]":
    """Every theorem."""
    from nullblock.conformance.adapters.proofs import ENGINE_THEOREMS
    from nullblock.spec.theorems import THEOREMS

    return THEOREMS | ENGINE_THEOREMS


def check(ids: Iterable[str]) -> Shown:
    """Discharge every obligation of these."""
    return {id: known()[id].check() for id in ids}


def unshown(shown: Shown) -> list[str]:
    """What is claimed and was not shown, one line each."""
    return [
        f"not shown: {id}: {c.what} ({c.policy})"
        for id, found in shown.items()
        for c in found
        if c.status != "proved"
    ]


def documents(shown: Shown) -> list[dict[str, object]]:
    """Theorems as JSON."""
    return [
        {
            "id": id,
            "sentence": known()[id].sentence,
            "engine": known()[id].engine,
            "rests_on": known()[id].rests_on,
            "assumes": known()[id].assumes,
            "checked": [asdict(c) for c in found],
        }
        for id, found in shown.items()
    ]
