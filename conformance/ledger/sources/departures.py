"""The departures of a released engine: each found by the explorer, and none in normative."""

from collections.abc import Iterator

from nullblock.conformance.ledger.digest import TEXT
from nullblock.conformance.ledger.rows import Detail, Exhibit, Fall
from nullblock.conformance.ledger.sources.base import Record, Source
from nullblock.conformance.ledger.sources.scopes import SEARCH, STORY
from nullblock.conformance.ledger.told import Told, told
from nullblock.spec.catalogue import catalogue
from nullblock.spec.departures import DEPARTURES, Defect, clear, find
from nullblock.spec.explorer.result import Result
from nullblock.spec.explorer.story import tell
from nullblock.spec.profiles import VLLM_0_22_1

NAME = "vLLM 0.22.1"


class Departure(Record, frozen=True):
    """What was found of one departure."""

    name: str
    switch: str
    upstream: str
    breaks: str
    sentence: str
    states: int
    """Seen until it showed."""
    normative_states: int
    normative_passes: bool
    story: Told | None = None
    """None: it was not found."""

    @property
    def command(self) -> str:
        """Finds it again."""
        return f"nullblock explore --departures {self.name}"

    @property
    def wrong(self) -> str:
        """Why it is not borne out; empty if it is."""
        if self.story is None or self.story.breaks != self.breaks:
            return f"departure {self.name}: it does not break {self.breaks}"
        if not self.normative_passes:
            return f"departure {self.name}: normative does not pass its scope"
        return ""


class Departures(Record, frozen=True):
    """What was found of every departure."""

    departures: tuple[Departure, ...]


def gather() -> Departures:
    """Find them all again, and search their scopes in normative. A minute or two."""
    return Departures(tuple(shown(d, find(d), clear(d)) for d in DEPARTURES))


def shown(d: Defect, finding: Result, normative: Result) -> Departure:
    """The record of a departure: what was found of it, and what normative does in its scope."""
    found = finding.counterexample
    return Departure(
        *(d.name, d.switch, d.upstream, d.breaks, d.story),
        states=finding.states,
        normative_states=normative.states,
        normative_passes=normative.passed,
        story=told(tell(found, d.scope, VLLM_0_22_1), d.scope) if found else None,
    )


def broken(found: Departures) -> Iterator[str]:
    """Those that were not found again, or that normative shares."""
    there = {d.name for d in found.departures}
    yield from (
        f"departure {d.name}: it is not recorded" for d in DEPARTURES if d.name not in there
    )
    yield from (d.wrong for d in found.departures if d.wrong)


def falls(found: Departures) -> Iterator[Fall]:
    """The invariants that they break."""
    yield from (Fall(d.breaks, d.name, d.name) for d in found.departures if not d.wrong)


def exhibits(found: Departures) -> Iterator[Exhibit]:
    """The departures, each with its counterexample."""
    said = {s.id: s.sentence for s in catalogue()}
    for d in found.departures:
        breaks = f"{d.breaks}: {said[d.breaks]}" if d.breaks in said else d.breaks
        passes = "passes" if d.normative_passes else "does not pass"
        actions = str(len(d.story.beats)) if d.story else "not found"
        yield Exhibit(
            d.name,
            "departure",
            (d.sentence, d.upstream, d.breaks, actions, passes),
            (
                d.command,
                f"{d.command} --save fault.json; nullblock run --profile vllm-0.22.1 fault.json",
            ),
            Detail(
                f"Departure {d.name}",
                (
                    f"{d.sentence[0].upper()}{d.sentence[1:]}.",
                    f"It breaks {breaks} Upstream: {d.upstream}. The switch is {d.switch}. The "
                    f"normative profile {passes} in this scope ({d.normative_states:,} states), "
                    "with every statement checked.",
                    f"Below is a shortest way, found among {d.states:,} states.",
                ),
                stories=(d.story,) if d.story else (),
            ),
            d.wrong,
        )


SOURCE = Source(
    *("departures", Departures, (*TEXT, *SEARCH, *STORY, "spec/departures.py"), gather),
    broken=broken,
    falls=falls,
    exhibits=exhibits,
)
