"""Theorems: what follows from the invariants, or from the rules, for any size."""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from nullblock.conformance.ledger.rows import Cell, Detail, Fact, few
from nullblock.conformance.ledger.sources import proofs, scopes
from nullblock.conformance.ledger.sources.base import Record, Source
from nullblock.conformance.ledger.words import Word
from nullblock.spec.catalogue import everything

COMMAND = 'make pytest T="tests/spec -k theorem"'


class Obligation(Record, frozen=True, array_like=True):
    """One obligation."""

    where: str
    what: str
    policy: str
    status: str
    """proved, refuted or unknown."""
    seconds: float
    counterexample: str | None = None


class Shown(Record, frozen=True):
    """What was found of one theorem."""

    id: str
    engine: str
    rests_on: tuple[str, ...]
    assumes: tuple[str, ...]
    obligations: tuple[Obligation, ...]
    canaries: dict[str, bool]
    """False variants, and whether each was shown, as it must not be."""

    @property
    def unbounded(self) -> bool:
        """Whether it is a proof for any size, and not a search."""
        return self.engine.startswith(proofs.ENGINE)

    def gaps(self) -> Iterator[str]:
        """Why it is not shown."""
        for o in self.obligations:
            if o.status != "proved":
                yield f"{o.where}: {o.what} ({o.policy}) is {o.status}"
        shown = [name for name, shown in self.canaries.items() if shown]
        yield from (f"a false variant is shown too: {name}" for name in shown)
        if not self.obligations:
            yield "no obligation is recorded"


class Theorems(Record, frozen=True):
    """What was found of all of them."""

    solver: str
    theorems: tuple[Shown, ...]

    @property
    def obligations(self) -> int:
        """How many are proved."""
        return sum(o.status == "proved" for t in self.theorems for o in t.obligations)


THEOREMS = "nullblock.spec.theorems"
CODE = "nullblock.conformance.adapters.proofs"
"""Where theorems about the specification, and about the code of the reference, are stated."""


def there() -> bool:
    """Whether any are stated."""
    return find_spec(THEOREMS) is not None


def known() -> dict[str, Any]:
    """All of them, by ID."""
    return {**import_module(THEOREMS).THEOREMS, **import_module(CODE).ENGINE_THEOREMS}


def gather() -> Theorems:
    """Discharge every obligation, and try to show the false variants. A minute."""
    return Theorems(proofs.solver(), tuple(map(_shown, known().values())))


def _shown(t: Any) -> Shown:
    found = tuple(
        Obligation(c.where, c.what, c.policy, c.status, round(c.seconds, 2), c.counterexample)
        for c in t.check()
    )
    canaries = {name: all(c.status == "proved" for c in t.canary(name)) for name in t.canaries}
    return Shown(t.id, t.engine, t.rests_on, t.assumes, found, canaries)


def broken(found: Theorems) -> Iterator[str]:
    """Theorems of which nothing is recorded."""
    recorded = {t.id for t in found.theorems}
    yield from (f"{id}: no proof is recorded" for id in known() if id not in recorded)


def cells(found: Theorems) -> Iterator[Cell]:
    """A cell a theorem."""
    ids = {s.id for s in everything()}
    for t in found.theorems:
        if t.id not in ids:
            continue
        gaps = list(t.gaps())
        refuted = any(o.status == "refuted" for o in t.obligations)
        good = Word.PROVED if t.unbounded else Word.EXHAUSTIVE
        yield Cell(
            t.id,
            proofs.ENGINE if t.unbounded else scopes.ENGINE,
            (Word.REFUTED if refuted else Word.OPEN) if gaps else good,
            COMMAND,
            _detail(t),
            extent="" if t.unbounded else t.engine.partition(", in ")[2] or t.engine,
            because=few(gaps),
            assumes=t.unbounded,
        )


NOTICEABLE = 0.005
"""Seconds."""
HEADING = "obligation: what came of it, and seconds where they are noticeable"


def _detail(t: Shown) -> Detail:
    says = [f"Shown by {t.engine}."]
    if t.rests_on:
        says.append(f"Its proof rests on {', '.join(t.rests_on)}.")
    if t.assumes:
        says.append(f"Taken for granted: {'; '.join(t.assumes)}.")
    refused = [name for name, shown in t.canaries.items() if not shown]
    says += [f"The same machinery must not show this, and does not: {name}." for name in refused]
    says += [o.counterexample for o in t.obligations if o.counterexample]
    facts = tuple(
        Fact(
            f"{o.where}: {o.what} ({o.policy})".removeprefix(f"{t.id}: "),
            o.status + (f", {o.seconds:.2f} s" if o.seconds >= NOTICEABLE else ""),
            o.status == "proved",
        )
        for o in t.obligations
    )
    return Detail(f"{t.id}: the proof", tuple(says), facts, HEADING)


FILES = (*proofs.SOURCE.files, "spec/theorems/*.py", "reference/free_block_queue.py")
SOURCE = Source("theorems", Theorems, FILES, gather, cells, broken)
