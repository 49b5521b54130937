"""Output that repeats itself in a scenario: who wants that detected, and who samples it."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from nullblock.conformance.errors import ScenarioError

Size = Annotated[int, Meta(ge=0)]
Period = Annotated[int, Meta(ge=1)]


class Repetition(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """vLLM's ``RepetitionDetectionParams``: a request ends where its outputs end in a pattern of
    so many tokens, so many times over.
    """

    max_pattern_size: Size = 0
    """0: nothing is detected."""
    min_pattern_size: Size = 0
    """0 counts as 1."""
    min_count: Size = 0


FEATURE = "repetition_detection"
"""What a trace calls a request, or a chunk of a session, whose repetitions end it."""
DETECTED = "repetition_detected"
"""The stop reason of a request that ends by repetition."""
Cycle = tuple[Size, Period]
"""From which output on (0 is the first) the model samples how many tokens over and over."""


def check(wanted: Repetition | None, place: str) -> None:
    """Raise ScenarioError for parameters that vLLM refuses to make."""
    if wanted is None:
        return
    if wanted.min_pattern_size > wanted.max_pattern_size:
        remedy = "make min_pattern_size at most max_pattern_size"
        raise ScenarioError("patterns longer than the longest", remedy, place)
    if wanted.max_pattern_size and wanted.min_count < 2:
        raise ScenarioError("a pattern that is there once", 'write "min_count": 2', place)


def parameters(package: Any, wanted: Repetition | None) -> dict[str, Any]:
    """The same for the ``SamplingParams`` of a package of vLLM's shape."""
    if wanted is None:
        return {}
    return {
        "repetition_detection": package.RepetitionDetectionParams(
            max_pattern_size=wanted.max_pattern_size,
            min_pattern_size=wanted.min_pattern_size,
            min_count=wanted.min_count,
        )
    }


def repeats(outputs: list[int], wanted: Repetition | None) -> bool:
    """Whether they end in a pattern that is to be detected. The longer the shortest pattern that
    is found, the longer this takes: at most as many comparisons as the patterns have tokens.
    """
    if wanted is None or wanted.min_count < 2:
        return False
    for size in range(max(wanted.min_pattern_size, 1), wanted.max_pattern_size + 1):
        tail = outputs[-size * wanted.min_count :]
        if len(tail) < size * wanted.min_count:
            return False
        if tail[size:] == tail[:-size]:
            return True
    return False


def cycled(at: int, first: int, period: int) -> int:
    """The position whose token the model samples at a position, in a cycle from `first` on."""
    return at if at < first else first + (at - first) % period
