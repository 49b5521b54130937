"""Keys: what a full block is cached under, so that equal keys mean equal content (HASH-1).

The content of a block is all that comes before it, its tokens, and what else tells it apart
(`Requests.extra`). As a polynomial it has, for block j of a request, the coefficients

    extra, token + 1, token + 1, ...    at the powers    j * (block_size + 1), and on

over the integers modulo PRIME = 2**61 - 1. The key is the value of that polynomial at two secret
points, drawn when the engine is made; the first is stored plus one, so that no key is (0, 0).

Two different contents are two different polynomials (the last coefficient is not zero), and their
difference has at most n roots, n the number of their coefficients. So for any two contents of up
to n tokens and extras, chosen without knowledge of the points, the probability over the points
that their keys are equal is at most (n / PRIME) ** 2: for a million tokens 2**-82. That is what
stands here for the specification's ideal hash; the NumPy engine, which compares tokens, needs no
such assumption. Keys must not be shown to strangers.

The key of a block is the key of the one before it plus what the block itself contributes: so keys
of a whole prompt are one prefix sum.
"""

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
