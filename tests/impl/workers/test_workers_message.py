"""A message is read strictly: damage is refused in one line, and a lie takes no memory."""

import struct
import tracemalloc
import zlib
from functools import cache
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mirrored import messages
from planted import planted

from nullblock.impl.workers import Malformed, WorkerError
from nullblock.impl.workers.decode import decode, length_of
from nullblock.impl.workers.layout import (
    CHANGED,
    CHECKED_FROM,
    CHECKSUM_AT,
    ENTRY,
    HEADER,
    SECTIONS,
    SOME,
    TURNOVER,
    WIDE,
)

CHOSEN_SEEDS = (2, 7, 20)


@cache
def chosen() -> list[bytes]:
    """Messages of a few services, of every form that there is."""
    found = [message for seed in CHOSEN_SEEDS for _, message, _ in messages(seed, 30)]
    flags = {decode(message).header.flags & (SOME | CHANGED | WIDE) for message in found}
    assert {SOME, CHANGED, SOME | CHANGED, CHANGED | WIDE, 0} <= flags
    return found


def sealed(message: bytes | bytearray) -> bytes:
    """The same with the right checksum: a lie, not damage."""
    found = bytearray(message)
    struct.pack_into("<I", found, CHECKSUM_AT, zlib.crc32(found[CHECKED_FROM:]))
    return bytes(found)


def refusal(message: bytes) -> str:
    """The one line that says why it is no message; empty if it is one."""
    try:
        decode(message)
    except Malformed as error:
        assert "\n" not in str(error)
        return str(error)
    return ""


def test_a_message_cut_anywhere_is_refused() -> None:
    """At every byte, of every form; and so is one with a byte too many."""
    for message in chosen()[::7]:
        for length in range(len(message)):
            assert refusal(message[:length]), length
        assert refusal(message + b"\0")
        assert refusal(message) == ""


