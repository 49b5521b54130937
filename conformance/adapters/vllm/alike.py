"""Steps that are like the one before: looked at as they happen, told several at once.

With hundreds of requests decoding nearly all steps are: the same requests, a token each, nothing
else. Between two of them the engine runs so much code that the processor has to fetch all of this
side's anew, which costs more than running it. So what could differ is compared as it happens, in
few lines; what is to be told of it waits, and is told of several steps in one go.

A run of such steps begins behind any other step whose counts are known; its steps have numbers
from 1 on. A look says no where anything differs, and has changed nothing then: the ordinary way
goes on, once what waits is told and the run has ended.
"""

from array import array
from collections import deque
from sys import byteorder
from typing import Any, NamedTuple

from nullblock.conformance.adapters.vllm import expected
from nullblock.conformance.adapters.vllm.filling import Ring, tokens_on
from nullblock.conformance.adapters.vllm.observe import Counts, Fields, Observer
from nullblock.conformance.adapters.vllm.outcomes import Outcomes
from nullblock.conformance.adapters.vllm.step import Step
from nullblock.conformance.adapters.vllm.steps import MAX_IN_FLIGHT, Steps

MOST = 32
"""Halves of steps that wait: 16 steps, as many as are encoded at once."""


class Blocks(NamedTuple):
    """What tells who got which blocks in a step, spelled as vLLM spells it."""

    req_ids: list[str]
    new_block_ids: Any
    resumed_req_ids: tuple[()] = ()


class Alike:
    """Takes both halves of steps that are like the one before.

    The engine's thread looks; whoever holds the backlog's lock tells.
    """

    def __init__(self, observer: Observer, steps: Steps, outcomes: Outcomes) -> None:
        self.observer, self.steps, self.outcomes = observer, steps, outcomes
        self._scheduler, self._end_tokens = observer.scheduler, observer.end_tokens
        self._first: Step | None = None
        """The step that a run began behind."""
        self._ring = Ring(b"", 1)
        self._many = 0
        """Steps in the run."""
        self._expected: list[array[int]] = []
        """The counts of the next steps, the next one last, as :func:`expected.packed` has them;
        and as many that are empty:"""
        self._empty: list[array[int]] = []
        self._flying: dict[int, tuple[int, Any]] = {}
        """By the identity of a scheduler's output without an update: its number, and it."""
        self._waiting: deque[tuple[int, Any, Counts | None]] = deque()
        """Numbers of steps, the blocks given out or None for the half that is an output, and what
        could be counted then."""

    def __len__(self) -> int:
        """Halves that wait."""
        return len(self._waiting)

    def schedule(self, decided: Any) -> bool:
        """Look at a step that was decided."""
        if not self._expected and not self._go_on():
            return False
        first, cached = self._first, decided.scheduled_cached_reqs
        assert first is not None
        ids, scheduled = first.ids, decided.num_scheduled_tokens
        if list(scheduled) != ids or cached.req_ids != ids:
            return False
        if list(scheduled.values()) != first.tokens or decided.scheduled_new_reqs:
            return False
        if decided.finished_req_ids or decided.preempted_req_ids or cached.all_token_ids:
            return False
        if cached.resumed_req_ids or decided.num_common_prefix_blocks != self.steps.prefix:
            return False
        counts = self._empty.pop()
        try:
            counts.fromlist(cached.num_computed_tokens)
            counts.fromlist(cached.num_output_tokens)
        except OverflowError:
            return False
        if counts != self._expected.pop():
            return False
        self._many = number = self._many + 1
        self._flying[id(decided)] = number, decided
        given = cached.new_block_ids
        if given.count(None) == len(given):
            given = ()
        self._waiting.append((number, given, self.observer.counts()))
        return True

    def update(self, decided: Any, result: Any, sampled: Any) -> bool:
        """Look at an output that was taken in."""
        flying = self._flying.get(id(decided))
        if flying is None or len(result) != 1 or self._scheduler.finished_req_ids:
            return False
        assert self._first is not None
        ids, frames = self._first.ids, sampled.sampled_token_ids
        (of_client,) = result.values()
        outputs = of_client.outputs
        if sampled.req_ids != ids:
            return False
        try:
            tokens = [token for (token,) in frames]
        except ValueError:
            return False
        if not self._end_tokens.isdisjoint(tokens):
            return False
        if [output.request_id for output in outputs] != ids:
            return False
        if [output.new_token_ids for output in outputs] != frames:
            return False
        del self._flying[id(decided)]
        self._waiting.append((flying[0], None, self.observer.counts()))
        return True

    def _go_on(self) -> bool:
        """Expect further steps, of a run that goes on or of one that begins."""
        steps, first = self.steps, self._first
        if first is None:
            first = steps.before
            if first is None or first.counts is None or first.at is None or not first.single:
                return False
            if self.observer.irregular or steps.is_loose() or not first.ids:
                return False
            self._first, self._many = first, 0
            self._ring = Ring(first.at, self._scheduler.block_size)
        if len(self._flying) + len(steps.in_flight) >= MAX_IN_FLIGHT:
            return False
        assert first.counts is not None
        words, ahead = 2 * len(first.ids), max(1, min(MOST // 2, self._many))
        one, size = expected.ones(words), words * expected.WORD // 8
        last = first.counts + one * (self._many + 1)
        self._expected = [
            array("I", (last + one * n).to_bytes(size, byteorder)) for n in range(ahead)
        ][::-1]
        self._empty = [array("I") for _ in range(ahead)]
        return True

    def take(self, decided: Any) -> Step | None:
        """The step that an output belongs to, to be looked at in the ordinary way."""
        flying = self._flying.pop(id(decided), None)
        return None if flying is None else self._step(*flying)

    def end(self) -> None:
        """Leave the steps of the run to the ordinary way. Nothing waits."""
        first, steps = self._first, self.steps
        if first is not None and self._many:
            steps.count = self.observer.steps = first.number + self._many
            for key, (number, decided) in self._flying.items():
                steps.before = steps.in_flight[key] = self._step(number, decided)
            if self._many not in [number for number, _ in self._flying.values()]:
                steps.before = self._step(self._many, None)
            self._flying.clear()
        self._first = None
        self._expected.clear()

    def _step(self, number: int, decided: Any) -> Step:
        first = self._first
        assert first is not None and first.counts is not None and first.at is not None
        lists = first.ids, first.numbers, first.fillings, first.tokens
        counts = first.counts + expected.ones(2 * len(first.ids)) * number
        at = tokens_on(first.at, number)
        return Step(first.number + number, decided, *lists, single=True, counts=counts, at=at)

    def tell(self) -> None:
        """Make records of what waits. The backlog's lock is held."""
        observer, waiting, first, ring = self.observer, self._waiting, self._first, self._ring
        for _ in range(len(waiting)):
            assert first is not None
            place, blocks, counts = waiting.popleft()
            number = first.number + place
            if blocks is None:
                output = self.outcomes.as_expected(number, first, ring.filling(place))
                told: list[Fields] = [output, {"ev": "update+", "step": number}]
            else:
                told = [{"ev": "schedule+", "step": number}]
                if blocks:
                    self.steps.grown(told[0], Blocks(first.ids, blocks), ring.opening(place))
                observer.numbers.finished(number, (), self._scheduler.requests)
            observer.tell(told[-1], counts, short=True)
            observer.backlog.put(told)
