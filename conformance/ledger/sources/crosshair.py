"""CrossHair: helpers whose promises were followed over all paths. A long run, read from what it
left; until there is one, the ledger has no such column.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from nullblock.conformance.files import write_atomically
from nullblock.conformance.ledger.digest import TEXT, digest
from nullblock.conformance.ledger.rows import Cell, Detail, Row
from nullblock.conformance.ledger.sources.base import Record, Source
from nullblock.conformance.ledger.words import Word

ENGINE = "CrossHair"
RESULT = Path(__file__).parents[1] / "results" / "crosshair.json"
FILES = (*TEXT, "reference/*.py", "reference/sched/*.py")


class Followed(Record, frozen=True):
    """What was found of one function."""

    name: str
    """Of the row: short, and of no other function."""
    sentence: str
    """What the function promises."""
    place: str
    """Where it is defined, or where what compares it is."""
    status: str
    """confirmed (over all paths), unknown (not refuted), or refuted."""
    seconds: float
    command: str
    """Follows it again."""
    counterexample: str = ""


class Helpers(Record, frozen=True):
    """What was found of all of them."""

    of: str
    """Digest of the text that was followed."""
    helpers: tuple[Followed, ...]


def present() -> str:
    """The digest of the text that a run started now would be of."""
    return digest(FILES)


def write(found: Helpers, path: Path = RESULT) -> None:
    """Leave a result for the ledger."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")


def gather() -> Helpers:
    """Read the last long run."""
    return msgspec.json.decode(RESULT.read_bytes(), type=Helpers)


def rows(found: Helpers) -> Iterator[Row]:
    """A row a helper."""
    yield from (Row(h.name, "helper", h.sentence, h.place) for h in found.helpers)


def cells(found: Helpers) -> Iterator[Cell]:
    """A cell a helper: what is only not refuted is not claimed."""
    words = {"confirmed": Word.CONFIRMED, "unknown": Word.NOT_REFUTED}
    for h in found.helpers:
        word = words.get(h.status, Word.REFUTED)
        says = (
            "Every path was followed, with inputs that stand for all inputs of their kind."
            if word == Word.CONFIRMED
            else "Not every path was followed to its end in the time there was.",
            h.counterexample,
        )
        yield Cell(
            *(h.name, ENGINE, word, h.command, Detail(f"{h.name}: its paths", says)),
            extent=f"{h.seconds:.0f} s of search",
            because=h.counterexample if word == Word.REFUTED else "",
        )


SOURCE = Source("crosshair", Helpers, FILES, gather, cells, rows=rows, of=lambda found: found.of)
