"""The counts of everybody in a step, compared in one go with what they are expected to be.

Two counts a request, a machine word each, make one long number for hundreds of requests: adding
to all of them is one addition, and comparing all of them is one comparison.
"""

from array import array
from collections.abc import Sequence
from functools import lru_cache
from itertools import compress
from operator import ne
from sys import byteorder

from nullblock.conformance.adapters.vllm.seen import Many

WORD = 8 * array("I").itemsize
"""Bits."""


def ones(many: int) -> int:
    """The number with 1 in each of so many words."""
    return _every(1, many)


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
        if outputs is computed:
            words *= 2
        else:
            words.fromlist(outputs)
    except OverflowError:
        return None
    return number(words)


def number(words: "array[int]") -> int | None:
    """Words as one number; None where one of them has its highest bit set."""
    found = int.from_bytes(words, byteorder)
    return None if found & _every(1 << (WORD - 1), len(words)) else found


def leading(words: "array[int]", many: int) -> "array[int]":
    """The counts of the first so many requests."""
    half = len(words) // 2
    return words if half == many else words[:many] + words[half : half + many]


def unpacked(counts: int, many: int) -> tuple[list[int], list[int]]:
    """The counts that one number stands for, of so many requests: computed, outputs."""
    words = _words(counts, 2 * many).tolist()
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


def one_more(
    before: "array[int]", tokens: list[int], gone: Sequence[int], words: "array[int]"
) -> bool:
    """Whether ``words`` are the counts after a step of so many tokens each, and an output each, of
    those that are left without some places, in ascending order; ``before``: those before it.

    Raises ``OverflowError`` where a count has no word.
    """
    many = len(tokens)
    others = many - tokens.count(1)
    due = before[:] if gone or others else before
    if others:
        further = tokens[many - others :]  # those that came last, mostly
        start, rows = (0, tokens) if 1 in further else (many - others, further)
        for place, n in enumerate(rows, start):
            due[place] += n - 1
    for place in reversed(gone):
        del due[many + place], due[place]
        many -= 1
    likely = int.from_bytes(due, byteorder) + _every(1, len(due))
    return likely == int.from_bytes(words, byteorder)


def kept(counts: int, many: int, gone: Sequence[int]) -> "array[int]":
    """The counts of so many requests, but for those at some places, in ascending order."""
    words = _words(counts, 2 * many)
    for place in reversed(gone):
        del words[many + place], words[place]
        many -= 1
    return words


def extended(words: "array[int]", further: Sequence[tuple[int, int]]) -> "array[int]":
    """The counts of some requests and of further ones behind them.

    Raises ``OverflowError`` where one of these has no word.
    """
    half = len(words) // 2
    whole = words[:half]
    whole.extend([computed for computed, _ in further])
    whole += words[half:]
    whole.extend([outputs for _, outputs in further])
    return whole


def doubled(counts: Many) -> int | None:
    """Counts as one number, as computed tokens and as outputs; None as in ``packed``."""
    if isinstance(counts, list):
        return packed(counts, counts)
    words = bytearray(WORD // 8 * len(counts))
    words[0 if byteorder == "little" else WORD // 8 - 1 :: WORD // 8] = counts
    return int.from_bytes(words * 2, byteorder)


def differing(one: "array[int]", other: "array[int]", many: int) -> set[int]:
    """The places of those, of so many requests, whose counts are not the same."""
    return {place % many for place in compress(range(2 * many), map(ne, one, other))}


def _words(counts: int, many: int) -> "array[int]":
    return array("I", counts.to_bytes(many * WORD // 8, byteorder))
