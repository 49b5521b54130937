"""``nullblock check``: a verdict on recorded traces."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from nullblock.conformance import options
from nullblock.conformance.checker.verdict import Verdict
from nullblock.conformance.console import (
    STANDARD_INPUT,
    Screen,
    check_inputs,
    check_output,
    output_to,
    usage_error,
)
from nullblock.conformance.options import Settings
from nullblock.conformance.strength.measure import Asked, Notice
from nullblock.conformance.trace.source import recordings
from nullblock.conformance.verdicts import worst
from nullblock.spec.profiles import Semantics

WINDOW = 400
"""Records at the end of a trace that a page may need."""


Traces = Annotated[
    list[str],
    typer.Argument(
        help="Trace files, plain or compressed; a folder is the parts of one recording, or "
        "all recordings in it; - is standard input.",
        metavar="TRACE...",
    ),
]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile", help="Which semantics; by default those of the engine in the header."
    ),
]
Strength = Annotated[
    bool,
    typer.Option(
        "--strength",
        help="Of a trace that conforms: which known defects of the rules would it have shown?",
    ),
]
ScenarioFile = Annotated[
    Path | None,
    typer.Option(
        "--scenario",
        metavar="FILE",
        help="Write a minimal scenario that shows the first violation; `nullblock run` runs it.",
    ),
]
PageFile = Annotated[
    Path | None,
    typer.Option("--page", metavar="FILE", help="Write one self-contained HTML page too."),
]
JUnitFile = Annotated[
    Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit report too.")
]
Json = Annotated[
    bool, typer.Option("--json", help="One object; for several traces a list of objects.")
]


def command(
    traces: Traces,
    profile_name: ProfileName = None,
    settings: Settings = None,
    strength: Strength = False,
    scenario: ScenarioFile = None,
    page: PageFile = None,
    junit: JUnitFile = None,
    as_json: Json = False,
) -> None:
    """Judge traces: the rules make every decision again from the recorded inputs.

    Exit codes: 0 CONFORMS; 1 VIOLATION, with the rule that decides otherwise; 2 command line; 3
    INCONCLUSIVE, with what was not recorded or is out of scope; 4 MALFORMED. Of several traces
    the worst counts: 1, then 4, then 3.
    """
    semantics, label = _semantics(profile_name, settings or [])
    _check_arguments(traces, {"--scenario": scenario, "--page": page, "--junit": junit})
    if strength and STANDARD_INPUT in traces:
        raise usage_error("a trace is read once for each mutant: save it to a file", "--strength")
    verdicts: list[Verdict] = []
    notices: list[list[Notice]] = []
    for name in _recordings(traces):
        begun = time.monotonic()
        verdict = _judge(name, semantics, label, WINDOW if page else 0)
        verdicts.append(verdict)
        verdict.seconds = time.monotonic() - begun
        if scenario is not None or page is not None:
            verdict.scenario = _scenario(name, verdict)
        if not as_json:
            _show(verdict)
        if strength:
            asked = Asked(
                *(Path(name), profile_name, tuple(settings or ())),
                raised=verdict.raised is not None,
                semantics=verdict.replay.k.sem if verdict.replay else None,
                label=verdict.profile,
            )
            notices.append(_measured(asked, verdict, as_json))
    if as_json:
        found = _documents(verdicts, notices)
        print(json.dumps(found[0] if len(found) == 1 else found, indent=2))
    elif sum(map(bool, notices)) > 1:
        from nullblock.conformance.strength.report import together

        Screen(highlight=False, soft_wrap=True).print(together([n for n in notices if n]))
    _write(verdicts, notices, scenario, page, junit)
    raise typer.Exit(worst(v.verdict for v in verdicts))


def _recordings(traces: list[str]) -> Iterator[str]:
    """One after another: a folder that ranks or restarts of a server share has several."""
    for name in traces:
        found = [] if name == STANDARD_INPUT else recordings(Path(name))
        yield from map(str, found) if len(found) > 1 else (name,)


def _semantics(name: str | None, settings: list[str]) -> tuple[Semantics | None, str]:
    """What was asked for: None is what the trace itself says."""
    if name is None:
        if settings:
            raise usage_error("a switch changes a profile: name it with --profile", "--set")
        return None, ""
    return options.semantics(name, settings), options.label(name, settings)


def _check_arguments(traces: list[str], outputs: dict[str, Path | None]) -> None:
    """Say before anything runs what cannot be read or written. Raises typer.BadParameter."""
    check_inputs(traces, "TRACE")
    written: list[str] = []
    for option, path in outputs.items():
        check_output(path, traces, option)
        if path is not None:
            if str(path) in written:
                raise usage_error(f"{path}: is written by another option as well", option)
            written.append(str(path))
    for name in traces:
        if name != STANDARD_INPUT and not Path(name).exists():
            raise usage_error(f"{name}: no such file or folder", "TRACE")


@contextmanager
def _status(name: str, what: str) -> Iterator[Callable[[str], None] | None]:
    """How far it has come, on standard error, if that is a terminal."""
    errors = Screen(stderr=True)
    if not errors.is_terminal:
        yield None
        return
    with errors.status(Text(f"{name}: {what}")) as status:
        yield lambda text: status.update(Text(f"{name}: {text}"))


def _judge(name: str, semantics: Semantics | None, label: str, window: int) -> Verdict:
    """One verdict."""
    from nullblock.conformance.checker import check

    stream = sys.stdin.buffer if name == STANDARD_INPUT else None
    try:
        with _status(name, "reading") as say:

            def progress(number: int) -> None:
                if say is not None and number % 500 == 0:
                    say(f"{number:,} records")

            return check(
                Path(name),
                semantics,
                label,
                stream=stream,
                progress=progress if say is not None else None,
                window=window,
            )
    except OSError as error:
        raise usage_error(f"{name}: {error.strerror or error}", "TRACE") from None


def _scenario(name: str, verdict: Verdict) -> Any:
    """A scenario that shows the fault of a trace, or why there is none."""
    from nullblock.conformance.minimal.ask import ask

    try:
        with _status(name, "looking for a minimal scenario") as say:
            return ask(verdict, None if name == STANDARD_INPUT else Path(name), say)
    except OSError as error:
        raise usage_error(f"{name}: {error.strerror or error}", "TRACE") from None


def _show(verdict: Verdict) -> None:
    from nullblock.conformance.checker.report import screen

    Screen(highlight=False, soft_wrap=True).print(screen(verdict))


def _documents(verdicts: Sequence[Verdict], notices: Sequence[list[Notice]]) -> list[Any]:
    """The verdicts as JSON."""
    from nullblock.conformance.checker import report
    from nullblock.conformance.strength import report as strength

    found = [report.document(v) for v in verdicts]
    for document, noticed in zip(found, notices, strict=False):
        document["strength"] = strength.document(noticed) if noticed else None
    return found


def _write(
    verdicts: Sequence[Verdict],
    notices: Sequence[list[Notice]],
    scenario: Path | None,
    page: Path | None,
    junit: Path | None,
) -> None:
    """Write the files that were asked for, each whole or not at all."""
    from nullblock.conformance.checker import report

    if junit is not None:
        with output_to(junit, "--junit") as sink:
            sink.write(report.junit(verdicts))
    if page is not None:
        from nullblock.conformance.checker.page import render

        with output_to(page, "--page") as sink:
            sink.write(render(verdicts, notices))
    if scenario is not None:
        from nullblock.conformance.minimal.document import written

        found = [v.scenario.document for v in verdicts if v.scenario and v.scenario.document]
        if not found:
            why = next((v.scenario.note for v in verdicts if v.scenario), "nothing is violated")
            print(f"{scenario} is not written: {why.removeprefix('none: ')}", file=sys.stderr)
            return
        with output_to(scenario, "--scenario") as sink:
            sink.write(written(found[0]).encode())


def _measured(asked: Asked, verdict: Verdict, as_json: bool) -> list[Notice]:
    """What a trace says about each mutant; nothing for one that does not conform."""
    from nullblock.conformance.strength.measure import measure, mutants_for
    from nullblock.conformance.strength.report import screen

    out = Screen(highlight=False, soft_wrap=True)  # a reason is whole in a pipe, too
    if verdict.verdict != "CONFORMS":
        if not as_json:
            out.print("  strength: only a trace that conforms has any")
        return []
    done = 0
    header = verdict.replay.header if verdict.replay else None
    mutants = mutants_for(header, verdict.rules)
    with _status(str(asked.trace), "planting mutants") as say:

        def progress(notice: Notice) -> None:
            nonlocal done
            done += 1
            if say is not None:
                say(f"{done} of {len(mutants)} mutants")

        notices = measure(asked, verdict.rules, verdict.seconds, progress, mutants)
    if not as_json:
        out.print(screen(notices))
    return notices
