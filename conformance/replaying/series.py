"""Figures over time and distributions, in memory that does not grow."""

import math
from dataclasses import dataclass, field

BINS = 360
"""Points in time that a series keeps; when there are more, neighbours become one."""
_FIRST_WIDTH = 1.0
_RESOLUTION = 1.01
_SMALLEST = 1e-4


@dataclass(slots=True)
class Bin:
    """What happened in a stretch of time."""

    span: float = 0.0
    """Seconds that the levels cover."""
    levels: dict[str, float] = field(default_factory=dict)
    """Each level times the seconds for which it stood."""
    peaks: dict[str, float] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)

    def mean(self, level: str) -> float | None:
        """A level's mean over time; None where nothing was observed."""
        return self.levels.get(level, 0.0) / self.span if self.span else None

    def absorb(self, other: "Bin") -> None:
        """Take in what happened right after."""
        self.span += other.span
        for mine, theirs in ((self.levels, other.levels), (self.counts, other.counts)):
            for name, value in theirs.items():
                mine[name] = mine.get(name, 0.0) + value
        for name, value in other.peaks.items():
            self.peaks[name] = max(self.peaks.get(name, value), value)


class Timeline:
    """Levels and counts by time, in at most BINS stretches of equal length."""

    def __init__(self) -> None:
        self.width = _FIRST_WIDTH
        self.bins: list[Bin] = []

    def at(self, time: float) -> Bin:
        """The bin of a time that is not before the last one."""
        while (index := int(time / self.width)) >= BINS:
            self._halve()
        while len(self.bins) <= index:
            self.bins.append(Bin())
        return self.bins[index]

    def hold(self, begin: float, end: float, levels: dict[str, float]) -> None:
        """Levels that stood from one time to another."""
        self.at(end)
        while begin < end:
            index = int(begin / self.width)
            until = min(end, (index + 1) * self.width)
            if until <= begin:  # a rounding error at the edge of a bin
                until = min(end, (index + 2) * self.width)
            one, span = self.bins[index], until - begin
            one.span += span
            for name, value in levels.items():
                one.levels[name] = one.levels.get(name, 0.0) + value * span
                one.peaks[name] = max(one.peaks.get(name, value), value)
            begin = until

    def _halve(self) -> None:
        self.width *= 2
        pairs = zip(self.bins[::2], [*self.bins[1::2], Bin()], strict=False)
        self.bins = [self._joined(left, right) for left, right in pairs]

    @staticmethod
    def _joined(left: Bin, right: Bin) -> Bin:
        left.absorb(right)
        return left


class Distribution:
    """Durations, in buckets one per cent wide: every quantile is that exact."""

    def __init__(self) -> None:
        self.count, self.total, self.largest = 0, 0.0, 0.0
        self.buckets: dict[int, int] = {}

    def add(self, seconds: float) -> None:
        """One more."""
        self.count += 1
        self.total += seconds
        self.largest = max(self.largest, seconds)
        place = _bucket(seconds)
        self.buckets[place] = self.buckets.get(place, 0) + 1

    def cumulative(self) -> list[tuple[float, float]]:
        """Durations, and the share that took no longer, from the shortest to the longest."""
        so_far, points = 0, []
        for place in sorted(self.buckets):
            so_far += self.buckets[place]
            points.append((min(_upper(place), self.largest), so_far / self.count))
        return points

    def quantile(self, share: float) -> float | None:
        """What that share took no longer than; None of nothing."""
        return next((s for s, part in self.cumulative() if part >= share - 1e-12), None)

    def figures(self) -> dict[str, float | int | None]:
        """The usual ones, in seconds."""
        return {
            "count": self.count,
            "mean": self.total / self.count if self.count else None,
            "p50": self.quantile(0.5),
            "p90": self.quantile(0.9),
            "p99": self.quantile(0.99),
            "max": self.largest if self.count else None,
        }


def _bucket(seconds: float) -> int:
    if seconds < _SMALLEST:
        return 0
    return 1 + math.ceil(math.log(seconds / _SMALLEST) / math.log(_RESOLUTION) - 1e-9)


def _upper(place: int) -> float:
    return float(_SMALLEST * _RESOLUTION ** (place - 1)) if place else 0.0
