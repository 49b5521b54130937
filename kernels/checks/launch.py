"""One kernel launch under check: what it may touch, what it touches, and what comes out."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import triton
from numpy.typing import NDArray

from nullblock.kernels.checks.findings import Access, Finding, Kind, Report, Site
from nullblock.kernels.checks.memory import Extent, Ints, Memory, Region
from nullblock.kernels.checks.races import SCALAR, Conflict, Operation, Races

Bools = NDArray[np.bool_]
NOT_KERNELS = (str(Path(triton.__file__).parent), str(Path(__file__).parent))
"""Where frames belong to the interpreter or to the checks."""
SHAPE = 20
"""A lane's number takes so many bits: no block is larger. Above stands which shape it is of."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a launch is run."""

    watched: bool
    """Compare accesses, and look at overflows and assertions."""
    poison: bool
    """Give lanes that are masked off arbitrary values."""
    shuffle: bool
    """Run programs, and the lanes of an atomic, in an arbitrary order."""


Values = dict[int, tuple[Ints, NDArray[Any]]]
"""For each region, by its address: granules, and what stands there."""


class Launch:
    """One launch, which may be run several times from the same start."""

    def __init__(
        self,
        kernel: str,
        report: Report,
        without: Site | None,
        threads: int,
    ) -> None:
        self.kernel, self.report = kernel, report
        self.scalar = False
        """Whether what is accessed next is a scalar, and not a block of one element."""
        self._threads = threads
        self.memory, self.races = Memory(), Races()
        self.run = Run(watched=False, poison=False, shuffle=False)
        self.program = (0, 0, 0)
        self._without = without
        self._shapes: dict[tuple[int, ...], int] = {}

    def start(self, run: Run) -> None:
        """From here on it is run so."""
        self.run, self.races = run, Races()
        for region in self.memory.regions.values():
            region.clear_shadow()
            region.undo.clear()

    def begin_program(self, program: tuple[int, int, int]) -> None:
        """From here on this program runs."""
        self.program = program
        self.races.begin_program()

    def finish(self) -> None:
        """The run is over."""
        self.report.shared |= self.races.shared

    def barrier(self) -> None:
        """A ``tl.debug_barrier()``, unless it is the one to be left out."""
        site = self.site()
        place = Site(site.file, site.line, site.function)
        if self._without is None or not _same_place(place, self._without):
            self.races.barrier(place)
        if self.run.watched:
            self.report.barriers.setdefault(place, None)

    def site(self) -> Site:
        """The line of the kernel that is being interpreted."""
        file, line, function, callers = "?", 0, "?", []
        frame: Any = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if not _foreign(code.co_filename):
                if not line:
                    file, line, function = code.co_filename, frame.f_lineno, code.co_name
                else:
                    callers.append(frame.f_lineno)
                if code.co_name == self.kernel:
                    break
            frame = frame.f_back
        return Site(file, line, function, tuple(callers))

    def access(self, pointers: Any, mask: Any, action: str, size: int, value: Any = None) -> Bools:
        """Take note of an access of ``size`` bytes a lane; return which lanes may be let through.

        ``pointers``: a handle of the interpreter. ``mask``, ``value``: arrays that fit it.
        """
        shape = np.shape(pointers.data)
        addresses = np.asarray(pointers.data).reshape(-1).astype(np.int64)
        wanted = np.broadcast_to(np.asarray(mask), shape).reshape(-1).astype(bool)
        operation = Operation(action, self.site(), self.program)
        values = None if value is None else _bits(value, shape, size)
        allowed = wanted.copy()
        for extent, mine in self._owners(pointers.attr.get("extent"), addresses, wanted):
            inside = mine & self._inside(extent, addresses, size, mine, operation)
            allowed &= ~mine | inside
            if extent is not None and inside.any():
                self._inside_access(
                    extent, addresses, np.flatnonzero(inside), operation, size, values, shape
                )
        return allowed.reshape(shape)

    def add(
        self,
        kind: Kind,
        extent: Extent | None,
        index: int | None,
        accesses: tuple[Access, ...],
        detail: str = "",
        count: int = 1,
    ) -> None:
        """Report a finding in this launch."""
        if not self.run.watched and kind not in (Kind.ORDER, Kind.POISON):
            detail = f"{detail + '; ' if detail else ''}in a run with poisoned lanes, shuffled"
        name = extent.name if extent else ""
        self.report.add(Finding(kind, self.kernel, name, index, accesses, detail, count))

    def _owners(
        self, extent: Extent | None, addresses: Ints, wanted: Bools
    ) -> Iterator[tuple[Extent | None, Bools]]:
        """Which tensor the lanes mean: the one their pointers come from, else the one they hit."""
        if extent is not None:
            yield extent, wanted
            return
        rest = wanted.copy()
        for candidate in self.memory.extents:
            mine = rest & (addresses >= candidate.low) & (addresses < candidate.high)
            if mine.any():
                rest &= ~mine
                yield candidate, mine
        if rest.any():
            yield None, rest

    def _inside(
        self, extent: Extent | None, addresses: Ints, size: int, mine: Bools, op: Operation
    ) -> Bools:
        if extent is None:
            bad, index, detail = mine, None, "an address that no argument of the launch owns"
        else:
            bad = mine & ((addresses < extent.low) | (addresses + size > extent.high))
        if bad.any():
            at = int(np.argmax(bad))
            if extent is not None:
                index = (int(addresses[at]) - extent.low) // extent.size
                detail = f"{extent.name} has {(extent.high - extent.low) // extent.size} elements"
                other = self.memory.owner(int(addresses[at]))
                detail += f"; that is in {other.name}" if other else ""
            lane = None if self.scalar else at
            access = Access(op.action, op.site, op.program, lane)
            self.add(Kind.BOUNDS, extent, index, (access,), detail, int(bad.sum()))
        return ~bad

    def _inside_access(
        self,
        extent: Extent,
        addresses: Ints,
        lanes: Ints,
        op: Operation,
        size: int,
        values: NDArray[Any] | None,
        shape: tuple[int, ...],
    ) -> None:
        region, mine = extent.region, addresses[lanes]
        writing = op.action in ("store", "atomic")
        before = region.save(mine, size) if writing else None
        if not self.run.watched:
            return
        self.report.accesses += len(lanes)
        unchanged = None
        if op.action == "store" and values is not None and before is not None:
            unchanged = before == values[lanes]
            self._duplicates(extent, mine, lanes, values[lanes], op)
        names = self._lane_names(lanes, shape)
        first = (mine - region.base) // region.granule
        for part in range(max(1, size // region.granule)):
            conflicts = self.races.access(region.shadow, first + part, names, op, unchanged)
            for conflict in conflicts:
                at = conflict.lane
                self._conflict(extent, int(mine[at]), conflict, op, int(names[at]))

    def _duplicates(
        self, extent: Extent, mine: Ints, lanes: Ints, values: NDArray[Any], op: Operation
    ) -> None:
        """Lanes of one store that write different values to one place."""
        order = np.argsort(mine, kind="stable")
        same = mine[order][1:] == mine[order][:-1]
        bad = same & (values[order][1:] != values[order][:-1])
        if bad.any():
            at = int(np.argmax(bad))
            pair = tuple(
                Access(op.action, op.site, op.program, int(lanes[order[k]])) for k in (at, at + 1)
            )
            index = (int(mine[order[at]]) - extent.low) // extent.size
            self.add(Kind.DUPLICATE, extent, index, pair, count=int(bad.sum()))

    def _conflict(
        self, extent: Extent, address: int, conflict: Conflict, op: Operation, lane: int
    ) -> None:
        earlier = conflict.earlier
        pair = (
            Access(earlier.action, earlier.site, earlier.program, _lane(conflict.earlier_lane)),
            Access(op.action, op.site, op.program, _lane(lane)),
        )
        index = (address - extent.low) // extent.size
        if conflict.barrier is None:
            self.add(conflict.kind, extent, index, pair, count=conflict.count)
        elif self.report.barriers.get(conflict.barrier) is None:
            parted = Finding(conflict.kind, self.kernel, extent.name, index, pair)
            self.report.barriers[conflict.barrier] = parted

    def _lane_names(self, lanes: Ints, shape: tuple[int, ...]) -> NDArray[np.int32]:
        """Lanes of blocks of one shape have the same names; what several threads hold has none."""
        if self.scalar or int(np.prod(shape)) < self._threads:
            return np.full(len(lanes), SCALAR, np.int32)
        number = self._shapes.setdefault(shape, len(self._shapes))
        return (lanes + (number << SHAPE)).astype(np.int32)

    def outcome(self) -> Values:
        """What the run has written."""
        regions = [r for r in self.memory.regions.values() if r.undo]
        places = {r.base: r.written() for r in regions}
        return {r.base: (places[r.base], r.view(r.granule)[places[r.base]]) for r in regions}

    def roll_back(self) -> None:
        """Put memory back to what it was before the run."""
        for region in self.memory.regions.values():
            region.roll_back()

    def write(self, values: Values) -> None:
        """Put memory to what a run has made of it."""
        for base, (places, content) in values.items():
            region = self.memory.regions[base]
            region.view(region.granule)[places] = content

    def difference(self, one: Values, two: Values) -> tuple[Extent | None, int, str, int] | None:
        """Where two outcomes differ, memory being rolled back: tensor, element, words, count."""
        for base in sorted(one.keys() | two.keys()):
            region = self.memory.regions[base]
            empty = (np.zeros(0, np.int64), np.zeros(0, f"u{region.granule}"))
            sides = [one.get(base, empty), two.get(base, empty)]
            places = np.union1d(sides[0][0], sides[1][0])
            now = [_over(region, places, side) for side in sides]
            bad = now[0] != now[1]
            if bad.any():
                at = int(np.argmax(bad))
                address = region.base + int(places[at]) * region.granule
                extent = self.memory.owner(address)
                index = (address - extent.low) // extent.size if extent else int(places[at])
                words = f"bits {int(now[0][at]):#x} in one run, {int(now[1][at]):#x} in another"
                return extent, index, words, int(bad.sum())
        return None


def _over(region: Region, places: Ints, side: tuple[Ints, NDArray[Any]]) -> NDArray[Any]:
    """What stands at some places of a region after a run has written over it."""
    content = region.view(region.granule)[places]
    content[np.searchsorted(places, side[0])] = side[1]
    return content


def _bits(value: Any, shape: tuple[int, ...], size: int) -> NDArray[Any]:
    whole = np.ascontiguousarray(np.broadcast_to(np.asarray(value), shape)).reshape(-1)
    return whole.view(f"u{size}")


def _lane(name: int) -> int | None:
    return None if name == SCALAR else name & ((1 << SHAPE) - 1)


def _same_place(one: Site, two: Site) -> bool:
    return (one.file, one.line) == (two.file, two.line)


@cache
def _foreign(file: str) -> bool:
    return file.startswith(NOT_KERNELS)
