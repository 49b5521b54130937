"""The fast engine: vLLM's decisions over structures of arrays.

    from nullblock.impl import Request, Scheduler, update_from_output

One full-attention group, synchronous or scheduling ahead. Needs NumPy, which a base install leaves
out: ``pip install 'nullblock[impl]'``. How it works: README.md beside this file.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nullblock.impl.output_phase import tokens_to_compute
    from nullblock.impl.requests import Request
    from nullblock.impl.scheduler import Scheduler
    from nullblock.impl.step import Outputs, Step
    from nullblock.impl.update import update_from_output

__all__ = ["Outputs", "Request", "Scheduler", "Step", "tokens_to_compute", "update_from_output"]

_HOME = {
    "Outputs": "step",
    "Request": "requests",
    "Scheduler": "scheduler",
    "Step": "step",
    "tokens_to_compute": "output_phase",
    "update_from_output": "update",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is asked for. Raises ImportError where there is no NumPy."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("numpy") is None:
        raise ImportError(f"{__name__}.{name} needs NumPy: pip install 'nullblock[impl]'")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
