"""From what stands on the command line to an engine that can be asked."""

import inspect
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from nullblock.conformance.adapters.shaped import Shaped
from nullblock.conformance.engine import ALL_FEATURES, Dump, Engine, Feature
from nullblock.conformance.errors import InputError
from nullblock.conformance.lockstep.beside import Make, Subject
from nullblock.conformance.scenario_format import Config
from nullblock.spec.profiles import Semantics

PLAIN: dict[str, Any] = {"enable_prefix_caching": False}
PROBES: dict[Feature, dict[str, Any]] = {
    Feature.async_scheduling: {"async_scheduling": True},
    Feature.priority: {"policy": "priority"},
    Feature.prefix_caching: {"enable_prefix_caching": True},
    Feature.unchunked: {"enable_chunked_prefill": False},
    Feature.pipeline: {"pipeline_parallel_size": 2},
    Feature.kv_events: {"kv_events": True, "enable_prefix_caching": True},
    Feature.drafts: {"num_spec_tokens": 1},
}
"""Configurations that show whether a feature is refused."""
SHAPE = ("schedule", "update_from_output", "add_request")


class Unusable(InputError):
    """What is named is no scheduler that can be asked."""

    exit_code = 2
    kind = "usage"


@dataclass(slots=True)
class Loaded:
    """A subject, and what was found out about it."""

    subject: Subject
    lacking: dict[Feature, str] = field(default_factory=dict)
    """Why a feature is not asked for, by feature."""
    hidden: str = ""
    """Why not all of the state is compared."""


def load(
    name: str | None, async_name: str | None, wanted: str | None, semantics: Semantics
) -> Loaded:
    """The scheduler of that name, or those.

    Raises :class:`Unusable` with one line for anything that cannot be asked.
    """
    found = resolve(name) if name else None
    ahead = resolve(async_name) if async_name else None
    if found is not None and not is_shaped(found):
        if ahead is not None:
            raise Unusable(
                "an adapter says itself what it does", place="--nullblock-async-scheduler"
            )
        make: Make = found
    else:
        make = _maker(found, ahead)
    if found is not None and is_ahead(found) and ahead is None:
        found, ahead, make = None, found, _maker(None, found)
    mode = {} if found is not None else {"async_scheduling": True}
    engine = _first(make, name or async_name or "", semantics, mode)
    why = "it has no method for it" if isinstance(engine, Shaped) else "its adapter does without"
    lacking = dict.fromkeys(ALL_FEATURES - engine.features, why)
    if found is not None and is_shaped(found) and ahead is None:
        lacking[Feature.async_scheduling] = "name its class with --nullblock-async-scheduler"
    for feature, config in PROBES.items():
        if feature not in lacking and (why := _refusal(make, PLAIN | mode | config, semantics)):
            lacking[feature] = why
    shows, hidden = _shows(engine)
    asked = _asked(wanted, lacking)
    subject = Subject(name or async_name or "", make, asked, shows, found is not None)
    return Loaded(subject, lacking, hidden)


def resolve(name: str) -> Any:
    """What ``module:attribute`` names. Raises :class:`Unusable`."""
    module_name, colon, path = name.partition(":")
    if not (module_name and colon and path):
        raise Unusable(f"{name!r} is no MODULE:CLASS", "write for example my.engine:Scheduler")
    try:
        found: Any = import_module(module_name)
    except Exception as error:
        raise Unusable(f"{module_name}: {type(error).__name__}: {error}") from error
    for part in path.split("."):
        if not hasattr(found, part):
            known = [n for n, v in vars(found).items() if inspect.isclass(v)]
            raise Unusable(f"{module_name} has no {path}", f"it has {', '.join(known[:9])}")
        found = getattr(found, part)
    if not callable(found):
        raise Unusable(f"{name} is neither a class nor a function")
    return found


def is_shaped(found: Any) -> bool:
    """Whether it is a scheduler class of vLLM's shape; any other callable makes an Engine."""
    return inspect.isclass(found) and any(hasattr(found, method) for method in SHAPE[1:])


def is_ahead(found: Any) -> bool:
    """Whether a class can do nothing but schedule ahead."""
    return any(base.__name__ == "AsyncScheduler" for base in getattr(found, "__mro__", ()))


def _maker(kind: Any, ahead: Any) -> Make:
    """What makes an engine around one of two classes."""

    def make(config: Config, semantics: Semantics) -> Engine:
        chosen = ahead if config.async_scheduling else kind
        if chosen is None:
            raise Unusable("no class for that mode was named", place="config.async_scheduling")
        return Shaped(chosen, config, semantics)

    return make


def _first(make: Make, name: str, semantics: Semantics, mode: dict[str, Any]) -> Engine:
    """An engine of the plainest kind. Raises :class:`Unusable`."""
    try:
        engine = make(Config(**PLAIN, **mode), semantics)
    except InputError as error:
        raise Unusable(f"{name}: {error}") from error
    except Exception as error:
        what = f"{name} cannot be built: {type(error).__name__}: {error}"
        raise Unusable(
            " ".join(what.split()), "see conformance/pytest_plugin/README.md"
        ) from error
    missing = [n for n in ("schedule", "update", "add", "features") if not hasattr(engine, n)]
    if missing:
        raise Unusable(f"{name} makes something without {missing[0]}", "it has to be an Engine")
    return engine


def _refusal(make: Make, config: dict[str, Any], semantics: Semantics) -> str:
    """What an engine says to a configuration that it does not take; nothing if it does."""
    try:
        make(Config(**config), semantics)
    except Exception as error:
        return " ".join(f"{type(error).__name__}: {error}".split())
    return ""


def _shows(engine: Engine) -> tuple[Dump, str]:
    """How much of its state an engine shows, and what hides the rest."""
    hidden = ""
    levels: tuple[tuple[Dump, str], ...] = (("full", "free_queue"), ("brief", "running"))
    for dump, key in levels:
        try:
            shown = engine.state(dump)
        except Exception as error:
            hidden = hidden or f"{type(error).__name__}: {error}"
            continue
        if shown is not None and key in shown:
            return dump, hidden
    return "none", hidden or "it shows no state"


def _asked(wanted: str | None, lacking: Iterable[Feature]) -> frozenset[Feature]:
    """The features to ask for, of those that are there. Raises :class:`Unusable`."""
    there = ALL_FEATURES - set(lacking)
    if wanted is None:
        return there - {Feature.unchecked_input}
    if wanted == "all":
        return there
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    without = {_feature(name.removeprefix("no-")) for name in names if name.startswith("no-")}
    only = {_feature(name) for name in names if not name.startswith("no-")}
    return (there & only if only else there - {Feature.unchecked_input}) - without


def _feature(name: str) -> Feature:
    try:
        return Feature[name]
    except KeyError:
        known = ", ".join(feature.name for feature in Feature)
        raise Unusable(
            f"no feature {name!r}", f"there are {known}", "--nullblock-features"
        ) from None


def find_modules_from(folders: Sequence[str]) -> None:
    """Let modules be found where pytest was started, behind everything that is installed."""
    sys.path.extend(folder for folder in folders if folder not in sys.path)
