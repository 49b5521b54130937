"""What opens beside the matrix: the proof, the search or the counterexample behind a cell."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from nullblock.conformance.ledger.page import story
from nullblock.conformance.ledger.rows import Cell, Detail, Exhibit, Fact, Row
from nullblock.conformance.page.html import Child, Element, el


class Panels:
    """Every panel of a page, each written once."""

    def __init__(self) -> None:
        self.names: dict[Detail, str] = {}
        self.drawn: list[Element] = []

    def of(self, cell: Cell, row: Row) -> str:
        """The name of the panel of a cell; it is drawn if it is new. What several cells rest on
        is one panel.
        """
        if cell.detail not in self.names:
            name = slug(f"{cell.engine}-{cell.row}")
            self.names[cell.detail] = name
            # A title with the ID is about this row alone.
            about = row.sentence if cell.row in cell.detail.title else ""
            self.drawn.append(panel(name, cell.detail.title, *_cell(cell, about)))
        return self.names[cell.detail]

    def exhibit(self, x: Exhibit) -> str:
        """The panel of an exhibit."""
        name = exhibit(x.name)
        self.drawn.append(panel(name, x.detail.title, *_exhibit(x)))
        return name


def exhibit(name: str) -> str:
    """The name of the panel of an exhibit."""
    return slug(f"exhibit-{name}")


def anchor(row: Row) -> str:
    """The name of the line of a statement."""
    return f"row-{re.sub(r'[^A-Za-z0-9_-]+', '-', row.id)}"


def slug(text: str) -> str:
    """A name for an element."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def panel(name: str, title: str, *content: Child) -> Element:
    """One panel. It is seen while the address ends with its name: no script is needed."""
    return el(
        "section",
        el("p", el("a", "Close", href="#closed"), class_="close"),
        el("h3", title, id=f"{name}-title"),
        *content,
        id=name,
        class_="panel",
        tabindex="-1",
        aria_labelledby=f"{name}-title",
    )


def command(text: str) -> Element:
    """A command line, selected as a whole with one click."""
    return el("p", "Again: ", el("code", text, class_="run"))


def _cell(cell: Cell, about: str) -> Iterator[Child]:
    if about:
        yield el("p", about, class_="sentence")
    yield el("p", el("span", cell.words, class_=f"word {slug(cell.word.value)}"))
    if cell.because:
        yield el("p", cell.because, class_="why")
    yield command(cell.command)
    yield from _detail(cell.detail)


def _detail(detail: Detail) -> Iterator[Child]:
    yield from (
        el("p", text) if "\n" not in text else el("pre", text) for text in detail.says if text
    )
    yield from _facts(detail)
    for one in detail.stories:
        yield from story.draw(one)


def _facts(detail: Detail) -> Iterator[Child]:
    """The facts, and at their end, in one line, those of which there is nothing bad to be said and
    that have the value of most. There are many thousands of them on a page.
    """
    if not detail.facts:
        return
    yield el("h4", detail.of)
    ((usual, many),) = Counter(fact.value for fact in detail.facts).most_common(1)
    plain = [f.name for f in detail.facts if f.good and f.value == usual]
    apart = [f for f in detail.facts if not f.good or f.value != usual]
    if many == 1 or not usual:
        plain, apart = [], list(detail.facts)
    if apart:
        yield el("ul", *map(_fact, apart), class_="facts")
    if plain:
        yield el("p", in_a_row(plain), ": ", el("b", usual), " each" if len(plain) > 1 else None)


def in_a_row(names: Iterable[str]) -> str:
    """Names one after the other. What some begin with, up to a colon, is said once, and so is what
    stands behind several such beginnings.
    """
    behind: dict[str, list[str]] = {}
    for name in names:
        first, _, rest = name.rpartition(": ")
        behind.setdefault(first, []).append(rest)
    alike: dict[tuple[str, ...], list[str]] = {}
    for first, rests in behind.items():
        alike.setdefault((first and ": ", *rests), []).append(first)
    rows = (", ".join(some) + colon + ", ".join(rests) for (colon, *rests), some in alike.items())
    return "; ".join(rows)


def _fact(fact: Fact) -> Element:
    value = [el("b", fact.value)] if fact.value else []
    return el("li", fact.name, *value, class_=None if fact.good else "bad")


def _exhibit(x: Exhibit) -> Iterator[Child]:
    if x.wrong:
        yield el("p", x.wrong, class_="why")
    yield from map(command, x.commands)
    yield from _detail(x.detail)
