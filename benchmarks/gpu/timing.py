"""Measuring: a clock that runs captured work, and what follows from its samples.

Device time is taken from captured graphs, never from eager launches: one graph holds the call
several times, so that the start of the graph is shared out, and a second one holds only what has
to happen between calls (state put back, caches flushed), which is taken away. Host time is
measured on its own.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from figures import Spread, Times, spread

Call = Callable[[], object]


class Clock(Protocol):
    """Runs work on some device and says how long it took."""

    def capture(self, calls: Sequence[Call]) -> Call:
        """All these calls, as one thing to start."""
        ...

    def device_seconds(self, start: Call) -> float:
        """How long the device is busy with it; waits."""
        ...

    def host_seconds(self, start: Call) -> float:
        """How long the host takes to start it; waits afterwards, which does not count."""
        ...

    def flush(self) -> None:
        """Push everything out of the device's caches; may be captured."""
        ...


@dataclass(frozen=True, slots=True)
class Effort:
    """How often is measured."""

    calls: int = 20
    """In one graph."""
    rounds: int = 30
    host_rounds: int = 100

    @classmethod
    def quick(cls) -> "Effort":
        """For a look: a few seconds a table."""
        return cls(calls=10, rounds=10, host_rounds=30)

    @classmethod
    def cpu(cls) -> "Effort":
        """For the twins: enough to see which is which."""
        return cls(calls=1, rounds=5, host_rounds=2)


def measure(clock: Clock, call: Call, reset: Call | None, effort: Effort) -> Times:
    """How long one call takes; `reset` is run before each and not counted."""

    def device(between: list[Call]) -> Spread:
        work = clock.capture([each for _ in range(effort.calls) for each in (*between, call)])
        taken = spread([clock.device_seconds(work) for _ in range(effort.rounds)])
        if between:
            setting = clock.capture(between * effort.calls)
            taken -= spread([clock.device_seconds(setting) for _ in range(effort.rounds)])
        return taken / effort.calls

    resets = [reset] if reset else []
    call()
    warm, cold = device(resets), device([*resets, clock.flush])

    def host(start: Call) -> Spread:
        samples = []
        for _ in range(effort.host_rounds):
            if reset:
                reset()
            samples.append(clock.host_seconds(start))
        return spread(samples)

    return Times(warm, cold, host(clock.capture([call])), host(call))


class CudaClock:
    """A GPU: graphs, and events of the stream."""

    def __init__(self, flush_bytes: int = 256 << 20) -> None:
        self.dirt = torch.empty(flush_bytes, dtype=torch.int8, device="cuda")
        self.begin = torch.cuda.Event(enable_timing=True)
        self.end = torch.cuda.Event(enable_timing=True)

    def capture(self, calls: Sequence[Call]) -> Call:
        """A graph. Everything runs once outside it first: what compiles must not be captured."""
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for call in dict.fromkeys(calls):
                call()
        torch.cuda.current_stream().wait_stream(aside)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for call in calls:
                call()
        return graph.replay

    def device_seconds(self, start: Call) -> float:
        """Between two events around it."""
        self.begin.record()
        start()
        self.end.record()
        torch.cuda.synchronize()
        return self.begin.elapsed_time(self.end) / 1e3

    def host_seconds(self, start: Call) -> float:
        """Until it is enqueued."""
        torch.cuda.synchronize()
        before = time.perf_counter()
        start()
        seconds = time.perf_counter() - before
        torch.cuda.synchronize()
        return seconds

    def flush(self) -> None:
        """Overwrite more than any cache holds."""
        self.dirt.zero_()


class CpuClock:
    """A processor: calls one after another. There are no graphs, and host time is all there is."""

    def capture(self, calls: Sequence[Call]) -> Call:
        """A loop."""

        def start() -> None:
            for call in calls:
                call()

        return start

    def device_seconds(self, start: Call) -> float:
        """Wall-clock time."""
        before = time.perf_counter()
        start()
        return time.perf_counter() - before

    host_seconds = device_seconds

    def flush(self) -> None:
        """Nothing: what a processor has in its caches is not ours to say."""
