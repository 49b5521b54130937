"""The error word of the control plane: what a kernel refused to do, and why.

One int32 on the device. A bit that is set stays set until somebody clears it, and whoever sees one
knows that the state is not to be used any further: decisions after it mean nothing.
"""

from enum import IntFlag

import torch
import triton
import triton.language as tl

from nullblock.kernels.errors import names, report_torch


class Fault(IntFlag):
    """The bits of the error word."""

    POOL = 1
    """More blocks were to be popped than are free."""
    RING = 2
    """The free queue's ring had no room, or its holes do not add up."""
    INDEX = 4
    """The hash index had no slot for a block, or a search in it did not end."""
    TURNS = 8
    """The running phase took more turns than it can need."""
    TOKENS = 16
    """A running request is longer than max_model_len allows: it would get less than no tokens."""
    ROW = 32
    """A row that is no request's, or in a stage in which this cannot happen to it."""
    WAITING = 64
    """The waiting queue had no room."""
    REFERENCES = 128
    """A block was released more often than it was held."""
    COUNT = 256
    """A count of the state is negative, or more than there is room for: it is taken for none."""


POOL = tl.constexpr(Fault.POOL.value)
RING = tl.constexpr(Fault.RING.value)
INDEX = tl.constexpr(Fault.INDEX.value)
TURNS = tl.constexpr(Fault.TURNS.value)
TOKENS = tl.constexpr(Fault.TOKENS.value)
ROW = tl.constexpr(Fault.ROW.value)
WAITING = tl.constexpr(Fault.WAITING.value)
REFERENCES = tl.constexpr(Fault.REFERENCES.value)
COUNT = tl.constexpr(Fault.COUNT.value)


@triton.jit
def bounded(a, n, most, BIT: tl.constexpr):
    """A count that the state keeps, or one in each lane: n where it is one of 0 to `most`;
    elsewhere 0, and a bit. What a loop runs up to has gone through here, or through `lay_out`.
    """
    wrong = (n < 0) | (n > most)
    tl.atomic_or(a.error + n * 0, BIT, mask=wrong)
    return tl.where(wrong, 0, n)


def bounded_torch(error: torch.Tensor, n: torch.Tensor, most: int, bit: Fault) -> torch.Tensor:
    """The twin of `bounded`, which is given the error word."""
    wrong = (n < 0) | (n > most)
    report_torch(error, wrong, bit)
    return n.masked_fill(wrong, 0)


def raise_if(error: torch.Tensor) -> None:
    """Raise RuntimeError if an error word says anything; waits for the device."""
    if said := Fault(int(error.item())):
        raise RuntimeError(f"the scheduler's kernels stopped: {names(said)}")
