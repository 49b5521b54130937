"""The loop: requests arrive, steps are decided, the model samples, the clock goes on."""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from nullblock.conformance.engine import Fields
from nullblock.conformance.errors import InputError
from nullblock.conformance.replaying.arrivals import EOS, Arrivals
from nullblock.conformance.replaying.clock import Clock
from nullblock.conformance.replaying.engine import ReplayEngine
from nullblock.conformance.replaying.figures import Figures, Live
from nullblock.conformance.replaying.recorder import NoRecorder, Recorder

P = ParamSpec("P")
T = TypeVar("T")

_IDLE_STEPS = 4
"""After so many steps that do nothing, nothing will happen any more by itself."""
_POSITIONS = 2**24


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step whose output is not there yet."""

    ids: list[str]
    chunks: frozenset[str]
    """Who has prompt left after it, and so samples nothing."""
    ready: float
    """When its output is there."""


class Stuck(Exception):
    """The engine has requests, decides nothing, and nobody arrives any more."""


class EngineRaised(Exception):
    """The engine raised instead of deciding: an observation, which ends the replay."""


class Play:
    """A workload on an engine.

    One step is decided when the one before has returned, or, scheduling asynchronously, up to
    ``depth`` of them before the first one has, as vLLM's batch queue does.
    """

    def __init__(
        self,
        engine: ReplayEngine,
        arrivals: Arrivals,
        clock: Clock,
        figures: Figures,
        recorder: Recorder | NoRecorder,
        depth: int = 1,
    ) -> None:
        self.engine, self.arrivals, self.clock = engine, arrivals, clock
        self.figures, self.recorder, self.depth = figures, recorder, depth
        self.in_flight: deque[InFlight] = deque()
        self._idle = 0

    def run(self) -> Iterator[None]:
        """Play to the end, one item a turn.

        Raises:
            Stuck: requests are left that the engine will never serve.
            EngineRaised: the cause says what.
        """
        while True:
            self._arrive()
            if not self.in_flight and not self.engine.has_requests():
                next_time = self.arrivals.next_time()
                if next_time is None:
                    break
                self.clock.advance(next_time)
                continue
            self._turn()
            if self._idle >= _IDLE_STEPS:
                self._wait_for_somebody()
            yield
        self.figures.until(self.clock.now)

    def _ask(self, kind: str, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the engine; what it raises is recorded."""
        try:
            return method(*args, **kwargs)
        except InputError:
            raise
        except Exception as error:
            self.recorder.raised(kind, type(error).__name__)
            raise EngineRaised from error

    def _arrive(self) -> None:
        for request in self.arrivals.take(self.clock.now):
            self.figures.arrive(request)
            self._ask("add", self.engine.add, request)
            self.recorder.add(request)

    def _turn(self) -> None:
        if self.engine.has_requests():
            scheduled = self._schedule()
            if scheduled and len(self.in_flight) < self.depth:
                return
        if self.in_flight:
            self._update()

    def _schedule(self) -> int:
        """Decide a step; how many tokens it has."""
        engine, now = self.engine, self.clock.now
        decided = self._ask("schedule", engine.schedule)
        total = int(decided["total"])
        ids = list(decided["num_scheduled_tokens"])
        chunks = frozenset(id for id in ids if engine.is_prefill_chunk(id))
        self.in_flight.append(InFlight(ids, chunks, self.clock.start(total)))
        num_free = engine.num_free_blocks()
        self.recorder.schedule(decided, num_free)
        figures = self.figures
        figures.scheduled(decided, now)
        figures.stand(now, num_free, engine.pool_use() if figures.needs_pool(now) else None)
        self._idle = 0 if total or decided["preempted"] else self._idle + 1
        return total

    def _update(self) -> None:
        step = self.in_flight.popleft()
        self.clock.advance(step.ready)
        live = self.figures.live
        sampled: Fields = {
            id: [] if id in step.chunks or id not in live else [self._token(live[id])]
            for id in step.ids
        }
        frame = {id: list(tokens) for id, tokens in sampled.items()}
        outputs = self._ask("update", self.engine.update, sampled)
        num_free = self.engine.num_free_blocks()
        self.recorder.update(frame, outputs, live, num_free)
        now = self.clock.now
        for number in self.figures.updated(outputs, now):
            self.arrivals.ended(number, now)
            self._idle = 0
        self.figures.stand(now, num_free, None)

    def _token(self, one: Live) -> int:
        """The end if it is due, else a token that nobody else samples."""
        if one.request.eos is not None and one.taken + 1 >= one.request.output_length:
            return EOS
        return -2 - one.request.number * _POSITIONS - one.taken

    def _wait_for_somebody(self) -> None:
        """Nothing was decided for a while: only an arrival can change that."""
        next_time = self.arrivals.next_time()
        if next_time is None or self.in_flight:
            raise Stuck
        self.clock.advance(next_time)
        self._idle = 0
