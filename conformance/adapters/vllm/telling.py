"""Tells what was seen: makes records of calls of the engine, in order, several at one go."""

from collections import deque
from typing import Any

from nullblock.conformance.adapters.vllm import remote
from nullblock.conformance.adapters.vllm.alike import Alike
from nullblock.conformance.adapters.vllm.events import EventTap, in_numbers
from nullblock.conformance.adapters.vllm.observe import Observer
from nullblock.conformance.adapters.vllm.outcomes import Outcomes
from nullblock.conformance.adapters.vllm.seen import Arrival, Entry, Seen, Taken
from nullblock.conformance.adapters.vllm.steps import Steps


class Teller:
    """The engine's thread adds what it saw; whoever holds the backlog's lock tells."""

    def __init__(self, observer: Observer, tap: EventTap | None) -> None:
        self.observer, self._tap = observer, tap
        self.steps = Steps(observer)
        self.outcomes = Outcomes(observer)
        self._alike = Alike(observer, self.steps, self.outcomes)
        self.waiting: deque[Entry] = deque()
        """What was seen and is not told, oldest first."""
        self.arriving: set[str] = set()
        """The ids of requests among it."""
        self._failed = False

    def tell(self) -> None:
        """Make records of all that waits. What follows a failure is never told."""
        if self._failed:
            return
        self._failed = True
        for _ in range(len(self.waiting)):
            self._tell(self.waiting.popleft())
        self._failed = False
        self.arriving.clear()

    def catch_up(self) -> None:
        """The same, so that steps in flight and the step before are those of ``steps``."""
        self.tell()
        self._alike.end()

    def forget(self) -> None:
        """The next records may not refer to those before."""
        self.catch_up()
        self.steps.forget()
        self.observer.told = self.outcomes.last = None

    def _tell(self, entry: Entry) -> None:
        if isinstance(entry, Seen):
            told: tuple[dict[str, Any], ...] = (self._step(entry),)
            if entry.asked:
                observer = self.observer
                blocks = observer.tells_blocks
                told = (remote.matched(entry.asked, observer.numbers.of, blocks=blocks), *told)
            if entry.compiled:
                told = (self.compiled(entry.compiled), *told)
        elif isinstance(entry, Taken):
            told = self._output(entry)
            if entry.remote:
                told = (remote.transfers(entry.remote, self.observer.numbers.of), *told)
            self.observer.kept.settle()
        elif isinstance(entry, Arrival):
            told = (self.observer.add(entry),)
        else:
            told = (self.outcomes.drafts(entry),)
        self.observer.backlog.put(told)

    def compiled(self, ids: list[str]) -> dict[str, Any]:
        """A ``compiled`` record."""
        of = self.observer.numbers.of
        return {"ev": "compiled", "ids": [of[id] for id in ids]}

    def _step(self, seen: Seen) -> dict[str, Any]:
        record = self._alike.schedule(seen)
        if record is None:
            self._alike.end()
            record = self.steps.schedule(seen)
        return record

    def _output(self, taken: Taken) -> tuple[dict[str, Any], dict[str, Any]]:
        number = taken.step.number
        output = self._alike.output(taken)
        if output is not None:
            update: dict[str, Any] = {"ev": "update+", "step": number}
            if not taken.plain:
                update = self.outcomes.update(taken.step, taken)
            return output, self.observer.tell(update, taken.counted, short=True)
        step = self._alike.take(taken.step) or self.steps.before_update(taken.step)
        output = self.outcomes.output(step, taken, self.steps.rejected)
        update = self.outcomes.update(step, taken)
        if self._tap is not None:
            self.observer.backlog.settle()
            observer, published = self.observer, self._tap.take()
            many, kinds = observer.hashes, observer.kinds
            events = in_numbers(published, observer.chains, kinds=kinds, many=many)
            if events is not None:
                update["events"] = events
        short = update["ev"] == "update+"
        return output, self.observer.tell(update, taken.counted, short=short)
