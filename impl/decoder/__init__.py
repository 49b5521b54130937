"""A small decoder over the paged cache: real tokens from the fast engine's decisions.

    from nullblock.impl.decoder import Server, Shape, Worker, random_weights

Needs torch, which a base install leaves out: ``pip install 'nullblock[gpu]'``. What it is for and
how it is used: README.md beside this file.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nullblock.impl.decoder.criterion import Outcome, Verdict, judge
    from nullblock.impl.decoder.serving import Server, Token
    from nullblock.impl.decoder.shape import Shape
    from nullblock.impl.decoder.weights import Weights, place, random_weights
    from nullblock.impl.decoder.worker import UnwrittenRead, Worker, use_one_thread

__all__ = [
    "Outcome",
    "Server",
    "Shape",
    "Token",
    "UnwrittenRead",
    "Verdict",
    "Weights",
    "Worker",
    "judge",
    "place",
    "random_weights",
    "use_one_thread",
]

_HOME = {
    "Outcome": "criterion",
    "Server": "serving",
    "Shape": "shape",
    "Token": "serving",
    "UnwrittenRead": "worker",
    "Verdict": "criterion",
    "Weights": "weights",
    "Worker": "worker",
    "judge": "criterion",
    "place": "weights",
    "random_weights": "weights",
    "use_one_thread": "worker",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is asked for. Raises ImportError where there is no torch."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec("torch") is None:
        raise ImportError(f"{__name__}.{name} needs torch: pip install 'nullblock[gpu]'")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
