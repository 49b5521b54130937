"""``nullblock prove``: the unbounded proofs, rule by rule and invariant by invariant."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from multiprocessing import get_context
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from nullblock.conformance.console import usage_error
from nullblock.conformance.theorems import Shown, check, documents, known, unshown
from nullblock.spec.lint import lint
from nullblock.spec.profiles import NORMATIVE, PROFILES, Semantics, UnknownSwitch, profile
from nullblock.spec.prover import Checked, JobReport, Report, UnknownJob, prove
from nullblock.spec.prover.claims import UNREACHED, broken, proved_invariants
from nullblock.spec.switches import with_switches

if TYPE_CHECKING:  # it loads Z3, which --help need not wait for
    from nullblock.spec.prover.vacuity import Vacuity


def command(
    wanted: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RULE|OPERATION|INVARIANT|THEOREM]...",
            help="push_new, POOL-10, schedule, HASH-6, THEOREM-1; default everything.",
        ),
    ] = None,
    semantics: Annotated[
        str, typer.Option("--profile", help=f"Semantics: {', '.join(PROFILES)}.")
    ] = "normative",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="SWITCH=VALUE", help="Set a switch of the profile."),
    ] = None,
    vacuous: Annotated[
        bool,
        typer.Option(
            "--vacuity", help="Instead: who goes which path of a rule, what an invariant forbids."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of tables.")] = False,
) -> None:
    """Prove that every rule keeps every invariant of a state, and that the machine fires only
    enabled rules.

    The proofs hold for any number of blocks, requests and tokens. An obligation that fails is
    refuted by a step of the rule, where one is found: from a state that satisfies every invariant
    to one that does not. With invariants named, only what concerns them is proved. A run of
    everything discharges the theorems too (spec/THEOREMS.md), and asks whether anything is proved
    of nothing; --vacuity tells what it finds.
    Exit code 1 if something claimed is not proved, or shows nothing.
    """
    try:
        sem = with_switches(profile(semantics), settings or [])
    except UnknownSwitch as error:
        where = "--set" if semantics in PROFILES else "--profile"
        raise usage_error(str(error), where) from None
    if vacuous and wanted:
        raise usage_error("--vacuity is about everything: name no rule or invariant", "--vacuity")
    ids, texts = _apart(wanted or [], sem)
    shown: Shown = {}
    with _theorems([] if vacuous else ids, shown):
        found = _vacuity(sem) if vacuous or not wanted else None
        report = None if vacuous or (wanted and not texts) else _proved(texts, sem)
    wrong = _wrong(report, found) + unshown(shown)
    if as_json:
        document = _whole(report, found, wrong) | {"theorems": documents(shown)}
        print(json.dumps(document, indent=1))
    else:
        from nullblock.conformance import proofs

        if report is not None:
            proofs.show(report, wrong)
        if shown:
            proofs.show_theorems(shown)
        if vacuous:
            assert found is not None
            proofs.show_vacuity(found, wrong)
        elif report is None:
            proofs.show_wrong(wrong)
    if wrong:
        raise typer.Exit(1)


def _apart(wanted: list[str], sem: Semantics) -> tuple[list[str], list[str]]:
    """Theorems, and everything else. Without names all theorems, which are about normative."""
    if not wanted:
        return (list(known()) if sem == NORMATIVE else []), []
    ids = [name for name in wanted if name in known()]
    if ids and sem != NORMATIVE:
        raise usage_error(f"{ids[0]} is a theorem of the profile normative", "--profile, --set")
    return ids, [name for name in wanted if name not in ids]


@contextmanager
def _theorems(ids: list[str], shown: Shown) -> Iterator[None]:
    """Fill in what is found of theorems, by another process, beside what is done meanwhile."""
    if not ids:
        yield
        return
    with _interruptible(), ProcessPoolExecutor(1, get_context("spawn")) as pool:
        found = pool.submit(check, ids)
        yield
        shown.update(found.result())


def _wrong(report: Report | None, found: "Vacuity | None") -> list[str]:
    wrong = [*lint(), *(broken(report) if report is not None else ())]
    if found is not None:
        wrong += found.problems()
        if report is not None:
            asked = {c.what for c in report.checked}
            silent = (id for id in proved_invariants() if id not in asked)
            wrong += (f"not proved: {id}: no rule was asked to keep it" for id in silent)
    return wrong


def _vacuity(sem: Semantics) -> "Vacuity":
    from nullblock.spec.prover.vacuity import vacuity

    with _interruptible():
        return vacuity(sem)


def _whole(report: Report | None, found: "Vacuity | None", wrong: list[str]) -> dict[str, object]:
    document: dict[str, object] = {"broken_claims": wrong}
    if report is not None:
        document = _document(report, wrong, found is not None and not wrong)
    if found is not None:
        from nullblock.spec.prover.vacuity import dead

        document["paths"] = [
            asdict(p) | {"dead": None if p.witness else dead(p)} for p in found.paths
        ]
        document["bites"] = [asdict(b) for b in found.bites]
    return document


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
        raise usage_error(str(error), "[RULE|OPERATION|INVARIANT|THEOREM]...") from None


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
