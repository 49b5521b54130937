"""The engines by name. Each is imported only when it is made: an engine may be heavy."""

import enum
from importlib import import_module
from typing import Any, cast

from nullblock.conformance import scope
from nullblock.conformance.engine import Engine, Feature
from nullblock.conformance.scenario_format import Config
from nullblock.spec.profiles import Semantics


class EngineName(enum.StrEnum):
    """Engines of this project.

    ``adapters/NAME.py`` defines ``FEATURES`` and ``create(config, semantics)``.
    """

    spec = "spec"
    reference = "reference"
    impl = "impl"


def features_of(name: EngineName | str) -> frozenset[Feature]:
    """What that engine does beyond the least. Raises ``ValueError`` for a name no engine has."""
    return cast(frozenset[Feature], _adapter(name).FEATURES)


def make_engine(name: EngineName | str, config: Config, semantics: Semantics) -> Engine:
    """A fresh engine.

    Raises:
        ValueError: no engine has that name.
        OutOfScope: the configuration needs what this engine does not do.
    """
    scope.check_engine(config, name, features_of(name))
    return cast(Engine, _adapter(name).create(config, semantics))


def _adapter(name: EngineName | str) -> Any:
    return import_module(f"nullblock.conformance.adapters.{EngineName(name)}")
