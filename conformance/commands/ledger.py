"""``nullblock ledger``: what is known, by whom, and how strongly."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nullblock.conformance.console import Screen, check_output, output_to, usage_error

if TYPE_CHECKING:
    from nullblock.conformance.ledger.judge import Ledger


def command(
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
    html: Annotated[
        Path | None,
        typer.Option("--html", metavar="FILE", help="Write one self-contained page instead."),
    ] = None,
    md: Annotated[
        Path | None,
        typer.Option("--markdown", metavar="FILE", help="Write the page of the repository."),
    ] = None,
    refreshing: Annotated[
        bool,
        typer.Option(
            "--refresh",
            help="Run the engines again (minutes) and rewrite the evidence and LEDGER.md.",
        ),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE", help="With --refresh: only this; the rest stays."),
    ] = None,
) -> None:
    """Show what each engine showed of each statement, and who notices which planted defect.

    The evidence was recorded; whether it is of the present text is found out each time. Exit
    codes: 0 all that is claimed is shown, of the present text; 1 it is not; 2 command line.
    """
    if sum((as_json, html is not None, md is not None)) > 1:
        raise usage_error("one of them: JSON, or a page", "--json, --html, --markdown")
    check_output(html, (), "--html")
    check_output(md, (), "--markdown")
    if only and not refreshing:
        raise usage_error("needs --refresh", "--only")
    ledger = _refreshed(only or []) if refreshing else _recorded()
    if as_json:
        from nullblock.conformance.ledger.document import document

        print(json.dumps(document(ledger), indent=1))
    elif html is not None:
        from nullblock.conformance.ledger.page import render

        _write(html, "--html", render(ledger), ledger)
    elif md is not None:
        from nullblock.conformance.ledger.markdown import markdown

        _write(md, "--markdown", markdown(ledger).encode(), ledger)
    else:
        from nullblock.conformance.ledger.screen import show

        # A pipe has no width; a table of sentences needs some.
        show(ledger, Screen() if sys.stdout.isatty() else Screen(width=140))
    raise typer.Exit(1 if ledger.shortfalls else 0)


def _write(path: Path, option: str, data: bytes, ledger: "Ledger") -> None:
    with output_to(path, option) as sink:
        sink.write(data)
    for line in ledger.shortfalls:
        print(line, file=sys.stderr)


def _recorded() -> "Ledger":
    from nullblock.conformance.ledger.evidence import Damaged, load
    from nullblock.conformance.ledger.judge import judge

    try:
        return judge(load())
    except Damaged as error:
        raise usage_error(f"{error}; nullblock ledger --refresh writes it anew") from None


def _refreshed(only: list[str]) -> "Ledger":
    from nullblock.conformance.ledger.evidence import Damaged
    from nullblock.conformance.ledger.refresh import Failed, checkout, refresh
    from nullblock.conformance.ledger.registry import SOURCES

    if not checkout():
        raise usage_error("the evidence is recorded in a checkout of nullblock", "--refresh")
    for name in only:
        if name not in SOURCES:
            raise usage_error(f"no {name!r}: choose from {', '.join(SOURCES)}", "--only")
    try:
        with _progress() as say:
            return refresh(only, say)
    except Damaged as error:
        whole = "without --only everything is written anew"
        raise usage_error(f"nothing is run: {error}; {whole}", "--only") from None
    except Failed as error:
        raise OSError(f"nothing is written: {error}") from None


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Which engines are done, on standard error, if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda name: None
        return
    with Screen(stderr=True).status("running the engines") as status:
        done: list[str] = []

        def say(name: str) -> None:
            done.append(name)
            status.update(f"running the engines: {', '.join(done)} done")

        yield say
