"""The matrices: statements × engines, mutants × checkers, and the tables of exhibits."""

from collections.abc import Iterator, Sequence

from nullblock.conformance.ledger.groups import GROUPS, Table, family
from nullblock.conformance.ledger.judge import Ledger
from nullblock.conformance.ledger.page.panels import Panels, anchor, exhibit, slug
from nullblock.conformance.ledger.rows import Cell, Engine, Exhibit, Fall, Row
from nullblock.conformance.ledger.sources.mutants import Mutants
from nullblock.conformance.ledger.sources.systematic import Systematic
from nullblock.conformance.page.html import Child, Element, el, table

SHORT = {"Z3": "for any size", "CrossHair": ""}
"""What stands below the word where there is no extent."""


def matrices(ledger: Ledger, panels: Panels) -> Iterator[Child]:
    """A table a group of statements."""
    for name, (title, about) in GROUPS.items():
        rows = ledger.group(name)
        engines = [e for e in ledger.engines if any((r.id, e.name) in ledger.cells for r in rows)]
        if engines:
            yield el("h3", title, id=f"group-{name}")
            yield _matrix(ledger, rows, engines, about, panels)


def _matrix(
    ledger: Ledger, rows: Sequence[Row], engines: Sequence[Engine], about: str, panels: Panels
) -> Element:
    falling = any(ledger.falling(r) for r in rows)
    head = ["", "statement", *(e.name for e in engines), *(["falls under"] if falling else [])]
    body: list[Child] = []
    last = ""
    for row in rows:
        if (title := family(row.id)) != last:
            wide = el("th", title, colspan=len(head), scope="rowgroup")
            body.append(el("tr", wide, class_="family"))
            last = title
        cells = [_cell(ledger.cells.get((row.id, e.name)), row, panels) for e in engines]
        if falling:
            cells.append(el("td", *_falls(ledger.falling(row))))
        id = el("th", row.id, scope="row", id=anchor(row))
        body.append(el("tr", id, el("td", row.sentence, title=row.place), *cells))
    return el(
        "div",
        el(
            "table",
            el("caption", about),
            el("thead", el("tr", *(el("th", h, scope="col") for h in head))),
            el("tbody", *body),
            class_="matrix",
        ),
        class_="scroll",
    )


def _cell(cell: Cell | None, row: Row, panels: Panels) -> Element:
    if cell is None:
        return el("td", el("span", "says nothing", class_="none"))
    extent = cell.words.removeprefix(cell.word.value).strip() or SHORT.get(cell.engine, "")
    return el(
        "td",
        el(
            "a",
            el("b", cell.word.value),
            el("small", extent) if extent and cell.word.shown else None,
            href=f"#{panels.of(cell, row)}",
            class_=f"word {slug(cell.word.value)}",
        ),
    )


def _falls(found: Sequence[Fall]) -> list[Child]:
    shown: list[Child] = []
    for fall in found:
        shown += [_link(exhibit(fall.exhibit), fall.by) if fall.exhibit else fall.by, " "]
    return shown


def exhibits(found: Sequence[Exhibit], about: Table, panels: Panels) -> Element:
    """A table of what has a counterexample of its own."""
    rows = (
        el(
            "tr",
            el("th", _link(panels.exhibit(x), x.name), scope="row"),
            *(el("td", cell) for cell in x.cells),
            class_="wrong" if x.wrong else None,
        )
        for x in found
    )
    return el(
        "div",
        el(
            "table",
            el("caption", f"{about.about} Each opens, action by action."),
            el("thead", el("tr", *(el("th", h, scope="col") for h in about.head))),
            el("tbody", *rows),
        ),
        class_="scroll",
    )


def _link(name: str, text: str) -> Element:
    return el("a", text, href=f"#{name}")


def mutants(found: Mutants) -> Element:
    """Who notices which planted defect."""
    head = [el("th", "mutant", scope="col"), el("th", "the defect", scope="col")]
    names = (c.removeprefix("explorer ") for c in found.checkers)
    head += [el("th", el("span", c), scope="col", class_="upright") for c in names]
    rows = (
        el(
            "tr",
            el("th", m.name, scope="row", title=m.command),
            el("td", f"{m.defect} ({m.rule})"),
            *(
                el("td", "✓", class_="yes") if c in m.noticed else el("td", "·")
                for c in found.checkers
            ),
        )
        for m in found.mutants
    )
    caption = "✓ it objects, · it does not. Most columns are scopes of the explorer."
    return el(
        "div",
        el(
            "table",
            el("caption", caption),
            el("thead", el("tr", *head)),
            el("tbody", *rows),
            class_="ticks",
        ),
        class_="scroll",
    )


def systematic(found: Systematic) -> Element:
    """How many of the generated mutants each engine notices, kind by kind."""
    rows = [
        [k.name, str(k.mutants), *(str(k.rates[e]) for e in found.engines), str(k.noticed)]
        for k in found.kinds
    ]
    whole = [str(found.rate(e)) for e in found.engines]
    rows.append(["all", str(found.mutants), *whole, str(found.noticed)])
    head = ["kind", "mutants", *found.engines, "some engine"]
    return el("div", table(head, [list(r) for r in rows], "Noticed, of those asked about"))


def survivors(found: Systematic) -> Iterator[Child]:
    """Those that nobody notices, by the reason."""
    for s in found.survivors:
        why = f"{s.verdict}: {s.why}" if s.why else "not explained"
        yield el(
            "details",
            el("summary", f"{len(s.ids)} that nobody notices, {why}"),
            el("p", ", ".join(s.ids), class_="ids"),
        )
