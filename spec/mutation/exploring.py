"""A defect before the explorer: scope after scope, and the shortest counterexample there is in the
first that notices it.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from nullblock.spec.compiled import build
from nullblock.spec.departures import DEPARTURES
from nullblock.spec.explorer.scopes import STANDARD
from nullblock.spec.explorer.search import explore
from nullblock.spec.explorer.story import tell
from nullblock.spec.mutation.compiled import (
    GAVE_UP,
    LIMIT,
    SECONDS,
    WITNESS,
    Bounds,
    Compiled,
    Found,
    programs,
)
from nullblock.spec.mutation.forks import Json, with_defect
from nullblock.spec.mutation.generate import Defect, Mutant, mutants, numbers
from nullblock.spec.profiles import NORMATIVE

FEW = 3_000
"""States for the readable form, where the compiled one has no room."""
FIRST = (
    *("rules", "rules-ahead", "rules-drafts-in-step", "rules-drafts"),
    *("rules-priority", "rules-pauses", "rules-waiting", "rules-window"),
    *("rules-hybrid", "rules-items"),
)
"""Where the invariants are checked after every rule."""


LATER_SCOPES = ("rules", "core", "nocache")
LATER = replace(NORMATIVE, freed_unhashed_first=True)
"""A switch that both profiles leave alone, so that no other scope sees what it does."""


@cache
def scopes() -> dict[str, Bounds]:
    """The standard scopes, a few under later semantics, and those of the departures, in the order
    in which they are searched.
    """
    first = [Bounds(name, STANDARD[name]) for name in dict.fromkeys((*FIRST, *STANDARD))]
    later = [Bounds(f"{name}-later", STANDARD[name], LATER) for name in LATER_SCOPES]
    departing = [Bounds(d.scope.name, d.scope) for d in DEPARTURES]
    return {b.name: b for b in (*first, *later, *departing)}


class Explorer:
    """Scopes with some mutants in them, and what the specification itself does there.

    They are compiled when they are first needed, those that notice most before the others, and
    searched from the smallest on.
    """

    def __init__(
        self, some: Iterable[Mutant], names: Sequence[str], folder: Path, level: str
    ) -> None:
        self.some, self.folder, self.level = tuple(some), folder, level
        self.batches = [[n for n in names if n in FIRST], [n for n in names if n not in FIRST]]
        self.ready: list[Compiled] = []
        self.clean: dict[str, Found] = {}
        self.others: dict[str, frozenset[int]] = {}
        """The mutants that are another thing than the text in some place that the specification
        itself meets in a scope. Of those of statements, which are judged in one search, it is
        enough that they are met.
        """

    def scopes(self) -> Iterator[Compiled]:
        """The scopes, one by one."""
        yield from self.ready
        while self.batches:
            batch = [scopes()[name] for name in self.batches.pop(0)]
            compared = [numbers()[m.id] for m in self.some if not m.is_statement]
            made = programs(self.some, batch, self.folder, self.level)
            for c in made:
                self.clean[c.name] = c(0)
                assert self.clean[c.name].complete, f"the specification does not pass {c.name}"
                self.others[c.name] = c.met(compared)
            made.sort(key=lambda c: self.clean[c.name].states)
            self.ready += made
            yield from made

    def prepare(self) -> None:
        """Compile all scopes that are left."""
        for _ in self.scopes():
            pass

    def judge(self, defect: Defect) -> Json:
        """Which scope notices a defect first, by what, and its shortest counterexample there.

        `same`: where no scope notices it, whether each has the states and transitions of the
        specification; `unlike`: those that have not. A scope in which a mutant never differs
        from the text goes as the specification goes, and is not searched.
        """
        number, unlike = numbers().get(defect.id), []
        for c in self.scopes():
            if number and number not in self.others[c.name]:
                continue
            found = c(number) if number else readable(defect, c.name, LIMIT)
            if not found.states:
                found = readable(defect, c.name, FEW)
            if found.breaks:
                return noticed(c.name, found)
            if _graph(found) != _graph(self.clean[c.name]):
                unlike.append(c.name)
        return {"same": not unlike} | ({"unlike": unlike} if unlike else {})

    def together(self, mutant: Mutant, statement: Mutant, scope: str) -> str:
        """What notices a mutant where a statement that it breaks says less than it did; empty if
        nothing does. The scope that notices it without is asked first.
        """
        one, other = numbers()[mutant.id], numbers()[statement.id]
        asked = self.concerned(mutant, scope)
        return next((f.breaks for c in asked if (f := c(one, other)).breaks), "")

    def concerned(self, mutant: Mutant, first: str) -> list[Compiled]:
        """The scopes in which a mutant differs from the text, one of them before the others."""
        some = [c for c in self.scopes() if numbers()[mutant.id] in self.others[c.name]]
        return sorted(some, key=lambda c: c.name != first)


def noticed(scope: str, f: Found) -> Json:
    """What is kept of a search that found something."""
    counts = {"states": f.states, "actions": f.actions, "seconds": round(f.seconds, 4)}
    return {"by": f.breaks, "scope": scope, **counts}


def _graph(f: Found) -> tuple[int, int, bool]:
    return f.states, f.transitions, f.complete


def readable(defect: Defect, name: str, limit: int) -> Found:
    """What the readable form says: of defects that are in no compiled text, and where the compiled
    form has no room for what a mutant does.
    """

    def work() -> Json:
        began = time.process_time()
        bounds = scopes()[name]
        result = explore(bounds.scope, bounds.semantics, limit=limit)
        found, missing = result.counterexample, bool(result.missing)
        breaks = found.breaks if found else WITNESS if missing else ""
        actions = len(found.actions) if found else 0
        seconds = time.process_time() - began
        counts = result.states, result.transitions, seconds, actions, result.complete
        return {"found": [breaks, *counts]}

    said = with_defect(defect, work, SECONDS)
    return Found(*said["found"]) if "found" in said else GAVE_UP


def told(defect: Defect, scope: str, breaks: str) -> str:
    """A shortest counterexample in a scope as a story; empty where the readable form has none."""

    def work() -> Json:
        bounds = scopes()[scope]
        found = explore(bounds.scope, bounds.semantics, limit=LIMIT).counterexample
        if found is None or found.breaks != breaks:
            return {}
        return {"story": str(tell(found, bounds.scope, bounds.semantics))}

    return str(with_defect(defect, work, SECONDS).get("story", ""))


@contextmanager
def explorer(
    some: Iterable[Mutant] | None = None,
    names: Iterable[str] | None = None,
    level: str = "-O1",
) -> Iterator[Explorer]:
    """Scopes, by default all of them, with some mutants in them, by default all: those are kept
    for the next time. `level`: how much the compiler optimizes; "-O0" takes a third of the time,
    and is for few searches. Raises build.NoCompiler.
    """
    with ExitStack() as stack:
        kept = build.cache() if some is None else None
        if kept is None:
            kept = Path(stack.enter_context(TemporaryDirectory(prefix="mutants-")))
        folder = kept / "mutants"
        folder.mkdir(exist_ok=True)
        yield Explorer(mutants() if some is None else some, list(names or scopes()), folder, level)
