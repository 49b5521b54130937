"""More room: the same state in larger arrays.

How many requests may be alive and how long they may be is fixed in the arrays, and kernels are
compiled for it. An engine that meets more copies its state into larger ones, between two kernels;
each size at least doubles, so that it happens seldom. Where it must not (a captured graph knows
the old addresses), the engine is made with enough room.
"""

from typing import Any

import torch

from nullblock.kernels.control.exchange import Exchange
from nullblock.kernels.control.sizes import Sizes
from nullblock.kernels.control.state import State, new_state
from nullblock.kernels.control.words import WAITING_HEAD, WAITING_TAIL


def grown(state: State, sizes: Sizes, seed: int) -> State:
    """The same state with other sizes, of which none is smaller.

    `seed`: that of `state`, so that equal contents keep equal keys.
    """
    larger = new_state(sizes, state.device, seed)
    for part in ("requests", "pool", "cache", "decision", "scratch"):
        _copy_all(getattr(state.arrays, part), getattr(larger.arrays, part))
    for name in ("running", "ended"):
        _copy(getattr(state.arrays.queues, name), getattr(larger.arrays.queues, name))
    _copy(state.arrays.words, larger.arrays.words)
    _copy(state.arrays.error, larger.arrays.error)
    positions = torch.arange(state.word(WAITING_HEAD), state.word(WAITING_TAIL))
    waiting = state.arrays.queues.waiting[(positions % state.sizes.waiting_capacity)]
    larger.arrays.queues.waiting[positions % sizes.waiting_capacity] = waiting
    return larger


def copy_exchange(source: Exchange, to: Exchange) -> None:
    """The log and the counters in larger arrays; the mailbox has to be empty."""
    _copy_all(source.log, to.log)
    _copy(source.progress, to.progress)
    _copy(source.mail.posted, to.mail.posted)


def _copy_all(source: Any, to: Any) -> None:
    """Each array of a tuple into the one of its name."""
    for name in source._fields:
        _copy(getattr(source, name), getattr(to, name))


def _copy(source: torch.Tensor, to: torch.Tensor) -> None:
    """An array into the corner of a larger one."""
    to[tuple(slice(n) for n in source.shape)] = source
