"""The secret points that keys are computed at, and their powers. What for: `keys.py`."""

import secrets
from random import Random
from typing import NamedTuple

import torch

from nullblock.kernels.control.sizes import Sizes

PRIME = (1 << 61) - 1


class Weights(NamedTuple):
    """The powers of the secret points."""

    inner: torch.Tensor
    """int64 [2, block_size + 1]: of each point, the powers 0 to block_size."""
    outer: torch.Tensor
    """int64 [2, row_blocks]: of each point, the power that a block's first coefficient has."""


def new_weights(sizes: Sizes, device: torch.device, seed: int | None = None) -> Weights:
    """The powers of two points: secret ones, or for tests those that a seed gives."""
    random = secrets.SystemRandom() if seed is None else Random(seed)
    points = [random.randrange(2, PRIME) for _ in range(2)]
    width = sizes.block_size + 1
    inner = [_powers(point, width) for point in points]
    outer = [_powers(pow(point, width, PRIME), sizes.row_blocks) for point in points]
    return Weights(
        torch.tensor(inner, dtype=torch.int64, device=device),
        torch.tensor(outer, dtype=torch.int64, device=device),
    )


def _powers(base: int, count: int) -> list[int]:
    """base ** 0, base ** 1, ..., modulo PRIME."""
    found = [1]
    while len(found) < count:
        found.append(found[-1] * base % PRIME)
    return found[:count]
