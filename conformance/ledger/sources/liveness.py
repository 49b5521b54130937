"""Liveness: cycles on which somebody is never served, looked for in the graphs of many scopes; and
the conditions without which there is one.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nullblock.conformance.ledger.digest import TEXT
from nullblock.conformance.ledger.rows import Cell, Detail, Exhibit, Fact, Fall, few
from nullblock.conformance.ledger.sources.base import Record, Source
from nullblock.conformance.ledger.sources.scopes import ENGINE, SEARCH, STORY
from nullblock.conformance.ledger.told import Told, told
from nullblock.conformance.ledger.words import Word, counted
from nullblock.spec.liveness.properties import PROPERTIES

if TYPE_CHECKING:
    from nullblock.spec.explorer.model import Scope
    from nullblock.spec.liveness.check import Liveness, Starvation
    from nullblock.spec.liveness.preconditions import Precondition
    from nullblock.spec.profiles import Semantics

COMMAND = "nullblock explore --liveness"


class Cycles(Record, frozen=True):
    """What was found for one statement in one scope."""

    states: int
    """In which a cycle that breaks it could lie, for one request or another."""
    story: Told | None = None
    """A way into a cycle and round it."""
    fairness: str = ""
    """Why the cycle may go on for ever."""


class Searched(Record, frozen=True):
    """What was found in one scope."""

    name: str
    states: int
    complete: bool
    missing: tuple[str, ...]
    """What it promised and did not reach."""
    found: dict[str, Cycles]
    """By statement."""

    @property
    def wrong(self) -> str:
        """Why the scope shows nothing; empty if it does."""
        if not self.complete:
            return f"{self.name} was not searched to the end"
        return f"{self.name} never reached {', '.join(self.missing)}" if self.missing else ""


class Condition(Record, frozen=True):
    """A condition of progress, and what happens without it alone."""

    name: str
    sentence: str
    upheld: str
    """Who sees to it."""
    found: dict[str, Cycles]
    """The statements that fall without it."""

    @property
    def command(self) -> str:
        """Shows it again."""
        return f"{COMMAND} --preconditions {self.name}"


class Progress(Record, frozen=True):
    """All that was found."""

    assumed: dict[str, str]
    """What is taken for granted of what goes on for ever."""
    scopes: tuple[Searched, ...]
    conditions: tuple[Condition, ...]


def gather() -> Progress:
    """Search every scope, then without each condition. Two minutes."""
    from nullblock.conformance.liveness import SCOPES
    from nullblock.spec.liveness.fairness import SENTENCE
    from nullblock.spec.liveness.preconditions import PRECONDITIONS

    return Progress(
        {a.value: sentence for a, sentence in SENTENCE.items()},
        tuple(map(searched, SCOPES.values())),
        tuple(map(condition, PRECONDITIONS)),
    )


def searched(scope: "Scope") -> Searched:
    """The record of a scope in the normative profile."""
    from nullblock.spec.liveness.check import check
    from nullblock.spec.profiles import NORMATIVE

    r = check(scope)
    found = dict(_cycles(r, scope, NORMATIVE))
    return Searched(r.scope, r.states, r.complete, tuple(sorted(r.missing)), found)


def condition(p: "Precondition") -> Condition:
    """The record of a condition: what falls where it alone is violated."""
    from nullblock.spec.liveness.check import check

    setting = p.violated
    r = check(setting.scope, setting.semantics, assumed=setting.assumed)
    found = dict(_cycles(r, setting.scope, setting.semantics))
    fallen = {id: c for id, c in found.items() if c.story is not None}
    return Condition(p.name, p.sentence, p.upheld, fallen)


def _cycles(r: "Liveness", scope: "Scope", semantics: "Semantics") -> Iterator[tuple[str, Cycles]]:
    for f in r.findings:
        story = _told(f.lasso, scope, semantics) if f.lasso else None
        yield f.id, Cycles(f.states, story, str(f.lasso.account) if f.lasso else "")


def _told(lasso: "Starvation", scope: "Scope", semantics: "Semantics") -> Told:
    from nullblock.spec.liveness.check import story

    return told(story(lasso, scope, semantics), scope)


def cells(found: Progress) -> Iterator[Cell]:
    """A cell a statement about what happens in the end."""
    wrong = [s.wrong for s in found.scopes if s.wrong]
    facts = tuple(Fact(s.name, f"{s.states:,} states", not s.wrong) for s in found.scopes)
    says = (
        "A path that goes on for ever goes round some cycle of the graph of states. In every "
        "scope each cycle on which somebody is never served, and which a fair engine could take, "
        "was looked for, and there is none.",
        f"Assumed of what goes on for ever: {'; '.join(found.assumed.values())}.",
    )
    shared = Detail("Every cycle of the scopes", says, facts, "scope")
    for id in PROPERTIES:
        bad = [c for x in found.scopes if (c := x.found.get(id)) and c.story]
        lost = [x.name for x in found.scopes if id not in x.found]
        why = wrong + [f"no search of {name} for it is recorded" for name in lost]
        if bad:
            told = tuple(c.story for c in bad if c.story)
            shown = Detail(f"{id}: a lasso", tuple(c.fairness for c in bad), stories=told)
            yield Cell(*(id, ENGINE, Word.REFUTED, COMMAND, shown), because="it has a lasso")
        else:
            yield Cell(
                *(id, ENGINE, Word.EMPTY if why else Word.EXHAUSTIVE, COMMAND, shared),
                extent=counted(len(found.scopes), "scope"),
                because=few(why),
            )


def broken(found: Progress) -> Iterator[str]:
    """Conditions without which nothing happens, and scopes that were not searched."""
    from nullblock.conformance.liveness import CONDITIONS, SCOPES

    there = {s.name for s in found.scopes}
    yield from (
        f"liveness: no search of {name} is recorded" for name in SCOPES if name not in there
    )
    known = {c.name for c in found.conditions}
    yield from (f"condition {name} is not recorded" for name in CONDITIONS if name not in known)
    yield from (
        f"condition {c.name}: nobody starves without it" for c in found.conditions if not c.found
    )


def falls(found: Progress) -> Iterator[Fall]:
    """What falls without a condition."""
    yield from (Fall(id, f"no {c.name}", c.name) for c in found.conditions for id in c.found)


def exhibits(found: Progress) -> Iterator[Exhibit]:
    """The conditions, each with what happens without it."""
    for c in found.conditions:
        shortest = min(c.found.values(), key=_length, default=None)
        stories = (shortest.story,) if shortest and shortest.story else ()
        yield Exhibit(
            c.name,
            "condition",
            (c.sentence, c.upheld, ", ".join(c.found) or "nothing"),
            (c.command,),
            Detail(
                f"Progress takes this: {c.name}",
                (
                    f"{c.sentence[0].upper()}{c.sentence[1:]}. Who sees to it: {c.upheld}.",
                    f"In a scope that violates this and no other condition, {', '.join(c.found)} "
                    "fall: somebody is never served.",
                    shortest.fairness if shortest else "",
                ),
                stories=stories,
            ),
        )


def _length(c: Cycles) -> int:
    return len(c.story.beats) if c.story else 0


FILES = (
    *(*TEXT, *SEARCH, *STORY, "spec/liveness/*.py"),
    *("spec/departures.py", "conformance/liveness.py"),
)
SOURCE = Source(
    *("liveness", Progress, FILES, gather, cells, broken),
    falls=falls,
    exhibits=exhibits,
)
