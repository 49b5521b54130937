"""The options of ``nullblock serve-trace``. None: not given, so that a scenario may say it."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from nullblock.conformance.engines import DeviceName

WORKLOAD, ENGINE, MODEL, OUTPUT = "The workload", "The engine", "The model", "Output"


class DType(enum.StrEnum):
    """What the model computes in."""

    float32 = "float32"
    bfloat16 = "bfloat16"


class ServingEngine(enum.StrEnum):
    """Engines whose steps tell a worker all that it has to know."""

    impl = "impl"


Source = Annotated[
    Path | None,
    typer.Argument(help="A scenario; without one a workload is drawn.", metavar="SCENARIO.json"),
]
Text = Annotated[
    list[str] | None,
    typer.Option(help="A prompt, byte by byte; as often as you like.", rich_help_panel=WORKLOAD),
]
Requests = Annotated[
    int | None, typer.Option(min=1, max=10_000, help="[default: 16]", rich_help_panel=WORKLOAD)
]
PromptTokens = Annotated[
    str | None,
    typer.Option(
        metavar="N|LOW:HIGH",
        help="Of each prompt, behind what it shares. [default: 4:24]",
        rich_help_panel=WORKLOAD,
    ),
]
OutputTokens = Annotated[
    str | None,
    typer.Option(
        metavar="N|LOW:HIGH", help="Of each request. [default: 4:16]", rich_help_panel=WORKLOAD
    ),
]
SharedPrefix = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=100_000,
        help="Tokens that every second prompt begins with. [default: 16]",
        rich_help_panel=WORKLOAD,
    ),
]
Families = Annotated[
    int | None,
    typer.Option(
        min=1, max=1000, help="Different shared prefixes. [default: 2]", rich_help_panel=WORKLOAD
    ),
]
Every = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=10_000,
        help="Steps between two arrivals; 0: all are there at once. [default: 1]",
        rich_help_panel=WORKLOAD,
    ),
]
Seed = Annotated[
    int | None, typer.Option(help="Of what is drawn. [default: 0]", rich_help_panel=WORKLOAD)
]

Engines = Annotated[
    ServingEngine, typer.Option("--engine", help="Who decides.", rich_help_panel=ENGINE)
]
Config = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="KEY=VALUE,...",
        help="Its configuration, with the keys of a scenario's `config`: block_size=8, "
        "num_blocks=64, policy=priority, … A scenario's own is changed where this says so.",
        rich_help_panel=ENGINE,
    ),
]

ModelSeed = Annotated[
    int,
    typer.Option(min=0, help="Of its weights.", rich_help_panel=MODEL),
]
Layers = Annotated[int, typer.Option(min=1, max=64, rich_help_panel=MODEL)]
DTypes = Annotated[
    DType,
    typer.Option("--dtype", help="Only float32 is compared exactly.", rich_help_panel=MODEL),
]
Device = Annotated[
    DeviceName,
    typer.Option(
        help="Where the engine decides, as for `run`; on cuda the model computes there too.",
        rich_help_panel=ENGINE,
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify",
        help="Compute each request again, alone and without a cache, and compare.",
        rich_help_panel=MODEL,
    ),
]

Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="TRACE",
        help="The trace, for `nullblock check`; .gz and .zst are compressed.",
        rich_help_panel=OUTPUT,
    ),
]
Scenario = Annotated[
    Path | None,
    typer.Option(
        "--scenario",
        metavar="FILE",
        help="The workload as a scenario, for `run`.",
        rich_help_panel=OUTPUT,
    ),
]
Stream = Annotated[
    bool, typer.Option("--stream", help="Print each token as it comes.", rich_help_panel=OUTPUT)
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Requests, tokens and figures, as JSON.", rich_help_panel=OUTPUT),
]
