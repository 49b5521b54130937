"""The ledger on a terminal."""

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from nullblock.conformance.ledger.groups import GROUPS
from nullblock.conformance.ledger.judge import Ledger
from nullblock.conformance.ledger.rows import Cell
from nullblock.conformance.ledger.summary import sentences
from nullblock.conformance.ledger.words import Word

STYLE = {
    Word.PROVED: "bold green",
    Word.EXHAUSTIVE: "green",
    Word.CONFIRMED: "green",
    Word.NOT_REFUTED: "cyan",
}
"""What is not shown is red."""
WIDTH = 14
"""Of the column of an engine, at least: no word is longer."""


def show(ledger: Ledger, console: Console) -> None:
    """The matrix, then what it comes to."""
    table = Table(title="What is known", title_justify="left", box=SIMPLE_HEAD)
    room = console.width - 15 - len(ledger.engines) * (WIDTH + 3)
    table.add_column("ID", no_wrap=True, min_width=10)
    table.add_column("statement", no_wrap=True, overflow="ellipsis", max_width=max(20, room))
    for e in ledger.engines:
        table.add_column(e.name, min_width=WIDTH)
    for name in GROUPS:
        for row in ledger.group(name):
            cells = ledger.of(row)
            if any(cells):
                table.add_row(row.id, Text(row.sentence), *map(_cell, cells))
        table.add_section()
    console.print(table)
    for sentence in sentences(ledger):
        console.print(Text(sentence))
    for line in ledger.shortfalls:
        console.print(Text(line, style="bold red"))
    if not ledger.shortfalls:
        console.print(
            Text("All that is claimed is shown, of the text as it stands.", style="bold green")
        )


def _cell(cell: Cell | None) -> Text:
    if cell is None:
        return Text("·", style="dim")
    return Text(cell.words, style=STYLE.get(cell.word, "bold red"))
