"""A defect of a real engine."""

from dataclasses import dataclass
from typing import Literal

How = Literal["departure", "mutant", "specimen", "nothing"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of a defect, and how this specification shows it."""

    id: str
    refs: str
    """Upstream: bare numbers are vLLM issues and pull requests."""
    layer: str
    story: str
    changes: str = ""
    """The statement that the defect changes."""
    falls: str = ""
    """The statement that was expected to fall; empty where none speaks of it."""
    departure: str = ""
    """The departure of vllm-0.22.1 that shows it: `nullblock explore --departures NAME`."""
    mutant: str = ""
    """The systematic mutant that is the same slip: `nullblock mutate ID`."""
    specimen: str = ""
    """The change of `specimens.py` that plants it: `nullblock mutate zoo.NAME`."""
    missing: str = ""
    """What the specification lacks: the layer, or that part of it of which the defect is. With one
    of the three above: the nearest slip in what it has.
    """
    note: str = ""

    @property
    def how(self) -> How:
        """What shows it."""
        if self.departure:
            return "departure"
        if self.mutant:
            return "mutant"
        return "specimen" if self.specimen else "nothing"

    @property
    def name(self) -> str:
        """Of the departure, mutant or specimen."""
        return self.departure or self.mutant or self.specimen
