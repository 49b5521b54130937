"""Every statement as one small mark, coloured by the strongest thing that is known of it."""

from collections.abc import Iterator

from nullblock.conformance.ledger.groups import GROUPS, family
from nullblock.conformance.ledger.judge import Ledger
from nullblock.conformance.ledger.page.panels import anchor, slug
from nullblock.conformance.ledger.rows import Row
from nullblock.conformance.ledger.words import Word
from nullblock.conformance.page.html import Child, Element, el


def overview(ledger: Ledger) -> Iterator[Child]:
    """A line of marks a family, group by group."""
    for name, (title, _) in GROUPS.items():
        families: dict[str, list[Row]] = {}
        for row in ledger.group(name):
            if any(ledger.of(row)):
                families.setdefault(family(row.id) or title.lower(), []).append(row)
        if families:
            yield el("h3", title)
            lines: list[Child] = []
            for label, rows in families.items():
                marks = (_mark(row, strongest(ledger, row)) for row in rows)
                lines += [el("dt", label), el("dd", *marks)]
            yield el("dl", *lines, class_="glance")


def strongest(ledger: Ledger, row: Row) -> Word:
    """What is refuted, open or stale anywhere comes first; then the strongest word."""
    words = [cell.word for cell in ledger.of(row) if cell is not None]
    wrong = [word for word in words if not word.shown]
    order = list(Word)
    return max(wrong, key=order.index) if wrong else min(words, key=order.index)


def _mark(row: Row, word: Word) -> Element:
    number = row.id.rpartition("-")[2] if family(row.id) else "·"
    return el(
        "a",
        number,
        href=f"#{anchor(row)}",
        class_=f"word dot {slug(word.value)}",
        title=f"{row.id} {word.value}: {row.sentence}",
        aria_label=f"{row.id}, {word.value}",
    )
