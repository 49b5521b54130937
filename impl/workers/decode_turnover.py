"""Reading the part of a message that says who leaves the running list and who enters it."""

from itertools import accumulate, pairwise

import numpy as np

from nullblock.impl.arrays import Ints
from nullblock.impl.workers.errors import Malformed
from nullblock.impl.workers.layout import (
    ENTRY,
    TURNOVER,
    WIDE,
    Entered,
    Header,
    Turnover,
    TurnoverHeader,
    Words,
)

_FIELDS = ENTRY.size // 4


def decode_turnover(
    message: bytes | bytearray | memoryview, header: Header, start: int
) -> Turnover:
    """The turnover that starts there and goes on to the end of the message.

    Raises Malformed for anything that an encoder does not write.
    """
    first = start + TURNOVER.size
    if first > header.length:
        raise Malformed(f"step {header.step}: the message ends before who leaves and enters")
    there = TurnoverHeader(*TURNOVER.unpack_from(message, start))
    table = _FIELDS * there.num_entered
    sizes = (there.num_ended, there.num_put_back, table, there.num_gone, there.num_blocks)
    count, width = sum(sizes), 8 if header.flags & WIDE else 4
    middle = first + 4 * count
    last = middle + width * there.num_tokens
    if last + there.text_bytes != header.length:
        raise Malformed(
            f"step {header.step}: the message has {header.length} bytes and counts "
            f"{last + there.text_bytes}"
        )
    words = np.frombuffer(message, "<u4", count, first)
    parts = [words[i:j] for i, j in pairwise(accumulate(sizes, initial=0))]
    ended, put_back, numbers, lengths, blocks = parts
    entered = Entered(*numbers.reshape(-1, _FIELDS).T)
    ids, params, gone = _texts(header, entered, lengths, bytes(message[last:]))
    tokens = np.frombuffer(message, f"<i{width}", there.num_tokens, middle)
    turnover = Turnover(ended, put_back, entered, gone, blocks, tokens, ids, params)
    _check(header, turnover)
    return turnover


def _texts(
    header: Header, entered: Entered, lengths: Words, text: bytes
) -> tuple[list[str], list[bytes], list[str]]:
    """Ids and parameters of those who enter, ids of those gone."""
    mine = np.stack((entered.id_bytes, entered.params_bytes), axis=1).ravel()
    ends = list(accumulate((*mine.tolist(), *lengths.tolist()), initial=0))
    if ends[-1] != len(text):
        raise Malformed(f"step {header.step}: {len(text)} bytes of text, and {ends[-1]} counted")
    parts = [text[start:end] for start, end in pairwise(ends)]
    own = 2 * len(entered.row)
    try:
        ids = [part.decode() for part in parts[:own:2]]
        gone = [part.decode() for part in parts[own:]]
    except UnicodeDecodeError:
        raise Malformed(f"step {header.step}: an id is not UTF-8") from None
    return ids, parts[1:own:2], gone


def _check(header: Header, turnover: Turnover) -> None:
    """What its parts say of each other."""
    entered: list[Ints] = [column.astype(np.int64) for column in turnover.entered]
    row, known, num_tokens, num_prompt, computed, scheduled, blocks = entered[:7]
    old, ids, gone = known > 0, turnover.ids, turnover.gone
    left = np.concatenate((turnover.ended, turnover.put_back))
    sound = (
        (len(left) + len(ids) + len(gone) > 0, "a turnover of nobody"),
        (len(np.unique(left)) == len(left), "somebody leaves twice"),
        (len(np.unique(row)) == len(row), "two enter the same row"),
        (len({*ids}) == len(ids) and len({*gone}) == len(gone), "an id stands there twice"),
        (int(num_tokens.sum()) == len(turnover.tokens), "other tokens than are counted"),
        (bool(blocks.all()), "somebody enters without blocks"),
        (int(blocks.sum()) == len(turnover.blocks), "other blocks than are counted"),
        (not (known > 1).any(), "somebody is neither new nor known"),
        (not (num_prompt > num_tokens).any(), "a prompt longer than its request"),
        (bool(scheduled.all()), "somebody enters without tokens to compute"),
        (not (computed + scheduled > num_tokens).any(), "more to compute than there is"),
        (not any(p for p, o in zip(turnover.params, old, strict=True) if o), "parameters again"),
    )
    for holds, what in sound:
        if not holds:
            raise Malformed(f"step {header.step}: {what}")
