"""The counts of everybody in a step, compared in one go with what they are expected to be.

Two counts a request, a machine word each, make one long number for hundreds of requests: adding
to all of them is one addition, and comparing all of them is one comparison.
"""

from array import array
from functools import lru_cache
from sys import byteorder

WORD = 8 * array("I").itemsize
"""Bits."""


@lru_cache(64)
def _every(word: int, many: int) -> int:
    """The number with ``word`` in each of so many words."""
    return int.from_bytes(array("I", [word]) * many, byteorder)


def packed(computed: list[int], outputs: list[int]) -> int | None:
    """All counts as one number; None where one of them is none: negative, or too large.

    Every word has its highest bit free, so that adding to one does not reach the next.
    """
    words = array("I")
    try:
        words.fromlist(computed)
        words.fromlist(outputs)
    except OverflowError:
        return None
    found = int.from_bytes(words, byteorder)
    return None if found & _every(1 << (WORD - 1), len(words)) else found


def unpacked(counts: int, many: int) -> tuple[list[int], list[int]]:
    """The counts that one number stands for, of so many requests: computed, outputs."""
    words = array("I", counts.to_bytes(2 * many * WORD // 8, byteorder)).tolist()
    return words[:many], words[many:]


def after(counts: int, tokens: list[int], *, single: bool) -> int | None:
    """The counts expected after a step of so many tokens each, and an output each.

    ``single``: whether it is one token each.
    """
    many = len(tokens)
    if single:
        return counts + _every(1, 2 * many)
    added = packed(tokens, [1] * many)
    return None if added is None else counts + added
