"""The error word: how a kernel says that it refused something.

An error word is one int32 on the device. A kernel never writes out of bounds and never loops
without a bound; where its input would make it, it leaves that part out and sets a bit. Bits stay
until somebody clears them, so that a caller who enqueues many steps looks once.
"""

from enum import IntFlag

import torch
import triton
import triton.language as tl


class Error(IntFlag):
    """What was refused; the values are the bits of an error word."""

    COUNT = 1
    """A count on the device is negative, or more than there is room for."""
    ROW = 2
    """A request's row does not exist, or was named twice where once is the rule."""
    TABLE = 4
    """A token has no block in its request's table (TABLE-8)."""
    BLOCK = 8
    """A block is not one of the pool's, or it is the null block, which holds no token."""
    SLOT = 16
    """A slot is not one of the cache's."""
    ROOM = 32
    """What should be appended does not fit its row."""
    ALIAS = 64
    """A block was to be copied to and from, or written twice, in one go."""
    NOT_A_NUMBER = 128
    """A logit is NaN."""
    TOKENS = 256
    """A scheduled request has no token to compute, or the batch more than it has room for."""


COUNT = tl.constexpr(Error.COUNT.value)
ROW = tl.constexpr(Error.ROW.value)
TABLE = tl.constexpr(Error.TABLE.value)
BLOCK = tl.constexpr(Error.BLOCK.value)
SLOT = tl.constexpr(Error.SLOT.value)
ROOM = tl.constexpr(Error.ROOM.value)
ALIAS = tl.constexpr(Error.ALIAS.value)
NOT_A_NUMBER = tl.constexpr(Error.NOT_A_NUMBER.value)
TOKENS = tl.constexpr(Error.TOKENS.value)


@triton.jit
def report(error, wrong, bit):
    """Set a bit if any of the lanes `wrong` is."""
    if tl.max(wrong.to(tl.int32), 0) > 0:
        tl.atomic_or(error, bit)


def report_torch(error: torch.Tensor, wrong: torch.Tensor, bit: IntFlag) -> None:
    """Set a bit if any element of `wrong` is, without waiting for the device."""
    error |= wrong.any().to(error.dtype) * int(bit)


def new_error(device: torch.device | str) -> torch.Tensor:
    """An error word that says nothing: int32 ``[1]``."""
    return torch.zeros(1, dtype=torch.int32, device=device)


def names(said: IntFlag) -> str:
    """The bits that are set in an error word, by name."""
    return ", ".join(flag.name or "?" for flag in type(said) if flag in said)


def raise_if(error: torch.Tensor) -> None:
    """Raise RuntimeError if an error word says anything; waits for the device."""
    if said := Error(int(error.item())):
        raise RuntimeError(f"a kernel refused its input: {names(said)}")
