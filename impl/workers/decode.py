"""Reading a message: strictly, without copies, and with no memory but what it brings itself."""

import zlib

import numpy as np

from nullblock.impl.arrays import Flags
from nullblock.impl.workers.decode_turnover import decode_turnover
from nullblock.impl.workers.errors import Malformed
from nullblock.impl.workers.layout import (
    CHANGED,
    CHECKED_FROM,
    DIGEST,
    HEADER,
    MAGIC,
    SOME,
    VERSION,
    WIDE,
    Decision,
    Header,
    Words,
    bitmap_words,
)

Buffer = bytes | bytearray | memoryview
_NOTHING = bytes(4)


def length_of(start: Buffer) -> int:
    """The length of the message that starts like this, in bytes; 0: there is none.

    Raises Malformed if no message starts like this.
    """
    if start[:4] == _NOTHING:
        return 0
    if len(start) < HEADER.size or start[:4] != MAGIC:
        raise Malformed("what was received does not start like a message")
    length: int = Header(*HEADER.unpack_from(start)).length
    return length


def decode(message: Buffer) -> Decision:
    """What a message says; its arrays are views of the message.

    Raises Malformed for anything that an encoder does not write.
    """
    header = _header(message)
    odd, grown = header.num_odd, header.num_grown
    bits = bitmap_words(header.num_stay) if header.flags & SOME else 0
    count = 2 * (odd + grown) + bits
    end = HEADER.size + 4 * count
    changed = bool(header.flags & CHANGED)
    if end > header.length or (end != header.length and not changed):
        raise Malformed(
            f"step {header.step}: the message has {header.length} bytes and counts {end}"
        )
    words = np.frombuffer(message, "<u4", count, HEADER.size)
    third = 2 * odd
    last = third + 2 * grown
    scheduled = _bits(header, words[last:]) if bits else None
    ran = header.num_stay if scheduled is None else int(np.count_nonzero(scheduled))
    decision = Decision(
        header=header,
        odd=words[:odd],
        odd_tokens=words[odd:third],
        grown=words[third : third + grown],
        blocks=words[third + grown : last],
        all_differ=_step_between(header, words[third : third + grown], ran) > 0,
        scheduled=scheduled,
        turnover=decode_turnover(message, header, end) if changed else None,
    )
    if odd and (
        not _step_between(header, decision.odd, ran) or int(decision.odd_tokens.min()) < 2
    ):
        raise Malformed(f"step {header.step}: somebody is scheduled without tokens, or twice")
    return decision


def _header(message: Buffer) -> Header:
    if len(message) < HEADER.size:
        raise Malformed(f"{len(message)} bytes are no message: the header has {HEADER.size}")
    header = Header(*HEADER.unpack_from(message))
    if header.magic != MAGIC:
        raise Malformed(f"a message starts with {MAGIC!r}, not with {header.magic!r}")
    if header.version != VERSION:
        raise Malformed(
            f"a message of version {header.version}, and this worker reads version {VERSION}: "
            "let scheduler and workers run the same release"
        )
    if header.length != len(message):
        raise Malformed(f"{len(message)} bytes came of a message of {header.length}")
    if zlib.crc32(memoryview(message)[CHECKED_FROM:]) != header.checksum:
        raise Malformed("the message was damaged on its way: its checksum is another one")
    flags = header.flags
    if (
        flags & ~(WIDE | SOME | DIGEST | CHANGED)
        or (flags & WIDE and not flags & CHANGED)
        or bool(header.digest) != bool(flags & DIGEST)
    ):
        raise Malformed(f"step {header.step}: unknown flags {flags:#x}")
    return header


def _bits(header: Header, words: Words) -> Flags:
    """A bit for each who stays. Raises Malformed for bits behind the last one."""
    found = np.unpackbits(words.view(np.uint8), bitorder="little").view(np.bool_)
    scheduled, behind = found[: header.num_stay], found[header.num_stay :]
    if behind.any() or scheduled.all():
        raise Malformed(f"step {header.step}: a bitmap of other requests than those who stay")
    return scheduled


def _step_between(header: Header, places: Words, count: int) -> int:
    """The least from one place to the next. Raises Malformed unless they are ascending places
    among so many.
    """
    if not len(places):
        return 1
    if int(places[-1]) >= count:
        raise Malformed(f"step {header.step}: the place {int(places[-1])} among {count}")
    if len(places) == 1:
        return 1
    there = places.astype(np.int64)
    least = int(np.minimum.reduce(there[1:] - there[:-1]))
    if least < 0:
        raise Malformed(f"step {header.step}: places that do not ascend")
    return least
