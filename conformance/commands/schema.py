"""``nullblock schema``: the JSON Schema of the trace format."""

from pathlib import Path
from typing import Annotated

import typer

from nullblock.conformance.console import output_to


def command(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write there, whole or not at all.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Nothing changes: the schema is JSON.")
    ] = False,
) -> None:
    """Print the JSON Schema of one line of a trace, generated from the types that read it."""
    from nullblock.conformance.trace import schema

    with output_to(output) as sink:
        sink.write(schema.text().encode())
