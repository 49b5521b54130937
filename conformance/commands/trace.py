"""``nullblock trace``: a trace of an engine of ours, and traces sealed anew."""

import json
from collections import deque
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from nullblock.conformance import driver, options, scenario
from nullblock.conformance.console import check_output, complain, usage_error
from nullblock.conformance.engines import DeviceName, EngineName, make_engine
from nullblock.conformance.errors import InputError, ScenarioError
from nullblock.conformance.options import NORMATIVE, Device, ProfileName, Settings
from nullblock.conformance.scenario_format import Add, Scenario
from nullblock.conformance.strict_json import MAX_BYTES
from nullblock.spec.profiles import Semantics

NUMBERS = (
    *("block_size", "num_blocks", "max_model_len", "max_num_batched_tokens"),
    *("max_num_scheduled_tokens", "max_num_seqs", "long_prefill_token_threshold"),
    *("sliding_window", "chunk", "num_speculative_blocks"),
)
"""What a scenario says in numbers and a trace repeats. What users choose for a request (priority,
limits) has the same 64 bits in both."""


def command(
    source: Annotated[
        Path, typer.Argument(help="A scenario, or with --reseal a trace.", metavar="SCENARIO.json")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", help="The trace; .gz and .zst are compressed.", metavar="TRACE"
        ),
    ],
    engine: Annotated[EngineName, typer.Option(help="The engine that decides.")] = EngineName.spec,
    device: Device = DeviceName.cpu,
    profile_name: ProfileName = NORMATIVE,
    settings: Settings = None,
    names: Annotated[
        bool, typer.Option("--names", help="Tell request ids, which a trace leaves out.")
    ] = False,
    reseal: Annotated[
        bool,
        typer.Option(
            "--reseal", help="Write a trace again that was changed or cut on purpose, sealed."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="A summary, and errors, as JSON.")
    ] = False,
) -> None:
    """Run a scenario on an engine and record its inputs and decisions as a trace.

    What the engine raises is recorded. Exit codes: 0 the trace is written; 2 command line; 3 the
    scenario uses a feature that is out of scope, or the device is not to be had; 4 its content is
    wrong, or that of the trace. The trace appears whole or not at all.
    """
    options.check_device(engine, device)
    check_output(output, [] if reseal else [str(source)])
    if reseal and (names or settings or profile_name != NORMATIVE):
        raise usage_error("a trace that is sealed anew keeps its decisions", "--reseal")
    semantics = options.semantics(profile_name, settings)
    try:
        if reseal:
            summary = _reseal(source, output)
        else:
            label = options.label(profile_name, settings)
            summary = _record(source, output, engine, device, semantics, label, names)
    except InputError as error:
        complain(error.at(file=error.file or str(source)), as_json)
        raise typer.Exit(error.exit_code) from None
    except OSError as error:
        name = error.filename or output
        raise usage_error(f"{name}: {error.strerror or error}") from None
    if as_json:
        print(json.dumps({"trace": str(output), **summary}))


def _record(
    source: Path,
    output: Path,
    engine: EngineName,
    device: DeviceName,
    semantics: Semantics,
    label: str,
    names: bool,
) -> dict[str, int]:
    from nullblock.conformance.trace.configured import has_grammars, has_sessions, header
    from nullblock.conformance.trace.tape import Tape
    from nullblock.conformance.trace.writer import trace_file

    with source.open("rb") as stream:
        taken = scenario.parse(stream.read(MAX_BYTES + 1), str(source))
    check_numbers(taken)
    made = make_engine(engine, taken.config, semantics, device)
    with trace_file(output) as writer:
        told = engine.value, version("nullblock"), label, semantics
        writer.write(
            header(
                taken.config,
                *told,
                grammars=has_grammars(taken),
                sessions=has_sessions(taken),
            )
        )
        tape = Tape(
            *(made, taken, writer.write),
            tagged_keys=semantics.extra_keys_tagged,
            semantics=semantics,
            names=names,
        )
        deque(driver.run(taken, tape, dump="none"), maxlen=0)
        return {"steps": tape.steps, "requests": len(tape.numbers)}


def check_numbers(taken: Scenario) -> None:
    """A trace holds constants that any JSON reader holds exactly; raises ScenarioError."""
    places: list[tuple[str, Any]] = [("config", taken.config)]
    places += [(f"config.groups[{i}]", group) for i, group in enumerate(taken.config.groups)]
    places += [(f"events[{i}]", e) for i, e in enumerate(taken.events) if isinstance(e, Add)]
    for place, part in places:
        for name in NUMBERS:
            value = getattr(part, name, None)
            if isinstance(value, int) and abs(value) > 2**53:
                what = f"{value} does not fit a trace"
                raise ScenarioError(what, "at most 2**53 on either side of 0", f"{place}.{name}")


def _reseal(source: Path, output: Path) -> dict[str, int]:
    from nullblock.conformance.trace.writer import reseal

    return {"records": reseal(source, output)}
