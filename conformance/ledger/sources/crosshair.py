"""CrossHair: helpers whose promises are followed over all paths, and formulations that agree."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from nullblock.conformance.ledger.digest import TEXT
from nullblock.conformance.ledger.rows import Cell, Detail, Row
from nullblock.conformance.ledger.sources.base import Record, Source
from nullblock.conformance.ledger.words import Word, counted

if TYPE_CHECKING:
    from nullblock.conformance.confirm import Subject

ENGINE = "CrossHair"
TESTS = "tests/crosshair/test_confirm.py"
WORDS = {"confirmed over all paths": Word.CONFIRMED, "not refuted": Word.NOT_REFUTED}
"""Anything else that is said is against it, or of nothing."""


class Followed(Record, frozen=True):
    """What was found of one function, or of two that ought to agree."""

    name: str
    claim: str
    words: str
    paths: int
    counterexample: str = ""


class Helpers(Record, frozen=True):
    """What was found of all of them."""

    helpers: tuple[Followed, ...]
    canaries: tuple[Followed, ...]
    """Wrong ones, each of which has to be refuted."""


def gather() -> Helpers:
    """Follow them all. A minute. Raises ValueError where CrossHair is not installed."""
    from importlib.util import find_spec

    from nullblock.conformance.confirm import canaries, subjects

    if find_spec("crosshair") is None:
        raise ValueError("CrossHair is not installed: make .venv/dev installs it")
    return Helpers(tuple(map(followed, subjects())), tuple(map(followed, canaries())))


def followed(subject: "Subject") -> Followed:
    """What is found of one."""
    from nullblock.conformance.confirm import confirm

    o = confirm(subject)
    return Followed(o.subject, o.claim, o.words, o.paths, o.counterexample)


def broken(found: Helpers) -> Iterator[str]:
    """Helpers that were not followed, and wrong ones that were not refuted."""
    from nullblock.conformance.confirm import canaries, subjects

    there = {h.name for h in (*found.helpers, *found.canaries)}
    lost = [s.name for s in (*subjects(), *canaries()) if s.name not in there]
    yield from (f"CrossHair: {name} is not recorded" for name in lost)
    yield from (
        f"CrossHair: the wrong helper {c.name} is not refuted"
        for c in found.canaries
        if c.words != "refuted"
    )


def rows(found: Helpers) -> Iterator[Row]:
    """A row each."""
    place = "conformance/adapters/arithmetic.py, arithmetic_pairs.py"
    yield from (Row(h.name, "helper", h.claim, place) for h in found.helpers)


def cells(found: Helpers) -> Iterator[Cell]:
    """A cell each."""
    for h in found.helpers:
        word = WORDS.get(h.words, Word.EMPTY if h.words == "vacuous" else Word.REFUTED)
        says = {
            Word.CONFIRMED: f"{h.paths:,} paths were followed, and none is left: numbers stood "
            "for all numbers of their kind.",
            Word.NOT_REFUTED: f"{h.paths:,} paths were followed in the time there was. There are "
            "more: sentences or fractions are made of the numbers.",
        }.get(word, f"{h.words}: {h.counterexample}")
        canaries = (
            f"A wrong one has to be refuted, and is, {c.counterexample}: {c.claim}"
            for c in found.canaries
            if c.words == "refuted"
        )
        two = " = " in h.name
        agree = "The two return, or raise, the same for all arguments." if two else ""
        yield Cell(
            *(h.name, ENGINE, word, f'make pytest T="{TESTS} -k {h.name.split()[0]}"'),
            Detail(f"{h.name}: its paths", (says, agree, *canaries)),
            extent=counted(h.paths, "path"),
            because="" if word.shown else f"{h.words}: {h.counterexample}",
        )


FILES = (
    *(*TEXT, "reference/*.py", "reference/sched/*.py", "conformance/confirm.py"),
    *("conformance/adapters/arithmetic.py", "conformance/adapters/arithmetic_pairs.py"),
)
SOURCE = Source(
    *("crosshair", Helpers, FILES, gather, cells, broken),
    rows=rows,
)
