"""``nullblock replay``: a workload through an engine, on a clock of its own."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from nullblock.conformance import options
from nullblock.conformance.console import Screen, check_output, complain, usage_error
from nullblock.conformance.errors import InputError
from nullblock.conformance.files import write_atomically
from nullblock.conformance.options import NORMATIVE, ProfileName, Settings
from nullblock.conformance.replaying import options as o
from nullblock.conformance.replaying import plans, summary
from nullblock.conformance.replaying.arrivals import Pace
from nullblock.conformance.replaying.clock import StepTime
from nullblock.conformance.replaying.configuration import DEFAULT, configuration
from nullblock.conformance.replaying.engine import ReplayEngineName
from nullblock.conformance.replaying.figures import Figures
from nullblock.conformance.replaying.run import Plan, Progress, Result, replay

_SECONDS_BETWEEN_WORDS = 0.2
INTERRUPTED = 130


def command(
    workload: o.Workload,
    engine: o.Engines = None,
    config: o.Configs = None,
    profile_name: ProfileName = NORMATIVE,
    settings: Settings = None,
    python: o.Python = None,
    preload: o.Preload = None,
    format: o.Format = None,
    users: o.Users = 16,
    session_gap: o.SessionGap = 5.0,
    max_think: o.MaxThink = 60.0,
    shared_prefix: o.SharedPrefix = 0,
    ends_by: o.Ends = o.EndsBy.length,
    limit: o.Limit = None,
    seconds: o.Seconds = None,
    scale_lengths: o.ScaleLengths = 1,
    speed: o.Speed = 1.0,
    step_ms: o.StepMs = 12.0,
    token_us: o.TokenUs = 40.0,
    output: o.Output = None,
    trace: o.Trace = None,
    page: o.Page = None,
    as_json: o.AsJson = False,
) -> None:
    """Play a workload through an engine: hit rate, preemptions, waits, a trace, a page with plots.

    Formats: Mooncake, WEKA agentic sessions, Azure LLM inference. Arrivals follow a clock of the
    replay's own, so the same command gives the same result everywhere; nothing is drawn at random.
    `nullblock check` judges the trace.

    Exit codes: 0 played to the end; 1 the engine raised, or will never serve what is left; 2
    command line; 3 a feature out of scope, or no vLLM to be had; 4 a damaged workload or a wrong
    configuration; 130 Ctrl-C, which gives what there is.
    """
    engines = engine or [ReplayEngineName.reference]
    if ReplayEngineName.vllm in engines and python is None:
        raise usage_error("--engine vllm needs an interpreter that has vLLM", "--python")
    if 64 % scale_lengths:
        raise usage_error(f"{scale_lengths} is none of 1, 2, 4, 8, 16, 32, 64", "--scale-lengths")
    pace = Pace(speed, users, session_gap, max_think, limit, seconds, ends_by is o.EndsBy.eos)
    try:
        base = Plan(
            workload=workload,
            format=format,
            scale=scale_lengths,
            shared_prefix=shared_prefix,
            pace=pace,
            step_time=StepTime(step_ms / 1e3, token_us / 1e6),
            engine=engines[0],
            config=configuration(DEFAULT),
            semantics=options.semantics(profile_name, settings),
            profile=options.label(profile_name, settings),
            python=python,
            preload=preload,
        )
        runs = plans.each(base, engines, config or [DEFAULT])
        code = _run(runs, output, trace, page, as_json)
    except InputError as error:
        complain(error, as_json)
        raise typer.Exit(error.exit_code) from None
    except OSError as error:
        raise usage_error(f"{error.filename or workload}: {error.strerror or error}") from None
    raise typer.Exit(code)


def _run(
    runs: list[Plan], output: Path | None, trace: Path | None, page: Path | None, as_json: bool
) -> int:
    """Replay, and write everything that was asked for; the exit code."""
    inputs = [str(runs[0].workload)]
    runs[0].workload.stat()
    if trace is not None:
        if len(runs) > 1 or output is not None:
            raise usage_error("one trace file for one run; -o DIR takes all", "--trace")
        runs = [replace(runs[0], trace=trace)]
    check_output(trace, inputs, "--trace")
    check_output(page, inputs, "--page")
    if output is not None:
        output.mkdir(exist_ok=True)
        runs = plans.traces_in(output, runs)
    results: list[Result] = []
    for plan in runs:
        with _progress(plan) as progress:
            results.append(replay(plan, progress))
        if results[-1].interrupted:
            break
    said = _told(results)
    if as_json:
        print(json.dumps(said, indent=2))
    else:
        _show(results, runs)
    if output is not None:
        write_atomically(output / "figures.json", json.dumps(said, indent=2).encode() + b"\n")
    for path in (page, None if output is None else output / "page.html"):
        if path is not None:
            from nullblock.conformance.replaying.page import html

            write_atomically(path, html.page(results).encode())
    if results[-1].interrupted:
        return INTERRUPTED
    return int(any(result.stuck or result.raised is not None for result in results))


def _told(results: list[Result]) -> dict[str, Any]:
    command = plans.command_line([result.plan for result in results])
    alike = summary.agreement(results)
    return {
        "command": command,
        "agreement": alike,
        "runs": [summary.as_json(result) for result in results],
    }


def _show(results: list[Result], runs: list[Plan]) -> None:
    """The table, and what one has to know besides."""
    screen = Screen()
    first = results[0]
    screen.print(f"{first.plan.workload} ({first.format.value})", markup=False, highlight=False)
    screen.print(f"a step takes {first.plan.step_time}", markup=False, highlight=False)
    screen.print()
    screen.print(summary.table(results))
    screen.print()
    for result in results:
        prefix = f"{result.plan.label}: " if len(results) > 1 else ""
        told = [] if summary.end(result) == "complete" else [summary.end(result)]
        for line in [*told, *summary.notes(result)]:
            screen.print(f"{prefix}{line}", markup=False, highlight=False)
        if result.plan.trace is not None:
            screen.print(f"{prefix}trace: {result.plan.trace}", markup=False, highlight=False)
    for line in summary.agreement(results):
        screen.print(line, markup=False, highlight=False)
    if len(results) < len(runs):
        screen.print(f"{len(runs) - len(results)} more runs were not begun")
    screen.print(plans.command_line(runs), markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _progress(plan: Plan) -> Iterator[Progress]:
    """How far a replay has come, on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda figures: None
        return
    with Screen(stderr=True).status(f"{plan.label}: starting") as status:
        last = 0.0

        def tell(figures: Figures) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last < _SECONDS_BETWEEN_WORDS:
                return
            last = now
            totals = figures.totals
            status.update(
                f"{plan.label}: {totals.finished:,} of {totals.arrived:,} arrived requests "
                f"finished, step {totals.steps:,}, {figures.clock:,.0f} s on the clock"
            )

        yield tell
