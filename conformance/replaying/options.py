"""The options of ``nullblock replay``."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from nullblock.conformance.replaying import configuration
from nullblock.conformance.replaying.engine import ReplayEngineName
from nullblock.conformance.workloads import formats


class EndsBy(enum.StrEnum):
    """What ends a request."""

    length = "length"
    eos = "eos"


WORKLOAD, CUT, TIME, OUTPUT = "The workload", "Cutting it to size", "The clock", "Output"
ENGINE = "The engine"

Workload = Annotated[
    Path, typer.Argument(help="A workload file (plain, gzip, zstd), or a folder of them.")
]
Engines = Annotated[
    list[ReplayEngineName] | None,
    typer.Option(
        "--engine",
        help="The engine that decides; several are compared. [default: reference]",
        rich_help_panel=ENGINE,
    ),
]
Configs = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        metavar="PART,PART...",
        help=f"Its configuration: presets ({', '.join(configuration.PRESETS)}), .json or .toml "
        f"files, KEY=VALUE; several are compared. [default: {configuration.DEFAULT}]",
        rich_help_panel=ENGINE,
    ),
]
Python = Annotated[
    Path | None,
    typer.Option(
        help="For --engine vllm: an interpreter whose environment has vLLM 0.22.1.",
        rich_help_panel=ENGINE,
    ),
]
Preload = Annotated[
    Path | None,
    typer.Option(help="Python code to run there before vLLM is imported.", rich_help_panel=ENGINE),
]
Format = Annotated[
    formats.Format | None,
    typer.Option(help="[default: as the first line looks]", rich_help_panel=WORKLOAD),
]
Users = Annotated[
    int,
    typer.Option(min=1, help="weka: sessions that go on at once.", rich_help_panel=WORKLOAD),
]
SessionGap = Annotated[
    float,
    typer.Option(
        min=0.0, help="weka: seconds between their begins, at least.", rich_help_panel=WORKLOAD
    ),
]
MaxThink = Annotated[
    float,
    typer.Option(min=0.0, help="weka: nobody thinks for more seconds.", rich_help_panel=WORKLOAD),
]
SharedPrefix = Annotated[
    int,
    typer.Option(
        min=0, help="weka: tokens that all sessions begin with.", rich_help_panel=WORKLOAD
    ),
]
Ends = Annotated[
    EndsBy,
    typer.Option(
        help="What ends a request: max_tokens, or an eos token before.", rich_help_panel=WORKLOAD
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="So many requests arrive.", rich_help_panel=CUT),
]
Seconds = Annotated[
    float | None,
    typer.Option(min=0.0, help="Nobody arrives later on the clock.", rich_help_panel=CUT),
]
ScaleLengths = Annotated[
    int,
    typer.Option(
        min=1,
        max=64,
        metavar="N",
        help="Divide all lengths by 1, 2, 4, … or 64; what is shared stays shared.",
        rich_help_panel=CUT,
    ),
]
Speed = Annotated[
    float,
    typer.Option(
        min=1e-6, help="Arrivals and thinking are that much faster.", rich_help_panel=TIME
    ),
]
StepMs = Annotated[
    float,
    typer.Option(min=0.0, help="Milliseconds that a step takes,", rich_help_panel=TIME),
]
TokenUs = Annotated[
    float,
    typer.Option(
        min=0.0, help="and microseconds more for each of its tokens.", rich_help_panel=TIME
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="A folder for traces, page and figures.",
        rich_help_panel=OUTPUT,
    ),
]
Trace = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="The trace; .gz and .zst are compressed.", rich_help_panel=OUTPUT
    ),
]
Page = Annotated[
    Path | None,
    typer.Option(metavar="FILE.html", help="A page with plots.", rich_help_panel=OUTPUT),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="The figures, and errors, as JSON.", rich_help_panel=OUTPUT),
]
