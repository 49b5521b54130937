"""The explorer: every state of the standard scopes, and every statement in each of them."""

from collections.abc import Iterator

from nullblock.conformance.ledger.digest import TEXT
from nullblock.conformance.ledger.rows import Cell, Detail, Fact, few
from nullblock.conformance.ledger.sources.base import Record, Source, note
from nullblock.conformance.ledger.told import Told, told
from nullblock.conformance.ledger.words import Word, counted
from nullblock.spec.catalogue import catalogue
from nullblock.spec.evidence import RELEASED
from nullblock.spec.explorer.liveness import SERVED
from nullblock.spec.explorer.model import Scope
from nullblock.spec.explorer.result import Result
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.explorer.story import tell
from nullblock.spec.explorer.transitions import CLAIMS, TRANSITIONS
from nullblock.spec.invariants import INVARIANTS
from nullblock.spec.profiles import NORMATIVE, Semantics

ENGINE = "explorer"
COMMAND = "nullblock explore"
_SEARCH = "actions identity liveness model reads result scopes search transitions witnesses"
SEARCH = tuple(f"spec/explorer/{name}.py" for name in _SEARCH.split())
"""What a search consists of; how a counterexample is told is another matter."""
STORY = tuple(f"spec/explorer/{name}.py" for name in ("story", "narrator", "frame"))
FILES = (*TEXT, *SEARCH, "spec/compiled/*")


class Searched(Record, frozen=True):
    """What the search of one scope found."""

    name: str
    states: int
    transitions: int
    depth: int
    complete: bool
    promised: tuple[str, ...]
    """What the scope has to reach, or its pass counts for nothing."""
    reached: tuple[str, ...]
    fired: tuple[str, ...]
    """IDs of the rules that fired."""
    story: Told | None = None

    @property
    def missing(self) -> list[str]:
        """What was promised and not reached."""
        return [w for w in self.promised if w not in self.reached]

    @property
    def wrong(self) -> str:
        """Why the scope shows nothing; empty if it does."""
        if self.story is not None:
            return f"{self.name}: {self.story.breaks} is broken"
        if not self.complete:
            return f"{self.name} was not searched to the end"
        return f"{self.name} never reached {', '.join(self.missing)}" if self.missing else ""


class Scopes(Record, frozen=True):
    """What the search of every standard scope found."""

    statements: tuple[str, ...]
    """IDs of what was checked in every state."""
    scopes: tuple[Searched, ...]

    @property
    def states(self) -> int:
        """How many states there are."""
        return sum(s.states for s in self.scopes)


def search(scope: Scope, semantics: Semantics = NORMATIVE) -> Result:
    """Search a scope, by the text compiled if that can be done; if not, a note says why."""
    from nullblock.conformance.exploration import Searcher

    return Searcher(note)(scope, semantics)


def searched(scope: Scope, result: Result) -> Searched:
    """The record of a result."""
    found = result.counterexample
    return Searched(
        scope.name,
        result.states,
        result.transitions,
        result.depth,
        result.complete,
        tuple(sorted(scope.witnesses)),
        tuple(sorted(result.witnesses)),
        tuple(sorted(result.fired)),
        told(tell(found, scope, NORMATIVE), scope) if found else None,
    )


def gather() -> Scopes:
    """Search every standard scope: a minute or two with a C compiler, hours without."""
    from nullblock.conformance.exploration import Searcher

    every = (*INVARIANTS, *CLAIMS, *TRANSITIONS, SERVED)
    search = Searcher(note)
    return Scopes(every, tuple(searched(s, search(s, NORMATIVE)) for s in STANDARD.values()))


def cells(found: Scopes) -> Iterator[Cell]:
    """A cell an invariant, and a cell a rule that fires."""
    wrong = [s.wrong for s in found.scopes if s.wrong]
    lost = [name for name in STANDARD if name not in {s.name for s in found.scopes}]
    wrong += [f"no search of {name} is recorded" for name in lost]
    shared = detail(found)
    for s in catalogue():
        if s.kind == "invariant":
            stories = tuple(f.story for f in found.scopes if f.story and f.story.breaks == s.id)
            if stories:
                shown = Detail(f"{s.id}: a counterexample", stories=stories)
                yield Cell(
                    *(s.id, ENGINE, Word.REFUTED, COMMAND, shown), because=stories[0].sentence
                )
            elif s.id in found.statements:
                yield Cell(
                    *(s.id, ENGINE, Word.EMPTY if wrong else Word.EXHAUSTIVE, COMMAND, shared),
                    extent=counted(len(found.scopes), "scope"),
                    because=few(wrong),
                )
        elif s.kind == "rule" and s.id not in RELEASED:
            where = [f for f in found.scopes if s.id in f.fired]
            yield Cell(
                *(s.id, ENGINE, Word.EXHAUSTIVE if where and not wrong else Word.EMPTY, COMMAND),
                _fired(s.id, where),
                extent=counted(len(where), "scope"),
                because=few(wrong) or ("" if where else "it fires in no scope"),
            )


def detail(found: Scopes) -> Detail:
    """What was searched."""
    return Detail(
        "Every state of the standard scopes",
        (
            f"{found.states:,} states in all. Each scope is a pool of a few blocks and two to "
            "four requests that may arrive any number of times; everything that can happen next "
            "was done in every state, until no new state turned up.",
            "In every state each statement was checked, and wherever a rule fired, its guard. A "
            "scope has to reach the situations named with it, or its pass counts for nothing.",
        ),
        tuple(Fact(s.name, _sizes(s), not s.wrong) for s in found.scopes),
        "scope: states, transitions; situations that it reached, as it has to",
    )


def _sizes(s: Searched) -> str:
    reached = ", ".join(s.promised)
    sizes = f"{s.states:,} states, {s.transitions:,} transitions"
    return f"{sizes}; {reached}" + (f". {s.wrong}" if s.wrong else "")


def _fired(id: str, where: list[Searched]) -> Detail:
    return Detail(
        f"{id}: where it fires",
        (
            "In each of these scopes the rule fired, its guard held wherever the machine fired "
            "it, and every state that it led to satisfied every statement.",
        ),
        tuple(Fact(s.name, f"{s.states:,} states") for s in where),
        "scope",
    )


SOURCE = Source("scopes", Scopes, FILES, gather, cells)
