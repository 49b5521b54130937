"""The chain numbers of a request's blocks."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Chain:
    """The chain numbers of one request's full blocks, as runs: a long one costs no more."""

    __slots__ = ("length", "shifts", "starts")

    def __init__(self, runs: Iterable[tuple[int, int]]) -> None:
        self.starts: list[int] = []
        self.shifts: list[int] = []
        """For each run, how far its numbers are ahead of their places."""
        self.length = 0
        for first, many in runs:
            self.extend(first, many)

    def extend(self, first: int, many: int = 1) -> None:
        """Add `many` blocks, numbered from `first`."""
        self.starts.append(self.length)
        self.shifts.append(first - self.length)
        self.length += many

    def jumps(self) -> list[tuple[int, int]]:
        """Where the numbers do not go on as they did, and how far they are ahead from there:
        equal where the numbers are, however they were told.
        """
        before = [None, *self.shifts]
        rows = zip(self.starts, self.shifts, before, strict=False)
        return [(start, shift) for start, shift, last in rows if shift != last]

    def agrees(self, other: "Chain") -> bool:
        """Whether the numbers are equal as far as there are some of both."""
        many = min(self.length, other.length)
        edges = {start for start, _ in (*self.jumps(), *other.jumps())}
        return all(self[i] == other[i] for i in edges if i < many)

    def cut(self, length: int) -> None:
        """Keep so many blocks, if there are more."""
        if length < self.length:
            many = bisect_right(self.starts, length - 1) if length > 0 else 0
            del self.starts[many:], self.shifts[many:]
            self.length = length

    def numbers(self, places: range) -> Iterator[int]:
        """Those at places that go up: run by run, since a long prompt is asked for as a whole."""
        while places:
            run = bisect_right(self.starts, places[0]) - 1
            last = run + 1 == len(self.starts)
            end = self.length if last else self.starts[run + 1]
            many = len(range(places[0], min(end, places[-1] + 1), places.step))
            shift = self.shifts[run]
            yield from range(places[0] + shift, places[many - 1] + shift + 1, places.step)
            places = places[many:]

    def __getitem__(self, i: int) -> int:
        if i >= self.starts[-1]:
            return self.shifts[-1] + i
        return self.shifts[bisect_right(self.starts, i) - 1] + i
