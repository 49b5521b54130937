"""A header that hides that an EAGLE-like method was configured.

Where one is, the last block of every prefix hit is computed again. The first hit of a trace shows
it, which may come before the first draft: an engine is not to blame for what it was told to do.
"""

from collections.abc import Iterable
from typing import Any

from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.checker.drafts import NONE
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.reader import Located
from nullblock.conformance.trace.records import Draft, Header, Schedule, State


def may_be_eagle(mismatch: Mismatch, header: Header, adopted: int) -> bool:
    """Whether a mismatch is what such a method, of which the header does not say, comes to: a hit
    lacks its last block alone, and none has been explained before.

    Args:
        adopted: blocks of hits that the rules and the trace had in common before.
    """
    c = header.config
    if adopted or c.is_eagle:
        return False
    ours, theirs = mismatch.expected, mismatch.actual
    if mismatch.rule != "HASH-11" or not isinstance(ours, int) or not isinstance(theirs, int):
        return False
    lacks = ours - theirs
    if any(group.block_size for group in c.groups):  # kinds may drop one after another
        return lacks > 0 and lacks % c.hit_unit == 0
    return lacks == c.hit_unit


def missing(mismatch: Mismatch, header: Header, rest: Iterable[Located]) -> str | None:
    """What the header does not say, by name, where it may be the reason of a mismatch: whether
    what proposes drafts is such a method; or that anything proposes some, as the rest of the trace
    shows. None: nothing proposes any.

    Raises nothing for damage in what is left: the rest is not judged.
    """
    about = f"{mismatch.what} lacks its last block, as with an EAGLE-like method"
    c = header.config
    if c.num_spec_tokens:
        return f"whether drafts are of an EAGLE-like method: {about}, and `spec_method` is " + (
            f"{c.spec_method!r}"
        )
    try:
        told = any(_tells_of_drafts(located.record) for located in rest)
    except Malformed:
        return None
    return f"drafts that nobody configured: {NONE}, and {about}" if told else None


def _tells_of_drafts(record: Any) -> bool:
    match record:
        case Draft(counts=counts):
            return any(counts)
        case Schedule(drafts=drafts):
            return bool(drafts)
        case State(requests=requests, in_flight=flights):
            waits = any(request.drafts for request in requests)
            return waits or any(step.drafts for step in flights or ())
        case _:
            return False
