"""The engines by name. Each is imported only when it is made: an engine may be heavy."""

import enum
from importlib import import_module
from typing import cast

from nullblock.conformance.engine import Engine
from nullblock.conformance.scenario_format import Config
from nullblock.spec.profiles import Semantics


class EngineName(enum.StrEnum):
    """Engines of this project; ``adapters/NAME.py`` defines ``create(config, semantics)``."""

    spec = "spec"
    reference = "reference"


def make_engine(name: EngineName | str, config: Config, semantics: Semantics) -> Engine:
    """A fresh engine. Raises ``ValueError`` for a name that no engine has."""
    adapter = import_module(f"nullblock.conformance.adapters.{EngineName(name)}")
    return cast(Engine, adapter.create(config, semantics))
