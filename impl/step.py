"""What one step decides, and what comes of its output: arrays, and lists of ids beside them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nullblock.impl.arrays import Blocks, Flags, Ints, Part, Tokens
from nullblock.impl.requests import Request


@dataclass(slots=True)
class Step:
    """The decision of one `schedule()`: what a worker has to know, and nobody changes any more.

    The arrays and `ids` run in parallel: everybody scheduled, in that order; the first `running`
    of them ran before, the others are those of `admitted`.
    """

    ids: list[str]
    rows: Ints
    """Where each stands among the rows of the engine: its own as long as it runs, and so a place
    in a worker's persistent batch."""
    num_scheduled_tokens: Ints
    samples: Flags
    """Whether the step reaches the request's last token, so that one is sampled."""
    running: int
    admitted: list[Request]
    """Of these the worker knows the ones that were preempted once."""
    num_computed_tokens: Ints
    """Before the step."""
    num_output_tokens: Ints
    new_block_counts: Ints
    """Blocks appended in this step; of an admitted one, its whole table (OUT-2)."""
    new_block_ids: Blocks
    """Those blocks, one request after another."""
    all_token_ids: dict[str, list[int]]
    """Of known requests that were not in the step before (OUT-3)."""
    preempted: list[str]
    finished: list[str]
    """Who ended since the step before."""
    num_common_prefix_blocks: int


@dataclass(slots=True)
class InFlight:
    """A step whose output has not come, and what the engine needs to find its requests again."""

    step: Step
    requests: list[Request]
    """Who is scheduled, in the step's order."""
    places: Part
    """Where they stand in the running list, until somebody leaves it."""
    visits: Ints
    """Their stays in the rows of the step."""
    departures: int
    """How many had left the running list when the step was decided."""


@dataclass(slots=True)
class Outputs:
    """What one `update_from_output()` passes on to clients; `ids` and arrays run in parallel."""

    ids: list[str]
    tokens: Tokens
    """One for each."""
    why: NDArray[np.int8]
    """CONTINUE, or how the request ended: STOPPED by eos, STOPPED_BY_ID, LENGTH (UPD-4)."""
    rejected: list[tuple[str, str]]
    """Who was refused at arrival, and why (LIFE-2)."""