def test_a_message_cut_and_sealed_again_is_refused() -> None:
    """Also where its length and its checksum are made to fit what is left."""
    for message in chosen()[::7]:
        for length in range(HEADER.size, len(message)):
            cut = bytearray(message[:length])
            struct.pack_into("<I", cut, 12, length)
            assert refusal(sealed(cut)), length


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damage_is_refused(data: st.DataObject) -> None:
    """Up to three bits that flip, anywhere."""
    message = bytearray(data.draw(st.sampled_from(chosen())))
    bits = st.integers(0, 8 * len(message) - 1)
    for bit in data.draw(st.lists(bits, min_size=1, max_size=3, unique=True)):
        message[bit // 8] ^= 1 << bit % 8
    assert refusal(bytes(message))


def told(mirror: Any, message: bytes) -> str:
    """What happens to a mirror by a message that lies: what it refused, or nothing.

    Raises AssertionError if it changed and did not say so, or took much memory.
    """
    before = mirror.view()
    tracemalloc.start()
    try:
        mirror.apply(message)
    except WorkerError as error:
        assert "\n" not in str(error)
        if "is not the scheduler's" not in str(error):
            assert mirror.view().differs_from(before) == []
        return str(error)
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1_000_000 + 100 * len(message)
    return ""


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 28))
def test_a_lie_is_refused_or_makes_no_difference(number: int, turn: int) -> None:
    """Any byte or word of a message is another one, and the checksum fits: the worker refuses it
    and is as before, or the digest differs, or it knows the same as by the true message. No lie
    makes it take more memory than the message is worth.
    """
    seed = CHOSEN_SEEDS[number % len(CHOSEN_SEEDS)]
    mirror, message, _ = next(islice(messages(seed, 30), turn, None))
    at = 8 + number % (len(message) - 8)
    lie = bytearray(message)
    if number % 3 == 0 and at + 4 <= len(lie):
        lie[at : at + 4] = [b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f"][number // 3 % 3]
    else:
        lie[at] ^= 1 + number // 7 % 255
    refused = told(mirror, sealed(lie))
    if not refused:
        true, _, _ = next(islice(messages(seed, 30), turn, None))
        true.apply(message)
        assert mirror.view().differs_from(true.view()) == []


@pytest.mark.parametrize(
    ("offset", "word", "why"),
    [
        (0, b"NOPE", "starts with"),
        (8, b"\x02\0\0\0", "version 2, and this worker reads version 1"),
        (10, b"\0\x01", "unknown flags"),
        (12, b"\x10\0\0\0", "bytes came of a message of 16"),
    ],
)
def test_the_header_is_judged_first(offset: int, word: bytes, why: str) -> None:
    """With a line that says what is wrong and, where there is one, the remedy."""
    message = bytearray(chosen()[0])
    message[offset : offset + len(word)] = word
    assert why in refusal(sealed(message))


@pytest.mark.parametrize("buffer", [bytes, bytearray, memoryview])
def test_any_buffer_is_read(buffer: Any) -> None:
    """As it came from the network."""
    assert decode(buffer(chosen()[0])).header == decode(chosen()[0]).header
    assert length_of(buffer(chosen()[0])) == len(chosen()[0])


def test_the_documented_sizes_are_the_sizes() -> None:
    """Of the header, the turnover, and an entry of its table."""
    sizes = {name: size for name, size, _ in SECTIONS}
    assert sizes["header"] == str(HEADER.size)
    assert sizes["turnover"].endswith(f": {TURNOVER.size}")
    assert sizes["entered"].startswith(f"{ENTRY.size} ×")


DEFECTS = {
    "damage is not looked for": ("if zlib.crc32(", "if False and zlib.crc32("),
    "what follows the end is not looked at": (
        "if end > header.length or (end != header.length and not changed):",
        "if False:",
    ),
    "places need not ascend": ("if least < 0:", "if False:"),
    "places need not be there": ("if int(places[-1]) >= count:", "if False:"),
    "bits behind the last one are ignored": ("if behind.any() or ", "if "),
}


@pytest.mark.parametrize("what", DEFECTS)
def test_a_planted_defect_in_the_reader_shows(what: str) -> None:
    """Each lets something pass, or fall over, that is refused otherwise."""
    damaged = spoiled()
    with planted("workers/decode.py", *DEFECTS[what]):
        from nullblock.impl.workers.decode import decode as altered
        from nullblock.impl.workers.errors import Malformed as Refused

        assert any(passes(altered, Refused, message) for message in damaged)


def spoiled() -> list[bytes]:
    """Messages none of which is right, one for each kind of mistake, and more."""
    found = []
    for message in chosen():
        header = decode(message).header
        found += [message[:-1] + bytes([message[-1] ^ 1]), sealed(message[:-1])]
        longer = bytearray(message + bytes(4))
        struct.pack_into("<I", longer, 12, len(longer))
        found.append(sealed(longer))
        words = HEADER.size + 8 * header.num_odd
        if header.num_grown > 1:
            swapped = bytearray(message)
            swapped[words : words + 8] = (
                swapped[words + 4 : words + 8] + swapped[words : words + 4]
            )
            if swapped != message:
                found.append(sealed(swapped))
        if header.num_grown:
            far = bytearray(message)
            last = words + 4 * header.num_grown - 4
            far[last : last + 4] = np.uint32(header.num_stay).tobytes()
            found.append(sealed(far))
        if header.flags & SOME:
            behind = bytearray(message)
            bits = words + 8 * header.num_grown
            if header.num_stay % 32:
                behind[bits + 4 * (header.num_stay // 32) + 3] |= 0x80
                found.append(sealed(behind))
    assert all(refusal(message) for message in found)
    return found


def passes(read: Any, malformed: type[Exception], message: bytes) -> bool:
    """Whether a reader takes it, or falls over it."""
    try:
        read(message)
    except malformed:
        return False
    except Exception:
        return True
    return True
