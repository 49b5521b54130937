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
    odd, grown, blocks = header.num_odd, header.num_grown, header.num_blocks
    bits = bitmap_words(header.num_stay) if header.flags & SOME else 0
    count = 2 * (odd + grown) + blocks + bits
    end = HEADER.size + 4 * count
    changed = bool(header.flags & CHANGED)
    if end > header.length or (end != header.length and not changed):
        raise Malformed(
            f"step {header.step}: the message has {header.length} bytes and counts {end}"
        )
    words = np.frombuffer(message, "<u4", count, HEADER.size)
    second = 2 * odd
    third = second + 2 * grown
    decision = Decision(
        header=header,
        odd=words[:odd],
        odd_tokens=words[odd:second],
        grown=words[second : second + grown],
        grown_by=words[second + grown : third],
        blocks=words[third : third + blocks].view("<i4"),
        scheduled=_bits(header, words[third + blocks :]) if header.flags & SOME else None,
        turnover=decode_turnover(message, header, end) if changed else None,
    )
    _check(decision)
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


def _check(decision: Decision) -> None:
    """What the sections say of each other."""
    header, scheduled = decision.header, decision.scheduled
    ran = header.num_stay if scheduled is None else int(np.count_nonzero(scheduled))
    _ascending(header, decision.odd, ran, "tokens")
    _ascending(header, decision.grown, ran, "blocks")
    if header.num_odd and int(decision.odd_tokens.min()) < 2:
        raise Malformed(f"step {header.step}: somebody is scheduled without tokens")
    blocks = 0
    if header.num_grown:
        blocks = int(decision.grown_by.sum(dtype=np.uint64))
        if not decision.grown_by.all():
            raise Malformed(f"step {header.step}: somebody gets blocks, and none come")
    if decision.turnover is not None:
        blocks += int(decision.turnover.entered.num_blocks.sum(dtype=np.uint64))
    if blocks != header.num_blocks:
        raise Malformed(f"step {header.step}: {header.num_blocks} blocks come for {blocks}")


def _ascending(header: Header, places: Words, count: int, what: str) -> None:
    """Raises Malformed unless these are places among so many, each once."""
    if not len(places):
        return
    if int(places[-1]) >= count or (places[1:] <= places[:-1]).any():
        raise Malformed(f"step {header.step}: {what} for places that there are not")
