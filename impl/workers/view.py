"""What scheduler and workers have to agree on, and a number that stands for it."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any

import numpy as np

from nullblock.impl.arrays import Blocks, Ints, Tokens
from nullblock.impl.scheduler import Scheduler


@dataclass(slots=True)
class View:
    """The running list in order, whole: arrays in parallel, and the long ones laid end to end."""

    ids: list[str]
    rows: Ints
    num_tokens: Ints
    num_computed: Ints
    num_prompt: Ints
    num_blocks: Ints
    tokens: Tokens
    blocks: Blocks
    known: list[str]
    """Ids that the workers know: who runs, and who waits after a preemption; sorted."""

    @classmethod
    def of(
        cls, ids: list[str], columns: Ints, tokens: Tokens, table: Blocks, known: Iterable[str]
    ) -> "View":
        """Of five columns (row, tokens, computed, prompt, blocks) and what stands in the rows."""
        rows, num_tokens, num_computed, num_prompt, num_blocks = columns.copy()
        return cls(
            ids=ids.copy(),
            rows=rows,
            num_tokens=num_tokens,
            num_computed=num_computed,
            num_prompt=num_prompt,
            num_blocks=num_blocks,
            tokens=tokens[rows][np.arange(tokens.shape[1]) < num_tokens[:, None]],
            blocks=table[rows][np.arange(table.shape[1]) < num_blocks[:, None]],
            known=sorted(known),
        )

    def differs_from(self, other: "View") -> list[str]:
        """The fields in which two views are not the same."""
        names = [field.name for field in fields(self)]
        return [name for name in names if not _same(getattr(self, name), getattr(other, name))]


def _same(mine: Any, theirs: Any) -> bool:
    return bool(np.array_equal(mine, theirs) if isinstance(mine, np.ndarray) else mine == theirs)


def view_of_scheduler(scheduler: Scheduler) -> View:
    """What the NumPy scheduler knows after `schedule()`, copied."""
    running = scheduler.running
    columns = (
        *(running.row, running.num_tokens, running.num_computed, running.num_prompt),
        running.num_blocks,
    )
    return View.of(
        *(running.ids, np.array(columns)[:, : running.count], running.tokens, running.table),
        known=[
            id
            for id, request in scheduler.requests.items()
            if request.is_running or request.num_preemptions
        ],
    )


def digest(view: View) -> int:
    """64 bits of a cryptographic hash of all fields; never 0."""
    found = blake2b(digest_size=8)
    for field in fields(view):
        value = getattr(view, field.name)
        if not isinstance(value, np.ndarray):
            value = np.frombuffer("\0".join([str(len(value)), *value]).encode(), np.uint8)
        found.update(value.nbytes.to_bytes(8, "little"))
        found.update(value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes())
    return int.from_bytes(found.digest(), "little") or 1
