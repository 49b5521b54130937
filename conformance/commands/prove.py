"""``nullblock prove``: the unbounded proofs, rule by rule."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from types import FrameType
from typing import Annotated

import typer

from nullblock.conformance.console import usage_error
from nullblock.spec.lint import lint
from nullblock.spec.profiles import PROFILES, UnknownSwitch, profile
from nullblock.spec.prover import Checked, JobReport, Report, UnknownJob, prove
from nullblock.spec.prover.claims import UNREACHED, broken, proved_invariants


def command(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RULE|OPERATION]...", help="push_new, schedule; default all."),
    ] = None,
    semantics: Annotated[
        str, typer.Option("--profile", help=f"Semantics: {', '.join(PROFILES)}.")
    ] = "normative",
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table.")] = False,
) -> None:
    """Prove that every rule keeps every invariant of a state, and that the machine fires only
    enabled rules.

    The proofs hold for any number of blocks, requests and tokens. What is left open is not
    refuted: `nullblock explore` looks for a counterexample. Exit code 1 if something claimed is
    not proved.
    """
    report = _proved(wanted or [], semantics)
    wrong = [*lint(), *broken(report)]
    if as_json:
        whole = not wanted and not wrong
        print(json.dumps(_document(report, wrong, whole), indent=2))
    else:
        _table(report, wrong)
    if wrong:
        raise typer.Exit(1)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C ends the process at once. An exception that is raised while Z3's bindings release a
    term would be lost; there is nothing to clean up but the cursor.
    """
    from nullblock.conformance.console import Screen

    def leave(number: int, frame: FrameType | None) -> None:
        Screen(stderr=True).show_cursor(True)
        os._exit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {n: signal.signal(n, leave) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _proved(wanted: list[str], semantics: str) -> Report:
    import sys

    from nullblock.conformance.console import Screen

    try:
        sem = profile(semantics)
        with _interruptible():
            if not sys.stderr.isatty():
                return prove(*wanted, sem=sem)
            with Screen(stderr=True).status("proving") as status:
                return prove(
                    *wanted,
                    sem=sem,
                    progress=lambda done: status.update(f"proving: {done.name} done"),
                )
    except UnknownJob as error:
        raise usage_error(str(error), "[RULE|OPERATION]...") from None
    except UnknownSwitch as error:
        raise usage_error(str(error), "--profile") from None


def _document(report: Report, wrong: list[str], whole: bool) -> dict[str, object]:
    return {
        "invariants": sorted(proved_invariants()) if whole else [],
        "obligations": report.obligations,
        "proved": report.proved,
        "seconds": round(report.seconds, 1),
        "open": [_obligation(c) for c in report.open],
        "vacuous": [v for v in report.vacuous if v not in UNREACHED],
        "broken_claims": wrong,
        "texts": [_row(r) for r in report.per_rule.values()],
        "checked": [_obligation(c) for c in report.checked],
    }


def _obligation(c: Checked) -> dict[str, object]:
    return asdict(c) | {"seconds": round(c.seconds, 3)}


def _row(r: JobReport) -> dict[str, object]:
    return {
        "name": r.name,
        "kind": r.kind,
        "obligations": r.obligations,
        "proved": r.proved,
        "paths": r.paths,
        "asked": r.asked,
        "seconds": round(r.seconds, 2),
    }


def _table(report: Report, wrong: list[str]) -> None:
    from rich.table import Table

    from nullblock.conformance.console import Screen

    out = Screen()
    table = Table(
        title="Proofs, for any number of blocks, requests and tokens", title_justify="left"
    )
    for name in ("text", "kind"):
        table.add_column(name)
    for name in ("paths", "obligations", "proved", "open", "seconds"):
        table.add_column(name, justify="right")
    for r in report.per_rule.values():
        numbers = (r.paths, r.obligations, r.proved, len(r.open))
        table.add_row(r.name, r.kind, *map(str, numbers), f"{r.seconds:.1f}")
    out.print(table)
    for line in wrong:
        out.print(line, markup=False, style="bold red")
    out.print(
        f"{report.obligations} obligations, {report.proved} proved, {len(report.open)} open,"
        f" {report.seconds:.1f} s",
        highlight=False,
    )
