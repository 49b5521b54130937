"""The arrays that everything here is made of, and one way to walk over them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Blocks = NDArray[np.int32]
"""Numbers of blocks of the pool."""
Tokens = NDArray[np.int64]
"""Token ids."""
Flags = NDArray[np.bool_]
Part = slice | Ints
"""Some of the running list: all indices from one to another, or those listed."""


def cells(first: Ints, counts: Ints, total: int) -> tuple[Part, Ints]:
    """Of each row the `counts[i]` cells from column `first[i]` on: rows and columns.

    `total` is the sum of the counts, none of which is 0.
    """
    if total == len(counts):
        return slice(None), first
    rows = np.arange(len(counts)).repeat(counts)
    before = np.cumsum(counts) - counts
    return rows, (first - before)[rows] + np.arange(total)


def grown(array: NDArray[Any], n: int, width: int) -> NDArray[Any]:
    """The same numbers in a larger array."""
    larger = np.zeros((n, width), array.dtype)
    larger[: array.shape[0], : array.shape[1]] = array
    return larger
