"""The options that several commands share: which semantics is meant.

``--profile NAME`` and any number of ``--set SWITCH=VALUE``; what they come to is a value and a
label under which outputs name it.
"""

from typing import Annotated

import typer

from nullblock.conformance.console import usage_error
from nullblock.conformance.engines import DeviceName, EngineName
from nullblock.spec.profiles import PROFILES, Semantics, UnknownSwitch, profile
from nullblock.spec.switches import with_switches

NORMATIVE = "normative"
"""What a command follows unless it is told otherwise."""

ProfileName = Annotated[
    str,
    typer.Option("--profile", help=f"Which semantics: {', '.join(PROFILES)}; see `profiles`."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SWITCH=VALUE", help="Change a switch of the profile."),
]
Device = Annotated[
    DeviceName,
    typer.Option(
        help="Where the engine impl decides: NumPy (cpu), the kernels on a GPU (cuda) or in "
        "Triton's interpreter, or their twins in plain torch."
    ),
]


def check_device(engine: EngineName, device: DeviceName) -> None:
    """Raises :class:`typer.BadParameter` for a device of an engine that has none."""
    if device != DeviceName.cpu and engine != EngineName.impl:
        raise usage_error(f"only --engine impl has devices, not {engine}", "--device")


def semantics(name: str, settings: list[str] | None) -> Semantics:
    """The profile called `name` with its settings applied.

    Raises :class:`typer.BadParameter` for a name or a value that nobody knows.
    """
    try:
        return with_switches(profile(name), settings or [])
    except UnknownSwitch as error:
        raise usage_error(str(error), "--profile, --set") from None


def label(name: str, settings: list[str] | None) -> str:
    """What outputs call the profile: its name, and the switches that were set."""
    return ", ".join([name, *(settings or [])])
