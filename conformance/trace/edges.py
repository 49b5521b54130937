"""What a short form means by the blocks that requests open and fill at their edges.

Where a step computes one token for each, whoever has computed a multiple of the block size needs
a block, and whoever has a full block with the token sampled fills one. Who that is need not be
told: only which blocks they get, and which content is new. Where it does not follow, it is told
who they are.
"""

from msgspec import UNSET, UnsetType

from nullblock.conformance.trace.base import Groups
from nullblock.conformance.trace.counts import numbers
from nullblock.conformance.trace.deltas import OutputDelta, ScheduleDelta
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.records import Schedule

_RECORDER = "record it again: a recorder writes what happens, in its order"


class InFlight:
    """Steps in flight that are told, and what everybody had computed. Memory: those steps."""

    def __init__(self) -> None:
        self._steps: dict[int, tuple[Schedule, list[int] | None]] = {}

    def put(self, step: Schedule, computed: list[int] | None) -> None:
        """A step is scheduled; ``computed``, in parallel to its ids, None: as the step tells."""
        self._steps[step.step] = (step, computed)

    def take(self, number: int) -> tuple[Schedule, list[int] | None] | None:
        """The step whose output comes; None: it was not told."""
        return self._steps.pop(number, None)

    def clear(self) -> None:
        """Nothing is known any more."""
        self._steps.clear()


def filled(
    line: OutputDelta, told: tuple[Schedule, list[int] | None] | None, size: int
) -> list[tuple[int, int]] | UnsetType:
    """The ``chain`` of an output; ``told``: its step. UNSET: it is not observed."""
    first = line.fresh
    if first is UNSET:
        return line.chain
    if line.fills:
        return list(zip(line.fills, range(first, first + len(line.fills)), strict=True))
    if told is None:
        what = f"`fresh` refers to step {line.step}, which is not told"
        raise Malformed(what, _RECORDER)
    step, computed = told
    if computed is None:
        computed, _ = numbers(step)
    rows = zip(step.ids, computed, step.tokens, strict=True)
    full = [id for id, n, tokens in rows if not (n + tokens + 1) % size]
    return list(zip(full, range(first, first + len(full)), strict=True))


def blocks(
    line: ScheduleDelta, ids: list[int], computed: list[int], size: int
) -> list[tuple[int, Groups]]:
    """The blocks that a step tells of; ``ids``: who stays, with ``computed`` tokens each."""
    if not line.given:
        return line.blocks
    odd = {id for id, _, _, _ in line.odd}
    due = (id for id, n in zip(ids, computed, strict=True) if not n % size and id not in odd)
    opening = line.gets or list(due)
    if len(opening) != len(line.given):
        many = f"{len(line.given)} blocks `given` in step {line.step}"
        what = f"{many}, where {len(opening)} are due"
        raise Malformed(what, _RECORDER)
    given = [(id, [[block]]) for id, block in zip(opening, line.given, strict=True)]
    if not line.blocks:
        return given
    place = {id: i for i, id in enumerate([*ids, *(id for id, _, _ in line.known)])}
    return sorted(given + line.blocks, key=lambda pair: place.get(pair[0], len(place)))
