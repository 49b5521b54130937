"""The known defects of vLLM 0.22.1: which scenario shows each, who reported it, what became of it.

``known.json`` says what nothing else says. What goes wrong is the scenario's own sentence
(``vectors/index.json``); a switch and the invariant that falls are those of the departures
(``spec/departures.py``) that a defect has, if it has any.
"""

import json
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from nullblock.spec.departures import Defect

VECTORS = Path(__file__).parents[1] / "vectors"
PAGES = Path(__file__).with_name("pages")
PREFIX = "Departure: "
"""How the sentence of a scenario that shows a defect begins."""


class Known(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One defect."""

    name: str
    scenario: str
    """The golden scenario that shows it, in ``vectors``."""
    shows: tuple[dict[str, Any], ...]
    """Parts of its lines, in their order, that are there if and only if the defect is."""
    later: Literal["still there", "repaired", "not shown"]
    """Whether vLLM 0.32.0 has it: what that prints for the scenario. ``not shown``: the scenario
    cannot tell; the remark says why.
    """
    departures: tuple[str, ...] = ()
    """Names of departures, as ``nullblock explore --departures`` has them."""
    repaired_by: tuple[str, ...] = ()
    """Switches that repair it without being a departure for its sake."""
    reports: tuple[int, ...] = ()
    """Issues and pull requests of vllm-project/vllm that are about this."""
    near: tuple[int, ...] = ()
    """Others that are about something close to it."""
    more: tuple[str, ...] = ()
    """Further golden scenarios that show it."""
    remark: str = ""

    @property
    def says(self) -> str:
        """What goes wrong, in a sentence."""
        return sentences()[self.scenario].removeprefix(PREFIX)

    @property
    def found(self) -> "list[Defect]":
        """Its departures, in which the explorer finds it again."""
        return [departures()[name] for name in self.departures]

    @property
    def switches(self) -> list[str]:
        """The decision switches that repair it."""
        return sorted({*self.repaired_by, *(departure.switch for departure in self.found)})

    @property
    def breaks(self) -> list[str]:
        """The invariants, or other statements, that it breaks."""
        return sorted({departure.breaks for departure in self.found})

    @property
    def page(self) -> Path:
        """Where it is told at length, if it is."""
        return PAGES / f"{self.name}.md"


@cache
def known() -> tuple[Known, ...]:
    """Every defect, in the order of a request's way through the engine."""
    text = Path(__file__).with_name("known.json").read_bytes()
    return msgspec.json.decode(text, type=tuple[Known, ...])


@cache
def sentences() -> dict[str, str]:
    """What each golden scenario shows, by name."""
    loaded: dict[str, str] = json.loads((VECTORS / "index.json").read_text())
    return loaded


@cache
def departures() -> "dict[str, Defect]":
    """The departures of the specification, by name."""
    from nullblock.spec.departures import DEPARTURES

    return {departure.name: departure for departure in DEPARTURES}
