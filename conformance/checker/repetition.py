"""Repetition detection in a replay: a trace has no tokens that would show what repeats itself.

So where outputs end in a repetition is read off the ends that are told: an update that tells of
none says that there was none. What is judged is whose output it may end, and when.
"""

from collections.abc import Iterator
from typing import Any, Final

from nullblock.conformance.repetition import FEATURE
from nullblock.conformance.trace.records import Finish, Update
from nullblock.spec.sessions import num_output

LEAST: Final = 2
"""Output tokens that the shortest repetition has: one pattern of one token, twice."""


def detected(k: Any, s: Any, update: Update) -> Iterator[tuple[int, int]]:
    """Whose outputs end in a repetition, by what an update tells, and the place in the frame of
    the token with which they do: of those that want it detected and have tokens enough for one.
    """
    tokens = dict(zip(update.ids, update.tokens, strict=False))
    for r in (f.id for f in update.finish if f.reason == "repetition"):
        taken = tokens.get(r, 0)
        if r in k.detecting and taken and num_output(s, r) + taken >= LEAST:
            yield r, taken - 1


def forgets_stop_id(k: Any, end: Finish) -> bool:
    """Whether a session no longer reports the stop id of an earlier turn: a repetition is what it
    reports from then on, one that a grammar rejects at the same time as well.
    """
    by_grammar = end.reason == "error" and end.id in k.detecting and not end.by_stop_id
    return end.reason == "repetition" or by_grammar


def wanted(k: Any, r: int, is_wanted: bool) -> None:
    """Request r, or the chunk that session r takes now, wants repetitions detected, or not."""
    (k.detecting.add if is_wanted else k.detecting.discard)(r)
    if is_wanted and FEATURE not in k.features[r]:
        k.features[r] = [*k.features[r], FEATURE]
