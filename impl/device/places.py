"""Where kernels run: compiled on a GPU, in Triton's interpreter, or their twins."""

import os
import sys
from dataclasses import dataclass

import torch

from nullblock.kernels.arguments import Backend

CPU = torch.device("cpu")
_INTERPRET = "TRITON_INTERPRET"


class NoSuchDevice(Exception):
    """A device that is not to be had here.

    Attributes:
        why: in a few words.
        remedy: what to do about it.
    """

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(f"{why}; {remedy}")
        self.why, self.remedy = why, remedy


@dataclass(frozen=True, slots=True)
class Place:
    """Where the state is, and what changes it."""

    device: torch.device
    kernels: Backend
    """`triton`, or `torch` for the kernels' twins."""


def place(name: str) -> Place:
    """The place called `cuda`, `interpreter` or `twins`; `cuda:1` and so on is a certain GPU.

    Raises NoSuchDevice where there is no GPU, and where Triton was imported already and does not
    do what the place needs: it interprets kernels, or compiles them, for the whole process.
    """
    match name.partition(":")[0]:
        case "twins":
            return Place(CPU, "torch")
        case "interpreter":
            _interpret(True)
            return Place(CPU, "triton")
        case "cuda":
            if not torch.cuda.is_available():
                raise NoSuchDevice("torch finds no GPU", "choose cpu, interpreter or twins")
            _interpret(False)
            return Place(torch.device(name), "triton")
    raise NoSuchDevice(f"nobody knows a device {name!r}", "choose cuda, interpreter or twins")


def _interpret(wanted: bool) -> None:
    """See that Triton interprets, or compiles: it looks at the variable when it is imported."""
    have = os.environ.get(_INTERPRET, "0") not in ("", "0", "false", "off")
    if have != wanted and "triton" in sys.modules:
        raise NoSuchDevice(
            f"Triton {'compiles' if wanted else 'interprets'} kernels in this process",
            f"set {_INTERPRET}={int(wanted)} before it is imported",
        )
    os.environ[_INTERPRET] = str(int(wanted))
