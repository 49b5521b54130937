"""``nullblock profiles``: every switch and its value, and what differs between two profiles."""

import json
from typing import Annotated

import typer

from nullblock.conformance.console import usage_error
from nullblock.spec.profiles import PROFILES, Semantics, UnknownSwitch, profile
from nullblock.spec.switches import differences, meaning, switches


def command(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[A [B]]", help="One profile to show, or two to compare."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """Show every decision switch and its value; with two profiles, only what differs."""
    chosen = names or list(PROFILES)
    if len(chosen) > 2:
        raise usage_error("name at most two profiles", "[A [B]]")
    try:
        values = {name: profile(name) for name in chosen}
    except UnknownSwitch as error:
        raise usage_error(str(error), "[A [B]]") from None
    only = (
        differences(*values.values())
        if names and len(values) == 2
        else list(switches(Semantics()))
    )
    if as_json:
        print(json.dumps(_document(values, only), indent=2))
    else:
        _table(values, only)


def _document(values: dict[str, Semantics], only: list[str]) -> dict[str, object]:
    from nullblock.spec.departures import DEPARTURES

    return {
        "profiles": {name: {s: switches(v)[s] for s in only} for name, v in values.items()},
        "departures": [
            {"switch": d.switch, "upstream": d.upstream, "breaks": d.breaks, "story": d.story}
            for d in DEPARTURES
            if d.switch in only
        ],
    }


def _table(values: dict[str, Semantics], only: list[str]) -> None:
    from rich.table import Table

    from nullblock.conformance.console import Screen

    table = Table(title="Decision switches", title_justify="left", show_lines=True)
    table.add_column("switch")
    for name in values:
        table.add_column(name)
    table.add_column("meaning", ratio=1)
    for switch in only:
        row = [str(switches(v)[switch]).lower() for v in values.values()]
        table.add_row(switch, *row, meaning(switch))
    Screen().print(table)
