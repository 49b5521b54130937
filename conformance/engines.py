"""The engines by name. Each is imported only when it is made: an engine may be heavy."""

import enum
from importlib import import_module
from typing import Any, cast

from nullblock.conformance import scope
from nullblock.conformance.engine import Engine, Feature
from nullblock.conformance.errors import OutOfScope
from nullblock.conformance.lines.extent import extent
from nullblock.conformance.scenario_format import Config
from nullblock.spec.profiles import Semantics


class EngineName(enum.StrEnum):
    """Engines of this project.

    ``adapters/NAME.py`` defines ``FEATURES`` and ``create(config, semantics)``.
    """

    spec = "spec"
    reference = "reference"
    impl = "impl"


class DeviceName(enum.StrEnum):
    """Where the engine impl keeps its state and decides."""

    cpu = "cpu"
    """NumPy."""
    cuda = "cuda"
    """The kernels, on a GPU."""
    interpreter = "interpreter"
    """The kernels, in Triton's interpreter: slow, and needs no GPU."""
    twins = "twins"
    """What the kernels compute, in plain torch on the CPU."""


def features_of(
    name: EngineName | str, device: DeviceName | str = DeviceName.cpu
) -> frozenset[Feature]:
    """What that engine does beyond the least, on a device if it knows any.

    Raises ``ValueError`` for a name that no engine, or no device, has.
    """
    adapter = _adapter(name)
    on_cpu = DeviceName(device) == DeviceName.cpu
    return cast(frozenset[Feature], adapter.FEATURES if on_cpu else adapter.ON_A_DEVICE)


def make_engine(
    name: EngineName | str,
    config: Config,
    semantics: Semantics,
    device: DeviceName | str = DeviceName.cpu,
) -> Engine:
    """A fresh engine; only `impl` knows other devices than `cpu`.

    Raises:
        ValueError: no engine has that name, or no device has.
        OutOfScope: the configuration needs what this engine does not do, or the device is not
            to be had.
    """
    scope.check_engine(config, name, extent(features_of(name), semantics))
    if EngineName(name) == EngineName.impl:
        return cast(Engine, _adapter(name).create(config, semantics, DeviceName(device)))
    if device != DeviceName.cpu:
        raise OutOfScope(f"the engine {name} on the device {device}", "--engine impl has devices")
    return cast(Engine, _adapter(name).create(config, semantics))


def _adapter(name: EngineName | str) -> Any:
    return import_module(f"nullblock.conformance.adapters.{EngineName(name)}")
