"""The layout of a message, version 1: a header and arrays of little-endian numbers behind it.

Who runs is known by its row (`Step.rows`), which is its own as long as it runs, and the workers
know the running list in order; so a message says only what they cannot know: who is passed over,
who gets another number of tokens than one, who gets blocks, and, if anybody does, who leaves the
running list and who enters it with what (its *turnover*). Of a plain decode nothing is left but
the new blocks.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nullblock.impl.arrays import Flags, Tokens

MAGIC = b"NBSD"
VERSION = 1
HEADER = struct.Struct("<4sIHHIQQQ4I")
TURNOVER = struct.Struct("<7I")
ENTRY = struct.Struct("<9I")
CHECKED_FROM = 8
"""The CRC-32 covers the message from here to its end."""
CHECKSUM = struct.Struct("<I")
CHECKSUM_AT = 4
WIDE, SOME, DIGEST, CHANGED = 1, 2, 4, 8
"""Flags: token ids of 8 bytes instead of 4; not everybody is scheduled; there is a digest; there
is a turnover.
"""
Words = NDArray[np.uint32]


class Header(NamedTuple):
    """The numbers at the start of every message."""

    magic: bytes
    checksum: int
    version: int
    flags: int
    length: int
    """Of the whole message, in bytes."""
    step: int
    """0, 1, 2, … without gaps: a lost, repeated or overtaken message is noticed by it."""
    total: int
    """Of all who are scheduled, the tokens computed before the step and the output tokens, summed
    up: a mirror that has drifted is noticed by it.
    """
    digest: int
    """Of the whole state after the step; 0 without the flag DIGEST."""
    num_common_prefix_blocks: int
    num_stay: int
    """Who ran before and still runs, scheduled or not."""
    num_odd: int
    num_grown: int
    """Blocks of those who stay."""


class TurnoverHeader(NamedTuple):
    """The numbers at the start of a turnover."""

    num_ended: int
    num_put_back: int
    num_entered: int
    num_gone: int
    num_blocks: int
    num_tokens: int
    text_bytes: int


SECTIONS = (
    ("header", "56", "`Header`"),
    ("odd", "8 × num_odd", "places of who gets another number of tokens than 1; those numbers"),
    ("grown", "8 × num_grown", "places of who gets blocks, one for each block; those blocks"),
    ("scheduled", "if SOME: 4 × ⌈num_stay ÷ 32⌉", "a bit for each who stays: 1, or 0 passed over"),
    ("turnover", "if CHANGED: 28", "`TurnoverHeader`, and all that follows"),
    ("ended", "4 × num_ended", "rows of those who leave for good"),
    ("put back", "4 × num_put_back", "rows of those who leave and wait"),
    ("entered", "36 × num_entered", "`Entered`, one after another"),
    ("gone", "4 × num_gone", "bytes of the ids of those who ended waiting"),
    ("blocks", "4 × num_blocks", "the tables of those who enter"),
    ("tokens", "4 × num_tokens, 8 × if WIDE", "of those who enter, prompt and output"),
    ("text", "text_bytes", "id and parameters of each who enters; ids of those gone"),
)
"""Name, bytes, meaning. *Places* count those who ran before and are scheduled, from 0. Those who
enter stand behind those who stay, and are all scheduled.
"""


class Entered(NamedTuple):
    """Columns of the table of those who enter, one number for each."""

    row: Words
    known: Words
    """1: the worker has seen it before; it was preempted and resumes."""
    num_tokens: Words
    num_prompt: Words
    num_computed: Words
    """Before the step: its cached prefix."""
    num_scheduled: Words
    num_blocks: Words
    """Its whole table (OUT-2)."""
    id_bytes: Words
    params_bytes: Words


@dataclass(slots=True)
class Turnover:
    """Who leaves the running list, who enters it, and who ended without being in it."""

    ended: Words
    put_back: Words
    entered: Entered
    gone: list[str]
    blocks: Words
    """Of those who enter, one table after another."""
    tokens: Tokens | NDArray[np.int32]
    ids: list[str]
    """Of those who enter."""
    params: list[bytes]
    """What the engine says about each, if it is new."""


@dataclass(slots=True)
class Decision:
    """What a message says. It agrees with itself; whether it fits a mirror, the mirror knows."""

    header: Header
    odd: Words
    odd_tokens: Words
    grown: Words
    """Ascending; who gets several blocks stands there as often."""
    blocks: Words
    all_differ: bool
    """Nobody gets several blocks."""
    scheduled: Flags | None
    """Of those who stay; None: everybody."""
    turnover: Turnover | None


def bitmap_words(bits: int) -> int:
    """Numbers of 32 bits that so many bits take."""
    return -(-bits // 32)
