"""What host and device tell each other while neither waits: a mailbox, a log, and their counters.

The host posts letters (arrivals, ends, a pause) and reads what was decided from a log; kernels
take letters and write the log, and count how far they are. M below is the number of places of the
mailbox, K of the log; both are rings, place n modulo their size. R is `num_rows`, S `max_num_seqs`
and B the blocks of a row, as in `state.py`.

The mailbox is memory of the host that kernels read: pinned, where there is a GPU. Of a letter the
host writes everything else first and `posted` last.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import triton.language as tl

from nullblock.kernels.control.sizes import Sizes

# What a letter says: `Mail.kind` -----------------------------------------------------------------
ARRIVAL = tl.constexpr(0)
"""A request takes a row and waits."""
END = tl.constexpr(1)
"""The request of a row ends, whatever it does (LIFE-4, LIFE-5)."""
PAUSING = tl.constexpr(2)
"""The pause state is now what `row` says (LIFE-7)."""

NOBODY = tl.constexpr(-1)
"""No row."""

# Places in `Exchange.progress` -------------------------------------------------------------------
NUM_TAKEN = tl.constexpr(0)
"""Letters taken since the beginning."""
NUM_STEPS = tl.constexpr(1)
"""Steps told since the beginning: the last one stands in place NUM_STEPS - 1 of the log."""
NUM_PROGRESS = tl.constexpr(8)

# The columns of `Log.scheduled` ------------------------------------------------------------------
ROW = tl.constexpr(0)
SCHEDULED_TOKENS = tl.constexpr(1)
SAMPLES = tl.constexpr(2)
COMPUTED_TOKENS = tl.constexpr(3)
OUTPUT_TOKENS = tl.constexpr(4)
NEW_BLOCKS = tl.constexpr(5)
RESUMED = tl.constexpr(6)
SEND_ALL_TOKENS = tl.constexpr(7)
PREEMPTED = tl.constexpr(8)
"""A list of its own, as the next three: rows, in order."""
OUTPUT_ROW = tl.constexpr(9)
"""Who took a token in the update."""
OUTPUT_TOKEN = tl.constexpr(10)
OUTPUT_WHY = tl.constexpr(11)
"""CONTINUE, or how it ended (UPD-4): see `stop.py`."""
NUM_COLUMNS = tl.constexpr(12)

# Places in a row of `Log.header` -----------------------------------------------------------------
STEP = tl.constexpr(0)
"""The step's number, from 1, modulo 2**31: whether the place holds the step one looks for."""
SCHEDULED = tl.constexpr(1)
"""Requests scheduled."""
RAN = tl.constexpr(2)
"""Those of them that ran before."""
BLOCKS = tl.constexpr(3)
"""Entries of `Log.new_block_ids`."""
VICTIMS = tl.constexpr(4)
"""Entries of the column PREEMPTED."""
FINISHED = tl.constexpr(5)
"""Entries of `Log.finished`."""
COMMON_PREFIX = tl.constexpr(6)
ERROR = tl.constexpr(7)
"""The error word when the step was told, and again after its update."""
OUTPUTS = tl.constexpr(8)
"""Entries of the columns OUTPUT_ROW, OUTPUT_TOKEN and OUTPUT_WHY."""
UPDATED = tl.constexpr(9)
"""1: the step's tokens came in."""
NUM_HEADER = tl.constexpr(16)


class Mail(NamedTuple):
    """The letters. Columns beside `kind` and `row` are an arrival's, and mean what they mean in
    `Requests`.
    """

    posted: torch.Tensor
    """int64 [1]: letters posted since the beginning."""
    kind: torch.Tensor
    """int32 [M]: ARRIVAL, END or PAUSING."""
    row: torch.Tensor
    """int32 [M]: an ABSENT one that no log tells of any more; of PAUSING the pause state."""
    takes_over: torch.Tensor
    """int32 [M]: the row of an ended request whose token in flight the arrival gets, for it has
    the same id (UPD-16); or NOBODY."""
    tokens: torch.Tensor
    """int32 [M, row_tokens]: the prompt."""
    num_prompt: torch.Tensor
    """int32 [M]."""
    limit: torch.Tensor
    """int32 [M]."""
    at_least: torch.Tensor
    """int32 [M]."""
    eos: torch.Tensor
    """int32 [M]."""
    stop_ids: torch.Tensor
    """int32 [M, stop_width]."""
    num_stop: torch.Tensor
    """int32 [M]."""
    extra: torch.Tensor
    """int32 [M, 2]."""
    skip_reading_prefix_cache: torch.Tensor
    """int32 [M]."""
    priority: torch.Tensor
    """int64 [M]."""
    arrival: torch.Tensor
    """float64 [M]."""
    tie: torch.Tensor
    """int64 [M]."""


class Log(NamedTuple):
    """What the last K steps decided, and what came of them."""

    header: torch.Tensor
    """int32 [K, NUM_HEADER]."""
    taken: torch.Tensor
    """int64 [K]: letters taken when the step was told."""
    scheduled: torch.Tensor
    """int32 [K, NUM_COLUMNS, S]: in parallel, one entry for everybody scheduled."""
    new_block_ids: torch.Tensor
    """int32 [K, S * B]."""
    finished: torch.Tensor
    """int32 [K, R]: rows of requests that ended before the step; from now on others may have
    them."""


class Exchange(NamedTuple):
    """Everything, as kernels take it."""

    mail: Mail
    log: Log
    progress: torch.Tensor
    """int64 [NUM_PROGRESS]."""


@dataclass(frozen=True, slots=True)
class Rings:
    """How many letters and steps are kept. Part of what kernels are compiled for."""

    letters: int = 64
    steps: int = 16

    def __post_init__(self) -> None:
        if self.letters < 1 or self.steps < 1:
            raise ValueError("a mailbox and a log have a place at least")


def new_exchange(sizes: Sizes, rings: Rings, device: torch.device) -> Exchange:
    """An empty mailbox, in memory of the host, and an empty log on the device."""
    letters, steps, rows = rings.letters, rings.steps, sizes.num_rows
    most = sizes.max_num_seqs

    def ints(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.int32, device=device)

    return Exchange(
        mail=_mail(sizes, letters, pinned=device.type == "cuda"),
        log=Log(
            header=ints(steps, NUM_HEADER.value),
            taken=torch.zeros(steps, dtype=torch.int64, device=device),
            scheduled=ints(steps, NUM_COLUMNS.value, most),
            new_block_ids=ints(steps, most * sizes.row_blocks),
            finished=ints(steps, rows),
        ),
        progress=torch.zeros(NUM_PROGRESS.value, dtype=torch.int64, device=device),
    )


def _mail(sizes: Sizes, letters: int, pinned: bool) -> Mail:
    wide = {
        "posted": ((1,), torch.int64),
        "tokens": ((letters, sizes.row_tokens), torch.int32),
        "stop_ids": ((letters, max(1, sizes.stop_width)), torch.int32),
        "extra": ((letters, 2), torch.int32),
        "priority": ((letters,), torch.int64),
        "arrival": ((letters,), torch.float64),
        "tie": ((letters,), torch.int64),
    }
    plain = ((letters,), torch.int32)
    made = {}
    for name in Mail._fields:
        shape, dtype = wide.get(name, plain)
        made[name] = torch.zeros(shape, dtype=dtype, pin_memory=pinned)
    return Mail(**made)
