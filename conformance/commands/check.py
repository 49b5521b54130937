"""``nullblock check``: a verdict on recorded traces."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from nullblock.conformance.checker.verdict import Verdict, worst
from nullblock.conformance.console import (
    STANDARD_INPUT,
    check_inputs,
    check_output,
    output_to,
    usage_error,
)
from nullblock.spec.profiles import Semantics, UnknownSwitch, profile, with_switches


def command(
    traces: Annotated[
        list[str],
        typer.Argument(
            help="Trace files, plain or compressed; a folder is the parts of one recording; - is "
            "standard input.",
            metavar="TRACE...",
        ),
    ],
    profile_name: Annotated[
        str | None,
        typer.Option(
            "--profile", help="Which semantics; by default those of the engine in the header."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="SWITCH=VALUE", help="Change a switch; needs --profile as well."
        ),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit report too.")
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="One object; for several traces a list of objects."),
    ] = False,
) -> None:
    """Judge traces: the rules make every decision again from the recorded inputs.

    Exit codes: 0 CONFORMS; 1 VIOLATION, with the rule that decides otherwise; 2 command line; 3
    INCONCLUSIVE, with what was not recorded or is out of scope; 4 MALFORMED. Of several traces
    the worst counts: 1, then 4, then 3.
    """
    from nullblock.conformance.checker import report

    semantics, label = _semantics(profile_name, settings or [])
    check_inputs(traces, "TRACE")
    check_output(junit, traces, "--junit")
    for name in traces:
        if name != STANDARD_INPUT and not Path(name).exists():
            raise usage_error(f"{name}: no such file or folder", "TRACE")
    verdicts = [_judge(name, semantics, label, as_json) for name in traces]
    if as_json:
        found = [report.document(v) for v in verdicts]
        print(json.dumps(found[0] if len(found) == 1 else found, indent=2))
    if junit is not None:
        with output_to(junit, "--junit") as sink:
            sink.write(report.junit(verdicts))
    raise typer.Exit(worst(verdicts))


def _semantics(name: str | None, settings: list[str]) -> tuple[Semantics | None, str]:
    """What was asked for: None is what the trace itself says."""
    if name is None:
        if settings:
            raise usage_error("a switch changes a profile: name it with --profile", "--set")
        return None, ""
    try:
        return with_switches(profile(name), settings), ", ".join([name, *settings])
    except UnknownSwitch as error:
        raise usage_error(str(error)) from None


def _judge(name: str, semantics: Semantics | None, label: str, as_json: bool) -> Verdict:
    """One verdict, printed as soon as it is known."""
    from nullblock.conformance.checker import check, report
    from nullblock.conformance.console import Screen

    stream = sys.stdin.buffer if name == STANDARD_INPUT else None
    errors = Screen(stderr=True)
    try:
        with errors.status(f"{name}: reading") as status:

            def progress(number: int) -> None:
                if number % 500 == 0:
                    status.update(f"{name}: {number:,} records")

            verdict = check(
                Path(name),
                semantics,
                label,
                stream=stream,
                progress=progress if errors.is_terminal else None,
            )
    except OSError as error:
        raise usage_error(f"{name}: {error.strerror or error}", "TRACE") from None
    if not as_json:
        Screen(highlight=False, soft_wrap=True).print(report.screen(verdict))
    return verdict
