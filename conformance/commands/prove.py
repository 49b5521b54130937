"""``nullblock prove``: the unbounded proofs, rule by rule and invariant by invariant."""

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
from nullblock.spec.profiles import PROFILES, Semantics, UnknownSwitch, profile, with_switches
from nullblock.spec.prover import Checked, JobReport, Report, UnknownJob, prove
from nullblock.spec.prover.claims import UNREACHED, broken, proved_invariants


def command(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RULE|OPERATION|INVARIANT]...",
            help="push_new, POOL-10, schedule, HASH-6; default everything.",
        ),
    ] = None,
    semantics: Annotated[
        str, typer.Option("--profile", help=f"Semantics: {', '.join(PROFILES)}.")
    ] = "normative",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SWITCH=VALUE", help="Set a switch of the profile."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of tables.")] = False,
) -> None:
    """Prove that every rule keeps every invariant of a state, and that the machine fires only
    enabled rules.

    The proofs hold for any number of blocks, requests and tokens. An obligation that fails is
    refuted by a step of the rule, where one is found: from a state that satisfies every invariant
    to one that does not. With invariants named, only what concerns them is proved. Exit code 1 if
    something claimed is not proved.
    """
    try:
        sem = with_switches(profile(semantics), settings or [])
    except UnknownSwitch as error:
        where = "--set" if semantics in PROFILES else "--profile"
        raise usage_error(str(error), where) from None
    report = _proved(wanted or [], sem)
    wrong = [*lint(), *broken(report)]
    if as_json:
        whole = not wanted and not wrong
        print(json.dumps(_document(report, wrong, whole), indent=1))
    else:
        from nullblock.conformance.proofs import show

        show(report, wrong)
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


def _proved(wanted: list[str], sem: Semantics) -> Report:
    import sys

    from nullblock.conformance.console import Screen

    try:
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
        raise usage_error(str(error), "[RULE|OPERATION|INVARIANT]...") from None


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
