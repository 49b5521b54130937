"""Lockstep: random scenarios on the specification, the reference and the real engine side by side.

A long run, read from what `tests/fuzz/record.py` has left.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from nullblock.conformance.ledger.digest import TEXT, digest
from nullblock.conformance.ledger.rows import Cell, Detail, Fact, few
from nullblock.conformance.ledger.sources.base import Record, Source
from nullblock.conformance.ledger.words import Word
from nullblock.spec.catalogue import catalogue

ENGINE = "lockstep"
RESULT = Path(__file__).parents[1] / "results" / "fuzz.json"
FILES = (*TEXT, "reference/*.py", "reference/sched/*.py")
AGAIN = "python tests/fuzz/record.py"


class Fuzzed(Record, frozen=True):
    """What a long run showed."""

    of: str
    """Digest of the text that ran."""
    engines: tuple[str, ...]
    beside: str
    """The real engine."""
    seed: int
    scenarios: int
    steps: int
    exceptions: int
    """Scenarios that an exception ended, the same on every engine."""
    refused: int
    differences: int
    watched: int
    """Scenarios of which it is known what they reached."""
    reached: dict[str, int]


def write(found: Fuzzed, path: Path = RESULT) -> None:
    """Leave a result for the ledger."""
    from nullblock.conformance.files import write_atomically

    write_atomically(path, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")


def present() -> str:
    """The digest of the text that a run started now would be of."""
    return digest(FILES)


def gather() -> Fuzzed:
    """Read the last long run."""
    return msgspec.json.decode(RESULT.read_bytes(), type=Fuzzed)


def broken(found: Fuzzed) -> Iterator[str]:
    """A run with differences."""
    if found.differences:
        yield f"lockstep: {found.differences} scenarios differ from {found.beside}"


def cells(found: Fuzzed) -> Iterator[Cell]:
    """A cell for each rule and each reading: the whole text was compared."""
    wrong = list(broken(found))
    steps = f"{found.steps:,} steps"
    shown = Detail(
        "Lockstep with the real engine",
        (
            f"{found.scenarios:,} random scenarios, {steps}: {', '.join(found.engines)} beside "
            f"{found.beside}, from seed {found.seed}. Every decision and the whole state after "
            f"it were compared: {found.differences} differences. {found.exceptions:,} scenarios "
            f"ended by an exception, of all engines alike; {found.refused:,} asked for what is "
            "out of scope.",
            f"Of {found.watched:,} scenarios it was watched what they reached:",
        ),
        tuple(
            Fact(what, f"{n / max(1, found.watched):.0%}")
            for what, n in sorted(found.reached.items(), key=lambda x: (-x[1], x[0]))
        ),
        "situation: in how many of them",
    )
    for s in catalogue():
        if s.kind in ("rule", "clause") and not s.id.startswith("EVENT-"):
            word = Word.REFUTED if wrong else Word.NOT_REFUTED
            yield Cell(
                *(s.id, ENGINE, word, f"{AGAIN} --seed {found.seed}", shown),
                extent=steps,
                because=few(wrong),
            )


SOURCE = Source(
    *("lockstep", Fuzzed, FILES, gather, cells, broken),
    of=lambda found: found.of,
    again=AGAIN,
)
