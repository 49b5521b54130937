"""What is counted and how it is judged: bytes, operations, floors, ratios. No device here."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """What one call has to move and compute, by the problem's sizes, not by what a kernel does."""

    bytes: int = 0
    """Read plus written, each once."""
    flops: int = 0
    """A multiplication and an addition are two."""


@dataclass(frozen=True, slots=True)
class Floors:
    """What this device can do, measured in the same call as everything else."""

    copy_bandwidth: float
    """Bytes a second, read plus written, of a copy far larger than every cache."""
    matmul_rate: float
    """Operations a second of a square bfloat16 product."""
    launch: float
    """Seconds that an empty kernel takes as one more node of a captured graph."""
    eager_launch: float
    """Seconds of host time that launching it takes, outside a graph."""

    def seconds(self, cost: Cost) -> float:
        """The least time for such a cost: the slower of moving and computing, and a launch."""
        moving = cost.bytes / self.copy_bandwidth if self.copy_bandwidth else 0.0
        computing = cost.flops / self.matmul_rate if self.matmul_rate else 0.0
        return max(moving, computing, self.launch)


@dataclass(frozen=True, slots=True)
class Spread:
    """Seconds, of several measurements: the middle one, and the lower and upper decile."""

    median: float
    low: float
    high: float
    count: int

    def __sub__(self, other: "Spread") -> "Spread":
        """What is left of a measurement when its setting is taken away. The deciles keep their
        distance from the median, widened by those of the setting."""
        median = self.median - other.median
        low = (self.median - self.low) + (other.high - other.median)
        high = (self.high - self.median) + (other.median - other.low)
        return Spread(median, median - low, median + high, min(self.count, other.count))

    def __truediv__(self, calls: int) -> "Spread":
        """One of so many calls that were measured together."""
        return Spread(self.median / calls, self.low / calls, self.high / calls, self.count)


def spread(samples: Sequence[float]) -> Spread:
    """Median and deciles, nearest rank. Raises ValueError if nothing was measured."""
    if not samples:
        raise ValueError("nothing was measured")
    ordered = sorted(samples)

    def rank(share: float) -> float:
        return ordered[min(len(ordered) - 1, max(0, math.ceil(share * len(ordered)) - 1))]

    return Spread(statistics.median(ordered), rank(0.1), rank(0.9), len(ordered))


@dataclass(frozen=True, slots=True)
class Times:
    """How long one call takes."""

    warm: Spread
    """On the device, one after another, what it reads in the caches where it fits."""
    cold: Spread
    """On the device, after everything was pushed out of the caches: as in a step, where the model
    runs in between."""
    host: Spread
    """On the host, to enqueue a captured graph with one call."""
    eager: Spread
    """On the host, to call the wrapper outside a graph: checks and launches."""


@dataclass(frozen=True, slots=True)
class Target:
    """What the project set itself. Exactly one of the two is given."""

    name: str
    """As in the list of targets (`targets.py`)."""
    seconds: float | None = None
    """At most; of cold device time."""
    share: float | None = None
    """At least; of the floor that binds."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: one piece of work, ours and what a user might take instead."""

    what: str
    cost: Cost
    times: Times
    peers: dict[str, Times | str]
    """By name: its times, or why there are none."""
    target: Target | None = None

    @property
    def cold(self) -> float | None:
        """Seconds, cold; None if noise was larger than what it should measure."""
        return self.times.cold.median if self.times.cold.median > 0 else None

    def share(self, floors: Floors) -> float | None:
        """The floor as a share of the cold time: 1 is as fast as the device can."""
        return None if self.cold is None else floors.seconds(self.cost) / self.cold

    def meets(self, floors: Floors) -> bool | None:
        """Whether the target is met; None if there is none, or no time to judge."""
        share = self.share(floors)
        if self.cold is None or share is None:
            return None
        match self.target:
            case Target(seconds=float(most)):
                return self.cold <= most
            case Target(share=float(least)):
                return share >= least
        return None

    def faster(self, peer: str) -> float | None:
        """How many times faster than a peer, cold; None where it was not measured."""
        times = self.peers[peer]
        if isinstance(times, str) or self.cold is None:
            return None
        return times.cold.median / self.cold


def microseconds(seconds: float) -> str:
    """A time, with three digits that count."""
    value = seconds * 1e6
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
