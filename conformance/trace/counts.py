"""What a whole step tells of the requests in it: what was computed, and how much had come out."""

from collections.abc import Iterable

from msgspec import UNSET, UnsetType

from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.records import Schedule


def numbers(before: Schedule) -> tuple[list[int], list[int]]:
    """What a whole record says of everybody it schedules: computed, num_output."""
    facts = {new.id: (new.computed, 0) for new in before.new}
    cached = before.cached
    if (
        cached is not UNSET
        and not isinstance(cached.computed, UnsetType)
        and not isinstance(cached.num_output, UnsetType)
    ):
        known: Iterable[tuple[int, int]] = zip(cached.computed, cached.num_output, strict=True)
        facts |= dict(zip(cached.ids, known, strict=True))
    told = [fact(facts, id, before.step) for id in before.ids]
    return [n for n, _ in told], [o for _, o in told]


def fact(facts: dict[int, tuple[int, int]], id: int, step: int) -> tuple[int, int]:
    fact = facts.get(id)
    if fact is None:
        what = f"step {step} does not tell what is computed of request {id}"
        raise Malformed(what, "write a whole record after it")
    return fact
