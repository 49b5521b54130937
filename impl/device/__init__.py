"""The fast engine with all its state on a device: every decision is made by kernels.

    from nullblock.impl.device import Scheduler

    scheduler = Scheduler(config, "cuda")

It is called as `nullblock.impl.Scheduler` is. Needs torch and Triton, which a base install leaves
out: ``pip install 'nullblock[gpu]'``. How it works: README.md of the folder above.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nullblock.impl.device.loop import Loop
    from nullblock.impl.device.places import NoSuchDevice
    from nullblock.impl.device.scheduler import Scheduler

__all__ = ["Loop", "NoSuchDevice", "Scheduler"]

_HOME = {"Loop": "loop", "NoSuchDevice": "places", "Scheduler": "scheduler"}


def __getattr__(name: str) -> Any:
    """Load a public name when it is asked for. Raises ImportError where torch or Triton lacks."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for needed in ("numpy", "torch", "triton"):
        if find_spec(needed) is None:
            raise ImportError(f"{__name__}.{name} needs {needed}: pip install 'nullblock[gpu]'")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
