"""``nullblock rules``: every statement of the specification, and what shows it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from nullblock.conformance.console import usage_error
from nullblock.spec.catalogue import Statement, catalogue, everything


def command(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="IDs or families: POOL-3, HASH.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """List every rule and invariant: its sentence, source, definition, and what shows it."""
    chosen = _chosen(ids or [])
    if as_json:
        print(json.dumps([_document(s) for s in chosen], indent=2))
    elif ids and len(chosen) <= 3:
        for statement in chosen:
            _whole(statement)
    else:
        _table(chosen)


def _chosen(ids: list[str]) -> list[Statement]:
    wanted = {id.upper() for id in ids}
    every = catalogue()
    if not (wanted and wanted <= _names(every)):
        every = everything()
    known = _names(every)
    for id in sorted(wanted - known):
        raise usage_error(f"no rule or family {id}; `nullblock rules` lists them", "[ID]...")
    return [s for s in every if not wanted or wanted & {s.id, s.id.partition("-")[0]}]


def _names(statements: list[Statement]) -> set[str]:
    """IDs and families."""
    return {name for s in statements for name in (s.id, s.id.partition("-")[0])}


def _place(s: Statement) -> str:
    return f"{'/'.join(Path(s.file).parts[-3:])}:{s.line}"


def _document(s: Statement) -> dict[str, object]:
    from nullblock.spec.evidence import evidence

    return {
        "id": s.id,
        "kind": s.kind,
        "sentence": s.sentence,
        "note": s.note,
        "source": s.source,
        "definition": s.definition,
        "place": _place(s),
        "shown_by": evidence(s),
    }


def _whole(s: Statement) -> None:
    from rich.text import Text

    from nullblock.conformance.console import Screen
    from nullblock.spec.evidence import evidence

    out = Screen()
    out.print(Text(f"{s.id}  {s.sentence}", style="bold"))
    for label, text in (
        ("", s.note),
        ("source", s.source),
        ("defined", f"{s.definition}  ({_place(s)})"),
    ):
        if text:
            out.print(Text(f"  {label + ': ' if label else ''}{text}"))
    for line in evidence(s):
        out.print(Text(f"  shown by: {line}"))


def _table(chosen: list[Statement]) -> None:
    from rich.table import Table
    from rich.text import Text

    from nullblock.conformance.console import Screen

    table = Table(title=f"{len(chosen)} statements", title_justify="left")
    table.add_column("ID", no_wrap=True)
    table.add_column("kind")
    table.add_column("sentence", ratio=1)
    table.add_column("defined in")
    for s in chosen:
        table.add_row(
            s.id, s.kind, Text(s.sentence), Text(s.definition.removeprefix("nullblock.spec."))
        )
    Screen().print(table)
