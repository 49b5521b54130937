"""Which accesses to global memory the interpreter orders, and a device does not.

Programs of one launch run in any order, and at the same time. Within a program, Triton does not
order a store before a later load of the same address: the two may be spread over threads in
different ways, and only ``tl.debug_barrier()`` makes all threads wait. An *epoch* is what a
program does between two barriers. Two accesses to an element conflict if one of them writes and

* they are of two programs, and not both atomic; or
* they are of one epoch, and the first is a store or an atomic, and not both are atomic; or
* they are of one epoch, the first is a load, and another lane than it writes.

A lane that writes what it has read itself is ordered by the flow of data. A scalar is read by
every thread and written by one of them: there no data flows from the others, and it conflicts. So
does each lane of a block that has fewer lanes than the program has threads, if that is asked for.
A store of the value that stands there already harms no load and no other store. What other data
would lead to is not seen.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nullblock.kernels.checks.findings import Kind, Site

Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]
Words = NDArray[np.int32]

FIRST_LOAD, OTHER_LOAD = 0, 1
"""The first load in the launch, and one by another program than that."""
FIRST_STORE, OTHER_STORE = 2, 3
FIRST_ATOMIC, OTHER_ATOMIC = 4, 5
LAST_STORE, LAST_ATOMIC = 6, 7
EPOCH_LOAD, EPOCH_LOAD_2 = 8, 9
"""The first load in the latest epoch that has one, and one by another lane than that."""
SCALAR = -1
"""In place of a lane's number: no lane, and equal to none."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One load, store or atomic of one program."""

    action: str
    site: Site
    program: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Lanes of an operation that conflict with earlier ones, or would but for one barrier."""

    kind: Kind
    barrier: Site | None
    """The only barrier in the source that stands between the two; None: none does."""
    lane: int
    """The position, among those given, of one of them."""
    earlier: Operation
    earlier_lane: int
    count: int


class Races:
    """Follows the accesses of one launch."""

    def __init__(self) -> None:
        self._operations: list[Operation | None] = [None]
        # By operation; grown as needed. Operation 0 is none, of no program and no epoch.
        self._program = np.full(1024, -1, np.int32)
        self._epoch = np.full(1024, -1, np.int32)
        # The program and its epoch, both counted over the whole launch.
        self._now = (0, 0)
        # The barrier passed last, and the first epoch that no other barrier parts from now.
        self._last: Site | None = None
        self._since = 0
        # What ended each epoch: a barrier, or None, the program.
        self._ends: list[Site | None] = []
        self.shared: set[Site] = set()
        """Barriers that, with others, stand between two accesses that would conflict."""

    def begin_program(self) -> None:
        """From here on another program runs."""
        self._end_epoch(None)
        self._now = (self._now[0] + 1, self._now[1])
        self._last, self._since = None, self._now[1]

    def barrier(self, site: Site) -> None:
        """All threads of the program have come to this barrier."""
        if site != self._last:
            self._last, self._since = site, self._now[1]
        self._end_epoch(site)

    def _end_epoch(self, by: Site | None) -> None:
        self._ends.append(by)
        self._now = (self._now[0], self._now[1] + 1)

    def access(
        self,
        shadow: Words,
        elements: Ints,
        lanes: Words,
        operation: Operation,
        unchanged: Bools | None = None,
    ) -> list[Conflict]:
        """Take note of one operation's accesses; return those earlier ones it conflicts with.

        ``elements`` and ``lanes`` are of one length. ``unchanged``: where a store writes what
        stands there already.
        """
        number = self._number(operation)
        rows = shadow[elements]
        conflicts = [
            self._conflict(kind, barrier, rows, slots, bad)
            for kind, slots, concerns in self._rules(operation.action, rows, lanes, unchanged)
            for barrier, bad in self._apart(kind, rows, slots, concerns)
            if bad.any()
        ]
        self._note(shadow, elements, lanes, rows, number, operation.action)
        return conflicts

    def _apart(
        self, kind: Kind, rows: Words, slots: Ints, concerns: Bools
    ) -> Iterator[tuple[Site | None, Bools]]:
        """Of the lanes that a rule concerns, those with no barrier, and with one, between."""
        if kind is Kind.PROGRAMS:
            yield None, concerns
            return
        epochs = self._epoch[rows[:, slots[0], 0]]
        yield None, concerns & (epochs == self._now[1])
        if self._last is not None:
            yield self._last, concerns & (epochs >= self._since) & (epochs < self._now[1])
            before = epochs[concerns & (epochs >= 0) & (epochs < self._since)]
            # Two accesses of other programs have other epochs too, and None between.
            for epoch in set(before.tolist()):
                between = self._ends[epoch : self._now[1]]
                self.shared.update(site for site in between if site and None not in between)

    def _conflict(
        self, kind: Kind, barrier: Site | None, rows: Words, slots: Ints, bad: Bools
    ) -> Conflict:
        at = int(np.argmax(bad))
        earlier, lane = (int(word) for word in rows[at, slots[at]])
        found = self._operations[earlier]
        assert found is not None
        return Conflict(kind, barrier, at, found, lane, int(bad.sum()))

    def _number(self, operation: Operation) -> int:
        number = len(self._operations)
        self._operations.append(operation)
        if number == len(self._program):
            self._program = np.concatenate([self._program, np.full_like(self._program, -1)])
            self._epoch = np.concatenate([self._epoch, np.full_like(self._epoch, -1)])
        self._program[number], self._epoch[number] = self._now
        return number

    def _rules(
        self, action: str, rows: Words, lanes: Words, unchanged: Bools | None
    ) -> list[tuple[Kind, Ints, Bools]]:
        """For each rule: what it finds, the slot of the earlier access, which lanes it concerns.

        Rules about barriers concern lanes wherever the earlier access was: see `_apart`.
        """
        every = np.ones(len(lanes), bool)
        changed = every if unchanged is None else ~unchanged
        found = []
        if action != "atomic":
            found.append(self._elsewhere(rows, FIRST_ATOMIC, OTHER_ATOMIC, every))
            found.append((Kind.BARRIER, np.full(len(rows), LAST_ATOMIC), every))
        found.append(self._elsewhere(rows, FIRST_STORE, OTHER_STORE, changed))
        found.append((Kind.BARRIER, np.full(len(rows), LAST_STORE), changed))
        if action in ("store", "atomic"):
            found.append(self._elsewhere(rows, FIRST_LOAD, OTHER_LOAD, changed))
            for slot in (EPOCH_LOAD, EPOCH_LOAD_2):
                other = changed & ((rows[:, slot, 1] != lanes) | (lanes == SCALAR))
                found.append((Kind.BARRIER, np.full(len(rows), slot), other))
        return found

    def _elsewhere(
        self, rows: Words, first: int, other: int, concerns: Bools
    ) -> tuple[Kind, Ints, Bools]:
        """Accesses of another program."""
        by = self._program[rows[:, [first, other], 0]]
        foreign = (by >= 0) & (by != self._now[0])
        slots = np.where(foreign[:, 0], first, other)
        return Kind.PROGRAMS, slots, foreign.any(1) & concerns

    def _note(
        self, shadow: Words, elements: Ints, lanes: Words, rows: Words, number: int, action: str
    ) -> None:
        writing = action in ("store", "atomic")
        first = {"store": FIRST_STORE, "atomic": FIRST_ATOMIC}.get(action, FIRST_LOAD)
        entry = np.stack([np.full(len(lanes), number, np.int32), lanes], axis=1)
        # Written from the back, so that of several lanes at one element the first one stays.
        fresh = rows[:, first, 0] == 0
        shadow[elements[fresh][::-1], first] = entry[fresh][::-1]
        by = self._program[rows[:, first, 0]]
        foreign = (by >= 0) & (by != self._now[0])
        shadow[elements[foreign], first + 1] = entry[foreign]
        if writing:
            shadow[elements, LAST_STORE if action == "store" else LAST_ATOMIC] = entry
            return
        fresh = self._epoch[rows[:, EPOCH_LOAD, 0]] != self._now[1]
        shadow[elements[fresh][::-1], EPOCH_LOAD] = entry[fresh][::-1]
        shadow[elements[fresh], EPOCH_LOAD_2] = 0
        another = (shadow[elements, EPOCH_LOAD, 1] != lanes) | (lanes == SCALAR)
        shadow[elements[another], EPOCH_LOAD_2] = entry[another]
