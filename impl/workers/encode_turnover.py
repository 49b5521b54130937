"""Writing the part of a message that says who leaves the running list and who enters it."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nullblock.impl.arrays import Tokens
from nullblock.impl.step import Step
from nullblock.impl.workers.layout import ENTRY, TURNOVER, WIDE

SKIPPED = (
    "encode every step once, from the first one on, and call withdraw_all() after a reset of "
    "running requests"
)
_NARROW = np.iinfo(np.int32)


@dataclass(slots=True)
class Leaving:
    """Who leaves the running list by a step, and which of the others have ended."""

    ended: list[str]
    ended_rows: list[int]
    put_back_rows: list[int]
    gone: list[str]
    """They waited, and are known to the workers."""

    @property
    def rows(self) -> list[int]:
        """Of all who leave."""
        return self.ended_rows + self.put_back_rows


def leaving(
    step: Step, row_of: Mapping[str, int], waiting: set[str], withdrawn: list[int]
) -> Leaving:
    """Who of those that run or wait leaves. Raises ValueError if somebody leaves who did not run.

    Whoever was never scheduled has ended without the workers knowing, and is not named.
    """
    for id in step.preempted:
        if id not in row_of:
            raise ValueError(f"{id!r} is preempted and did not run: {SKIPPED}")
    ended = [id for id in step.finished if id in row_of]
    return Leaving(
        ended=ended,
        ended_rows=[row_of[id] for id in ended],
        put_back_rows=[*withdrawn, *(row_of[id] for id in step.preempted)],
        gone=[id for id in step.finished if id in waiting],
    )


def encode_turnover(
    step: Step, params: Mapping[str, bytes], left: Leaving, waiting: set[str]
) -> tuple[int, bytes]:
    """The flag of its tokens, and its bytes; none if nothing changes for the workers."""
    flag, table, tokens, text = _entering(step, params, waiting.difference(left.gone))
    gone = [id.encode() for id in left.gone]
    if not (left.rows or gone or table):
        return 0, b""
    text = b"".join((text, *gone))
    blocks = step.new_block_ids[int(step.new_block_counts[: step.running].sum()) :]
    width = 8 if flag & WIDE else 4
    numbers = (len(left.ended_rows), len(left.put_back_rows), len(step.admitted), len(gone))
    return flag, b"".join(
        (
            TURNOVER.pack(*numbers, len(blocks), len(tokens) // width, len(text)),
            np.array(left.rows, "<u4").tobytes(),
            table,
            np.array([len(id) for id in gone], "<u4").tobytes(),
            blocks.astype("<u4").tobytes(),
            tokens,
            text,
        )
    )


def _entering(
    step: Step, params: Mapping[str, bytes], waiting: set[str]
) -> tuple[int, bytes, bytes, bytes]:
    """Those who enter: the flag of their tokens, the table, the tokens, and the text."""
    ran = step.running
    columns = zip(
        step.rows[ran:].tolist(),
        step.num_computed_tokens[ran:].tolist(),
        step.num_scheduled_tokens[ran:].tolist(),
        step.new_block_counts[ran:].tolist(),
        strict=True,
    )
    tokens, table, text = list[Tokens](), list[bytes](), list[bytes]()
    for request, (row, computed, scheduled, blocks) in zip(step.admitted, columns, strict=True):
        id, known = request.id.encode(), request.num_preemptions > 0
        if known != (request.id in waiting):
            raise ValueError(f"{request.id!r} enters and is not where it was: {SKIPPED}")
        about = b"" if known else params.get(request.id, b"")
        mine = np.asarray(step.all_token_ids[request.id] if known else request.tokens, np.int64)
        tokens.append(mine)
        text += (id, about)
        table.append(
            ENTRY.pack(
                *(row, known, len(mine), request.num_prompt_tokens, computed, scheduled, blocks),
                *(len(id), len(about)),
            )
        )
    flag, sent = _narrowed(np.concatenate(tokens)) if tokens else (0, b"")
    return flag, b"".join(table), sent, b"".join(text)


def _narrowed(tokens: NDArray[np.int64]) -> tuple[int, bytes]:
    """Token ids in 4 bytes where all of them fit, or WIDE and in 8."""
    if int(tokens.min()) < _NARROW.min or int(tokens.max()) > _NARROW.max:
        return WIDE, tokens.astype("<i8").tobytes()
    return 0, tokens.astype("<i4").tobytes()
