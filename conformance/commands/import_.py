"""``nullblock import``: verdicts on what servers publish by themselves."""

import json
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nullblock.conformance.console import (
    STANDARD_INPUT,
    Screen,
    check_inputs,
    check_output,
    output_to,
    usage_error,
)
from nullblock.conformance.kv_events.check import Options, check
from nullblock.conformance.kv_events.verdict import Verdict
from nullblock.conformance.verdicts import worst
from nullblock.spec.kv_events import Premises

_EVERY = 500
ABOUT = "Judge what servers publish by themselves."


class Format(StrEnum):
    """How batches stand in a file."""

    auto = "auto"
    msgpack = "msgpack"
    prefixed = "prefixed"
    jsonl = "jsonl"


def kv_events(
    files: Annotated[
        list[str],
        typer.Argument(
            help="Recorded KV events, plain or compressed; - is standard input.", metavar="FILE..."
        ),
    ],
    format: Annotated[
        Format, typer.Option("--format", help="How batches stand in the file.")
    ] = Format.auto,
    num_blocks: Annotated[
        int | None,
        typer.Option("--num-blocks", min=1, help="Blocks of the pool, the null block among them."),
    ] = None,
    from_start: Annotated[
        bool | None,
        typer.Option(
            "--from-start/--from-middle",
            help="Whether the recording began with the server; by default if its first batch has "
            "number 0.",
        ),
    ] = None,
    full_attention: Annotated[
        bool,
        typer.Option("--full-attention", help="The model has full attention and nothing else."),
    ] = False,
    no_connector: Annotated[
        bool, typer.Option("--no-connector", help="The server has no KV connector.")
    ] = False,
    allow_gaps: Annotated[
        bool,
        typer.Option("--allow-gaps", help="Go on after lost batches, knowing nothing again."),
    ] = False,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit report too.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One object; for several files a list of objects.")
    ] = False,
) -> None:
    """Judge vLLM's KV-event stream by the law of such streams (`nullblock rules EVENT`).

    A stream can refute an engine and never confirm it. Exit codes: 1 VIOLATION, with the event
    and the law; 2 command line; 3 INCONCLUSIVE, with the evidence; 4 MALFORMED, with the place.
    Of several files the worst counts: 1, then 4, then 3. How to record a file:
    conformance/kv_events/FORMAT.md.
    """
    from nullblock.conformance.kv_events import report

    check_inputs(files, "FILE")
    check_output(junit, files, "--junit")
    for name in files:
        if name != STANDARD_INPUT and not Path(name).is_file():
            kind = "a folder" if Path(name).is_dir() else "no such file"
            if kind == "a folder" or not Path(name).exists():
                raise usage_error(f"{name}: {kind}", "FILE")
    premises = Premises(num_blocks, full_attention, no_connector)
    options = Options(premises, from_start, allow_gaps, format.value)
    verdicts = [_judge(name, options, as_json) for name in files]
    if as_json:
        found = [report.document(v) for v in verdicts]
        print(json.dumps(found[0] if len(found) == 1 else found, indent=2))
    if junit is not None:
        with output_to(junit, "--junit") as sink:
            sink.write(report.junit(verdicts))
    raise typer.Exit(worst(v.verdict for v in verdicts))


def _judge(name: str, options: Options, as_json: bool) -> Verdict:
    """One verdict, printed as soon as it is known."""
    from nullblock.conformance.kv_events import report

    errors, begun = Screen(stderr=True), time.monotonic()
    try:
        with errors.status(f"{name}: reading") as status:

            def progress(batches: int, events: int) -> None:
                if batches % _EVERY == 0:
                    status.update(f"{name}: {batches:,} batches, {events:,} events")

            shown = progress if errors.is_terminal else None
            if name == STANDARD_INPUT:
                verdict = check(name, sys.stdin.buffer, options, shown)
            else:
                with Path(name).open("rb") as stream:
                    verdict = check(name, stream, options, shown)
    except OSError as error:
        raise usage_error(f"{name}: {error.strerror or error}", "FILE") from None
    verdict.seconds = time.monotonic() - begun
    if not as_json:
        Screen(highlight=False, soft_wrap=True).print(report.screen(verdict))
    return verdict


COMMANDS: dict[str, Callable[..., None]] = {"kv-events": kv_events}
"""What can be imported, by name."""
