"""Writing messages: what the workers cannot know of a step, and nothing else.

The encoder knows what the workers know: the running list in order, who stands in which row, and
who was preempted. Work per request is done for those who enter or leave; all others are a few
array operations together.
"""

import zlib
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from nullblock.impl.arrays import Ints
from nullblock.impl.step import Step
from nullblock.impl.workers.encode_turnover import SKIPPED, Leaving, encode_turnover, leaving
from nullblock.impl.workers.layout import (
    CHANGED,
    CHECKED_FROM,
    CHECKSUM,
    CHECKSUM_AT,
    DIGEST,
    HEADER,
    MAGIC,
    SOME,
    VERSION,
    bitmap_words,
)

NO_PARAMS: Mapping[str, bytes] = MappingProxyType({})
_NOBODY: Ints = np.empty(0, np.int64)
_MOST = int(np.iinfo(np.uint32).max)


class Encoder:
    """Turns steps into messages, each step once and in order, from the first one on."""

    def __init__(self) -> None:
        self.step = 0
        """The number of the next message."""
        self._order = _NOBODY
        """Rows of all who run, in the order of the running list."""
        self._row_of: dict[str, int] = {}
        """Who runs."""
        self._waiting: set[str] = set()
        """Who ran, was preempted, and is known to the workers."""
        self._withdrawn: list[int] = []
        """Rows emptied between steps."""

    def withdraw_all(self) -> None:
        """All who run were preempted between two steps: `reset_prefix_cache(reset_running=True)`
        (LIFE-3). A step does not say so.
        """
        self._withdrawn.extend(self._row_of.values())
        self._waiting.update(self._row_of)
        self._row_of.clear()

    def encode(
        self, step: Step, params: Mapping[str, bytes] = NO_PARAMS, digest: int | None = None
    ) -> bytes:
        """The message of a step.

        `params`: what the engine wants workers to know of requests that are new in this step, by
        id; `digest`: of the scheduler's state after the step (`view.digest`), to be compared.

        Raises ValueError for a step that does not follow from those before: one was left out, or a
        reset was not told; the workers would not know what the scheduler knows.
        """
        ran, rows, kept = step.running, step.rows, self._order
        flags, turnover, left = 0, b"", None
        if step.admitted or step.finished or step.preempted or self._withdrawn:
            left = leaving(step, self._row_of, self._waiting, self._withdrawn)
            if left.rows:
                kept = kept[~np.isin(kept, left.rows)]
            flags, turnover = encode_turnover(step, params, left, self._waiting)
        some, scheduled = _who(kept, rows[:ran])
        tokens, counts = step.num_scheduled_tokens[:ran], step.new_block_counts[:ran]
        odd, grown = (tokens != 1).nonzero()[0], counts.nonzero()[0]
        odd_tokens = _computable(tokens[odd]) if len(odd) else odd
        blocks = step.new_block_ids
        if step.admitted:
            blocks = blocks[: int(np.add.reduce(counts))]
        if len(grown) != len(blocks):
            grown = grown.repeat(counts[grown])
        words = np.concatenate(
            (odd, odd_tokens, grown, blocks),
            dtype="<u4",
            casting="unsafe",
        ).tobytes()
        message = _sealed(
            some | flags | (CHANGED if turnover else 0) | (0 if digest is None else DIGEST),
            (
                self.step,
                int(np.add.reduce(step.num_computed_tokens + step.num_output_tokens)),
                digest or 0,
                step.num_common_prefix_blocks,
                *(len(kept), len(odd), len(grown)),
            ),
            words + scheduled + turnover,
        )
        self._order = np.concatenate((kept, rows[ran:])) if step.admitted else kept
        if left is not None:
            self._turn_over(step, left)
        self.step += 1
        return message

    def _turn_over(self, step: Step, left: Leaving) -> None:
        """The message is written: the workers know who left and who entered."""
        for id in (*left.ended, *step.preempted):
            del self._row_of[id]
        self._waiting.difference_update(left.gone)
        self._waiting.update(step.preempted)
        self._withdrawn = []
        ran = step.running
        for id, row in zip(step.ids[ran:], step.rows[ran:].tolist(), strict=True):
            self._row_of[id] = row
            self._waiting.discard(id)


def _who(kept: Ints, ran: Ints) -> tuple[int, bytes]:
    """Who of those who stay is scheduled: a flag, and the bitmap unless everybody is."""
    if len(kept) == len(ran):
        if not (kept == ran).all():
            raise ValueError(f"others run than the workers know of: {SKIPPED}")
        return 0, b""
    scheduled = np.isin(kept, ran)
    if not np.array_equal(kept[scheduled], ran):
        raise ValueError(f"others run than the workers know of: {SKIPPED}")
    return SOME, np.packbits(scheduled, bitorder="little").tobytes().ljust(
        4 * bitmap_words(len(kept)), b"\0"
    )


def _computable(tokens: Ints) -> Ints:
    """Raises ValueError for numbers of tokens that are none (vLLM 0.22.1 may decide some)."""
    least, most = int(tokens.min()), int(tokens.max())
    if least < 1 or most > _MOST:
        raise ValueError(f"{least} to {most} tokens are scheduled: no worker can compute that")
    return tokens


def _sealed(flags: int, numbers: tuple[int, ...], body: bytes) -> bytes:
    """The message, with its length and checksum."""
    length = HEADER.size + len(body)
    message = bytearray(HEADER.pack(MAGIC, 0, VERSION, flags, length, *numbers))
    message += body
    CHECKSUM.pack_into(message, CHECKSUM_AT, zlib.crc32(memoryview(message)[CHECKED_FROM:]))
    return bytes(message)
