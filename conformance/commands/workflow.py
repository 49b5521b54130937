"""``nullblock workflow``: the CI job of an engine's own repository."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from nullblock.conformance.console import output_to, usage_error
from nullblock.conformance.options import ProfileName
from nullblock.spec.profiles import PROFILES

SCHEDULER, PROFILE = "my.engine:Scheduler", "vllm-0.22.1"
"""What the template names."""


def command(
    scheduler: Annotated[
        str,
        typer.Option(help="The scheduler class, as pytest is told it.", metavar="MODULE:CLASS"),
    ] = SCHEDULER,
    async_scheduler: Annotated[
        str | None,
        typer.Option(help="The class that schedules ahead, if any.", metavar="MODULE:CLASS"),
    ] = None,
    profile_name: ProfileName = PROFILE,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write there, whole or not at all.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="The same text inside a JSON object.")
    ] = False,
) -> None:
    """Print a GitHub workflow: the rules checked and proved, the scheduler beside them, traces.

    Exit codes: 0 it is printed; 2 command line.
    """
    if profile_name not in PROFILES:
        raise usage_error(f"no profile {profile_name!r}; there are {', '.join(PROFILES)}")
    for name in filter(None, (scheduler, async_scheduler)):
        if not all(part.isidentifier() for part in name.replace(":", ".").split(".")):
            raise usage_error(f"{name!r} is no MODULE:CLASS", "--scheduler")
    text = workflow(scheduler, async_scheduler, profile_name)
    with output_to(output) as sink:
        sink.write((json.dumps({"workflow": text}) + "\n" if as_json else text).encode())


def workflow(scheduler: str, async_scheduler: str | None, profile_name: str) -> str:
    """The workflow for a scheduler."""
    template = (files("nullblock.conformance.ci") / "nullblock.yml").read_text()
    named = f"--nullblock-scheduler {scheduler}"
    if async_scheduler is not None:
        named += f" --nullblock-async-scheduler {async_scheduler}"
    text = template.replace(f"--nullblock-scheduler {SCHEDULER}", named)
    text = text.replace(f"--scheduler {SCHEDULER}", f"--scheduler {scheduler}")
    return text.replace(f"--nullblock-profile {PROFILE}", f"--nullblock-profile {profile_name}")
