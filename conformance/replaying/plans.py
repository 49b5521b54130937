"""From a command line to the runs that it asks for, and back."""

import re
import shlex
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any

from nullblock.conformance.replaying import configuration
from nullblock.conformance.replaying.arrivals import Pace
from nullblock.conformance.replaying.clock import StepTime
from nullblock.conformance.replaying.engine import ReplayEngineName
from nullblock.conformance.replaying.run import Plan


def each(plan: Plan, engines: list[ReplayEngineName], configs: list[str]) -> list[Plan]:
    """The plan for every engine under every configuration.

    Raises InputError for a configuration that is none, OSError for a file that cannot be read.
    """
    made = {text: configuration.configuration(text) for text in configs}
    found = []
    for engine, text in product(dict.fromkeys(engines), made):
        names = [engine.value] if len(set(engines)) > 1 or len(made) == 1 else []
        names += [text] if len(made) > 1 else []
        found.append(
            replace(
                plan, engine=engine, config=made[text], config_text=text, label=" · ".join(names)
            )
        )
    return found


def traces_in(folder: Path, plans: list[Plan]) -> list[Plan]:
    """The plans, each with a trace of its own in a folder."""
    if len(plans) == 1:
        return [replace(plans[0], trace=folder / "trace.jsonl.zst")]
    return [
        replace(plan, trace=folder / f"{number}-{_slug(plan.label)}.jsonl.zst")
        for number, plan in enumerate(plans, start=1)
    ]


def _slug(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.=-]+", "-", label).strip("-")[:80]


_PACE = {
    "speed": "--speed",
    "users": "--users",
    "gap": "--session-gap",
    "max_think": "--max-think",
    "limit": "--limit",
    "seconds": "--seconds",
}


def command_line(plans: list[Plan]) -> str:
    """A command that makes the same runs again: what differs from the defaults."""
    first = plans[0]
    words: list[Any] = ["nullblock", "replay", first.workload]
    for engine in dict.fromkeys(plan.engine for plan in plans):
        words += ["--engine", engine.value]
    for text in dict.fromkeys(plan.config_text for plan in plans):
        words += ["--config", text]
    profile, *settings = first.profile.split(", ")
    if any(plan.engine != ReplayEngineName.vllm for plan in plans):
        words += ["--profile", profile]
        words += [word for setting in settings for word in ("--set", setting)]
    for field in fields(Pace):
        value = getattr(first.pace, field.name)
        if field.name in _PACE and value != field.default:
            words += [_PACE[field.name], f"{value:.12g}"]
    if first.pace.ends_by_eos:
        words += ["--ends-by", "eos"]
    if first.format is not None:
        words += ["--format", first.format.value]
    for option, value, default in (
        ("--scale-lengths", first.scale, 1),
        ("--shared-prefix", first.shared_prefix, 0),
        ("--step-ms", first.step_time.step_seconds * 1e3, StepTime().step_seconds * 1e3),
        ("--token-us", first.step_time.token_seconds * 1e6, StepTime().token_seconds * 1e6),
    ):
        if value != default:
            words += [option, f"{value:.12g}"]
    for option, path in (("--python", first.python), ("--preload", first.preload)):
        if path is not None:
            words += [option, path]
    return shlex.join(str(word) for word in words)
