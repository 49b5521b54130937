"""Steps that are like the one before: the same requests, a token each, nothing else.

With hundreds of requests decoding nearly all steps are. A run of them begins behind any other step
whose counts are known; its steps have numbers from 1 on. What is to be told of one of them follows
from its number, so that nothing is done for each request.
"""

from nullblock.conformance.adapters.vllm.filling import Ring, tokens_on
from nullblock.conformance.adapters.vllm.observe import Fields, Observer
from nullblock.conformance.adapters.vllm.outcomes import Outcomes
from nullblock.conformance.adapters.vllm.seen import Seen, Taken
from nullblock.conformance.adapters.vllm.step import Step
from nullblock.conformance.adapters.vllm.steps import Steps


class Alike:
    """Tells both halves of such steps. No is said before anything is changed."""

    def __init__(self, observer: Observer, steps: Steps, outcomes: Outcomes) -> None:
        self.observer, self.steps, self.outcomes = observer, steps, outcomes
        self._first: Step | None = None
        """The step that the run began behind."""
        self._ring = Ring(b"", 1)
        self._many = 0
        """Steps in the run."""
        self._last: Seen | None = None
        """The last step in the run."""
        self._flying: dict[int, Seen] = {}
        """Steps of the run without an output, oldest first."""

    def schedule(self, seen: Seen) -> Fields | None:
        """The record of a step; None if it is not like the one before."""
        first, steps = self._first or self.steps.before, self.steps
        if first is None or not seen.alike or seen.loose or seen.ids is not first.ids:
            return None
        if self.observer.irregular or seen.prefix != steps.prefix:
            return None
        if self._first is None and not self._begin(first):
            return None
        self._many += 1
        self._flying[seen.number] = self._last = seen
        self.observer.steps = seen.number
        record: Fields = {"ev": "schedule+", "step": seen.number}
        if seen.gets:
            steps.grown(record, seen, self._ring.opening(self._many))
        self.observer.numbers.finished(seen.number, (), steps.scheduler.requests)
        return self.observer.tell(record, seen.counted, short=True)

    def _begin(self, first: Step) -> bool:
        """Whether a run may begin behind this step."""
        if first.counts is None or first.at is None or not first.ids:
            return False
        if self.observer.events or not self.outcomes.placed:
            return False
        self._first, self._many = first, 0
        self._ring = Ring(first.at, self.steps.size)
        return True

    def output(self, taken: Taken) -> Fields | None:
        """The ``output`` record of a step in the run; None if not all is as expected."""
        seen, first = taken.step, self._first
        if seen.number not in self._flying or not taken.plain:
            return None
        if seen.loose or self.observer.irregular:
            return None
        assert first is not None
        del self._flying[seen.number]
        full = self._ring.filling(seen.number - first.number)
        return self.outcomes.as_expected(seen.number, first, full)

    def take(self, seen: Seen) -> Step | None:
        """The step that an output belongs to, to be told in the ordinary way."""
        if self._flying.pop(seen.number, None) is None:
            return None
        return self._step(seen)

    def end(self) -> None:
        """Leave the steps of the run to the ordinary way."""
        first, steps = self._first, self.steps
        if first is not None and self._many:
            for seen in self._flying.values():
                steps.in_flight[seen.number] = self._step(seen)
            assert self._last is not None
            steps.before = steps.in_flight.get(self._last.number) or self._step(self._last)
            self._flying.clear()
        self._first = self._last = None

    def _step(self, seen: Seen) -> Step:
        first = self._first
        assert first is not None and first.at is not None
        lists = first.ids, first.numbers, first.fillings, first.tokens
        at = tokens_on(first.at, seen.number - first.number)
        words, loose = seen.words, seen.loose
        return Step(seen.number, seen, *lists, single=True, words=words, at=at, loose=loose)
