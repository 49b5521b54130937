"""``nullblock run``: scenarios in, JSON lines out."""

import enum
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from nullblock.conformance import driver, options, scenario
from nullblock.conformance.console import (
    STANDARD_INPUT,
    check_inputs,
    check_output,
    complain,
    counted,
    output_to,
    usage_error,
)
from nullblock.conformance.engine import Dump
from nullblock.conformance.engines import DeviceName, EngineName, make_engine
from nullblock.conformance.errors import InputError
from nullblock.conformance.options import NORMATIVE, Device, ProfileName, Settings
from nullblock.conformance.strict_json import MAX_BYTES
from nullblock.spec.profiles import Semantics

_SPOOL_BYTES = 16 * 2**20
"""Output of one scenario that is kept in memory; what is longer waits on disk."""
_WORST_FIRST = (4, 3, 0)


class DumpName(enum.StrEnum):
    """How much state a line carries: see :data:`nullblock.conformance.engine.Dump`."""

    full = "full"
    brief = "brief"
    none = "none"


def command(
    scenarios: Annotated[
        list[str],
        typer.Argument(help="Scenario files; - is standard input.", metavar="SCENARIO.json..."),
    ],
    engine: Annotated[EngineName, typer.Option(help="The engine that decides.")] = EngineName.spec,
    device: Device = DeviceName.cpu,
    profile_name: ProfileName = NORMATIVE,
    settings: Settings = None,
    dump: Annotated[
        DumpName, typer.Option(help="The state in a line: with the pool, without, or none.")
    ] = DumpName.full,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write there, whole or not at all.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Errors as JSON too; the output is JSON anyway.")
    ] = False,
) -> None:
    """Run scenarios on an engine and print what it decides, one JSON object a line.

    Exit codes: 0 all ran (what the engine raises is a line, not an error); 2 command line; 3 a
    scenario uses a feature that is out of scope, or the device is not to be had; 4 the content of
    a scenario is wrong. The worst one is returned. Nothing is printed for a file with an error;
    the other files still run.
    """
    semantics = options.semantics(profile_name, settings)
    version = options.label(profile_name.removeprefix("vllm-"), settings)
    options.check_device(engine, device)
    check_inputs(scenarios, "SCENARIO.json")
    check_output(output, scenarios)
    for name in scenarios:
        _check_readable(name)
    codes: set[int] = set()
    with output_to(output) as sink:
        for name in scenarios:
            try:
                lines = _lines(name, engine, device, semantics, dump.value, version)
                _copy_when_complete(counted(lines, name, "lines"), sink)
                codes.add(0)
            except InputError as error:
                complain(error.at(file=name), as_json)
                codes.add(error.exit_code)
        code = next(code for code in _WORST_FIRST if code in codes)
        if 0 not in codes:
            raise typer.Exit(code)  # nothing to write: the old file stays
    raise typer.Exit(code)


def _lines(
    name: str,
    engine: EngineName,
    device: DeviceName,
    semantics: Semantics,
    dump: Dump,
    version: str,
) -> Iterator[str]:
    """The output of one scenario file."""
    taken = scenario.parse(_read(name), name)
    made = make_engine(engine, taken.config, semantics, device)
    return driver.run(taken, made, dump=dump, version=version)


def _check_readable(name: str) -> None:
    """A file that cannot be opened is a mistake on the command line: say so before any runs."""
    if name == STANDARD_INPUT:
        return
    try:
        if not os.access(name, os.R_OK):
            Path(name).open("rb").close()
        if Path(name).is_file() or Path(name).is_dir():  # a pipe can be read only once
            with Path(name).open("rb") as stream:
                stream.read(1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise usage_error(f"{name}: {reason}", "SCENARIO.json") from None


def _read(name: str) -> bytes:
    """The file, and one byte too many of a file that is too large."""
    if name == STANDARD_INPUT:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    try:
        with Path(name).open("rb") as stream:
            return stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise usage_error(f"{name}: {error.strerror or error}", "SCENARIO.json") from None


def _copy_when_complete(lines: Iterator[str], sink: BinaryIO) -> None:
    """Write the lines once the last one is known: a file with an error prints nothing."""
    with tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES) as spool:
        for line in lines:
            spool.write(line.encode() + b"\n")
        spool.seek(0)
        shutil.copyfileobj(spool, sink)
        sink.flush()
