"""What one step decides, and what comes of its output: arrays, and lists of ids beside them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nullblock.impl.requests import Request, Tokens

Ints = NDArray[np.int64]
Codes = NDArray[np.int8]


@dataclass(slots=True)
class Step:
    """The decision of one `schedule()`.

    Arrays and `ids` run in parallel: everybody scheduled, in that order; the first `running` of them
    ran before. Of those admitted, the worker knows the ones that were preempted once.
    """

    ids: list[str]
    seats: Ints
    num_scheduled_tokens: Ints
    samples: NDArray[np.bool_]
    """Whether the step reaches the request's last token, so that one is sampled."""
    running: int
    admitted: list[Request]
    num_computed_tokens: Ints
    """Before the step."""
    num_output_tokens: Ints
    new_block_counts: Ints
    """Blocks appended in this step; of an admitted one, its whole table."""
    new_block_ids: NDArray[np.int32]
    """Those blocks, one request after another."""
    all_token_ids: dict[str, list[int]]
    """Of known requests that were not in the step before."""
    preempted: list[str]
    finished: list[str]
    """Who ended since the step before."""
    num_common_prefix_blocks: int
    requests: list[Request] | None = None
    """Who was scheduled, once somebody of them has left the seat while the step is in flight."""


CONTINUE, STOPPED, STOPPED_BY_ID, LENGTH = range(4)


@dataclass(slots=True)
class Outputs:
    """What one `update_from_output()` passes on; parallel lists."""

    ids: list[str]
    tokens: Tokens
    why: Codes
    """CONTINUE, or how the request ended."""
    rejected: list[tuple[str, str]]
    """Who was refused at arrival, and why."""
