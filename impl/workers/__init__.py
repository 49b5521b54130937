"""Symmetric workers: one decision a step, told to all, and a mirror of the scheduler in each.

    from nullblock.impl.workers import Channel, Encoder, Mirror, model_input

The scheduler's `Step` becomes a message of a few bytes a change (`Encoder`), goes to every worker
at once (`Channel`, which needs torch), and each applies it to a batch of its own (`Mirror`). How
it works, and the layout of a message byte by byte: README.md beside this file.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nullblock.impl.workers.broadcast import Channel, joined
    from nullblock.impl.workers.device import DeviceMirror
    from nullblock.impl.workers.encode import Encoder
    from nullblock.impl.workers.errors import (
        Diverged,
        Malformed,
        OutOfTurn,
        Unreachable,
        WorkerError,
    )
    from nullblock.impl.workers.inputs import ModelInput, model_input
    from nullblock.impl.workers.mirror import Mirror, Work
    from nullblock.impl.workers.view import View, digest, view_of_scheduler

__all__ = [
    "Channel",
    "DeviceMirror",
    "Diverged",
    "Encoder",
    "Malformed",
    "Mirror",
    "ModelInput",
    "OutOfTurn",
    "Unreachable",
    "View",
    "Work",
    "WorkerError",
    "digest",
    "joined",
    "model_input",
    "view_of_scheduler",
]

_HOME = {
    "Channel": "broadcast",
    "DeviceMirror": "device",
    "Diverged": "errors",
    "Encoder": "encode",
    "Malformed": "errors",
    "Mirror": "mirror",
    "ModelInput": "inputs",
    "OutOfTurn": "errors",
    "Unreachable": "errors",
    "View": "view",
    "Work": "mirror",
    "WorkerError": "errors",
    "digest": "view",
    "joined": "broadcast",
    "model_input": "inputs",
    "view_of_scheduler": "view",
}

_ON_TORCH = {"Channel", "DeviceMirror", "joined"}


def __getattr__(name: str) -> Any:
    """Load a public name when it is asked for. Raises ImportError where what it needs is not
    installed.
    """
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    for needed, extra in (("numpy", "impl"), ("torch", "gpu"))[: 2 if name in _ON_TORCH else 1]:
        if find_spec(needed) is None:
            raise ImportError(f"{__name__}.{name} needs it: pip install 'nullblock[{extra}]'")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
