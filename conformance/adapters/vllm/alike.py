"""Steps in which everybody goes on with a token, but for a few who end and a few who come.

With hundreds of requests decoding nearly all steps are such ones. A run of them begins behind any
other step whose counts are known; its steps have numbers from 1 on. What is to be told of one of
them follows from its number and from who has come and ended, so that nothing is done for each
request.
"""

from array import array
from typing import NamedTuple

from nullblock.conformance.adapters.vllm import expected, turns
from nullblock.conformance.adapters.vllm.filling import NOBODY, Ring, Row, positions
from nullblock.conformance.adapters.vllm.observe import Fields, Observer
from nullblock.conformance.adapters.vllm.outcomes import Outcomes
from nullblock.conformance.adapters.vllm.seen import Seen, Taken
from nullblock.conformance.adapters.vllm.step import FEW, Step
from nullblock.conformance.adapters.vllm.steps import Steps


class Flying(NamedTuple):
    """A step of the run without an output."""

    seen: Seen
    full: Row
    """Those whose block its output fills."""


class Alike:
    """Tells both halves of such steps. No is said before anything is changed."""

    def __init__(self, observer: Observer, steps: Steps, outcomes: Outcomes) -> None:
        self.observer, self.steps, self.outcomes = observer, steps, outcomes
        self._first: Step | None = None
        """The step that the run began behind."""
        self._ring = Ring(b"", 1, [], [])
        self._last: Seen | None = None
        """The last step in the run."""
        self._whole: array[int] | None = None
        """The counts of everybody before it, those who are new included."""
        self._flying: dict[int, Flying] = {}
        """Oldest first."""
        self._may = outcomes.placed and not observer.events
        """Whether there may be a run."""

    def schedule(self, seen: Seen) -> Fields | None:
        """The record of a step; None if something else happens in it."""
        before, observer, steps = self._last or self.steps.before, self.observer, self.steps
        if before is None or not self._may or seen.loose or observer.irregular:
            return None
        plain, gone, whole = seen.alike and seen.ids is before.ids, list[int](), seen.words
        if not plain:
            turn = self._turn(seen, before)
            if turn is None:
                return None
            gone, whole = turn
        if self._first is None and not self._begin():
            return None
        assert self._first is not None
        many = seen.number - self._first.number
        record: Fields = {"ev": "schedule+", "step": seen.number}
        if gone:
            self._end(record, before, gone)
        opening = self._ring.opening(many)
        if not plain:
            self._come(record, seen, many)
        if seen.gets:
            steps.grown(record, seen, opening.ids)
        if not plain:
            steps.finished(record, seen)
        if seen.prefix != steps.prefix:
            record["common_prefix"] = steps.prefix = seen.prefix
        self._flying[seen.number] = Flying(seen, self._ring.filling(many))
        self._last, self._whole = seen, whole
        observer.steps = seen.number
        observer.ended(seen.number, seen.others.finished)
        return observer.tell(record, seen.counted, short=True)

    def _turn(
        self, seen: Seen, before: Seen | Step
    ) -> "tuple[list[int], array[int] | None] | None":
        """The places of those in the step before who are not in this one, and the counts of
        everybody before this one. None: more happens than that they end, and others come.
        """
        if seen.words is None or not seen.known or seen.encoder is not None or seen.zeroed:
            return None
        gone, many = turns.gone_between(before.ids, seen), len(seen.known)
        if gone is None or len(gone) > FEW:
            return None
        if seen.tokens.count(1) - seen.tokens[many:].count(1) != many:
            return None
        try:
            was = before.counted() if isinstance(before, Step) else self._whole
            if was is None or not expected.one_more(was, before.tokens, gone, seen.words):
                return None
            return gone, _counted(seen)
        except OverflowError:  # a count that has no word
            return None

    def _begin(self) -> bool:
        """Whether a run may begin behind the step before."""
        first = self.steps.before
        if first is None or first.counts is None or first.at is None or not first.ids:
            return False
        self._first = first
        self._ring = Ring(first.at, self.steps.size, first.ids, first.fillings)
        return True

    def _end(self, record: Fields, before: Seen | Step, gone: list[int]) -> None:
        """Those at some places of the step before are not in this one."""
        was = before.counted() if isinstance(before, Step) else self._whole
        assert was is not None and self._first is not None
        many = before.number - self._first.number
        ids = [before.ids[place] for place in gone]
        for id, place in zip(ids, gone, strict=True):
            self._ring.end(id, was[place] + before.tokens[place] - 1, many)
        record["gone"] = self.observer.numbers.each(ids)

    def _come(self, record: Fields, seen: Seen, many: int) -> None:
        """New ones stand behind the others."""
        new, observer = seen.others.new, self.observer
        if not new:
            return
        tokens = seen.tokens[len(seen.known) :]
        record["ids"] = observer.numbers.each([one.id for one in new])
        record["tokens"] = tokens
        record["new"] = [self.steps.new(one) for one in new]
        for one, n in zip(new, tokens, strict=True):
            filling = observer.filling.get(one.id, NOBODY)
            self._ring.come(one.id, filling, one.computed + n - 1, many)

    def output(self, taken: Taken) -> Fields | None:
        """The ``output`` record of a step in the run; None if somebody got no token, or several,
        or it does not follow who was passed on what.
        """
        seen = taken.step
        flying = self._flying.get(seen.number)
        if flying is None or taken.tokens is not None:
            return None
        if seen.loose or self.observer.irregular:
            return None
        record = self.outcomes.of_each(taken, flying.full)
        if record is not None:
            del self._flying[seen.number]
        return record

    def take(self, seen: Seen) -> Step | None:
        """The step that an output belongs to, to be told in the ordinary way."""
        if self._flying.pop(seen.number, None) is None:
            return None
        return self._step(seen)

    def end(self) -> None:
        """Leave the steps of the run to the ordinary way."""
        steps, last = self.steps, self._last
        if last is not None:
            for number, flying in self._flying.items():
                steps.in_flight[number] = self._step(flying.seen)
            steps.before = steps.in_flight.get(last.number) or self._step(last)
            self._flying.clear()
        self._first = self._last = self._whole = None

    def _step(self, seen: Seen) -> Step:
        first, ids, tokens = self._first, seen.ids, seen.tokens
        assert first is not None
        if ids is first.ids:
            numbers, fillings = first.numbers, first.fillings
        else:
            numbers = self.observer.numbers.each(ids)
            fillings = [self.observer.filling.get(r, NOBODY) for r in ids]
        words = _counted(seen)
        assert words is not None
        step = Step(seen.number, seen, ids, numbers, fillings, tokens, tokens.count(1) == len(ids))
        step.words, step.loose = words, seen.loose
        step.at = positions(words[: len(ids)], tokens)
        return step


def _counted(seen: Seen) -> "array[int] | None":
    """The counts of everybody before a step; None where they are not known. Raises
    ``OverflowError`` where one of a new request has no word.
    """
    if seen.words is None or not seen.others.new:
        return seen.words
    return expected.extended(seen.words, [(new.computed, 0) for new in seen.others.new])
