"""Reads steps, outputs and updates into records: whole ones, or short where little changed.

This is the part that has to be fast. With hundreds of requests decoding, a step is like the one
before it, so lists are compared in one go and requests are looked at one by one only where they
differ. What short forms leave out is what FORMAT.md says a reader fills in, and nothing else.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, compress
from typing import Any

from nullblock.conformance.adapters.vllm.expected import after, packed, unpacked
from nullblock.conformance.adapters.vllm.observe import Fields, Observer
from nullblock.conformance.adapters.vllm.wheel import Wheel

MAX_IN_FLIGHT = 1024
"""Steps; an engine that asks for more without an update has lost some."""
ODD_SHARE = 4
"""A short form has to have one in so many as expected, or better."""


@dataclass(slots=True)
class Step:
    """What is kept of a decided step until its output has come, and the next step is decided.

    Lists run in parallel. They are never changed: steps that are alike share them. Nothing of the
    engine's is held longer than the engine itself would hold it: memory is quickest used again.
    """

    number: int
    decided: Any
    """The scheduler's output, until its update: kept, so that its identity is nobody else's."""
    ids: list[str]
    numbers: list[int]
    tokens: list[int]
    single: bool
    """Whether everybody has one token."""
    counts: int | tuple[list[int], list[int]] | None = None
    """Computed tokens and outputs before the step: packed, or as lists where that cannot be;
    None where they are not known of everybody."""

    def learn(self) -> None:
        """Take what was computed, and what had come out, from the decision itself."""
        known = dict(_facts(self.decided, self.decided.scheduled_cached_reqs, 0))
        self.counts = None
        if all(map(known.__contains__, self.ids)):
            self.take([known[r][0] for r in self.ids], [known[r][1] for r in self.ids])

    def take(self, computed: list[int], outputs: list[int]) -> None:
        """Know the counts."""
        numbers = packed(computed, outputs)
        self.counts = (computed, outputs) if numbers is None else numbers

    def lists(self) -> tuple[list[int], list[int]]:
        """Computed tokens and outputs, where they are known."""
        counts = self.counts
        assert counts is not None
        return unpacked(counts, len(self.ids)) if isinstance(counts, int) else counts

    def next_counts(self) -> int | None:
        """What is expected of the step after it, if everybody stays; None: that has no number."""
        counts = self.counts
        return after(counts, self.tokens, single=self.single) if isinstance(counts, int) else None


class Steps:
    """Turns what is decided, sampled and passed on into records."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.scheduler = observer.scheduler
        self.count = 0
        self.in_flight: dict[int, Step] = {}
        """By the identity of the scheduler's output, oldest first."""
        self.before: Step | None = None
        """The step that a short form may refer to: the last one recorded, in the same file."""
        self.managers = observer.scheduler.kv_cache_manager.coordinator.single_type_managers
        self.wheel = Wheel(observer.pool.hash_block_size)
        self._prefix: list[int] = []
        """The common prefix told last."""

    def watch(self, id: str) -> None:
        """Look at a request when it can have filled a block."""
        filling = self.observer.filling.get(id)
        if filling is not None:
            self.wheel.watch(filling)

    def note(self, decided: Any) -> Step:
        """Remember a step until its output has come."""
        self.observer.steps = self.count = count = self.count + 1
        scheduled = decided.num_scheduled_tokens
        ids, tokens = list(scheduled), list(scheduled.values())
        single = tokens.count(1) == len(tokens)
        before = self.before
        if before is not None and ids == before.ids:
            step = Step(count, decided, before.ids, before.numbers, tokens, single)
        else:
            numbers = self.observer.numbers.each(ids)
            step = Step(count, decided, ids, numbers, tokens, single)
        self.in_flight[id(decided)] = step
        if len(self.in_flight) > MAX_IN_FLIGHT:
            raise RuntimeError(f"{MAX_IN_FLIGHT} steps without an update")
        return step

    def schedule(self, decided: Any) -> Fields:
        """A ``schedule`` record."""
        before, observer = self.before, self.observer
        self.before = step = self.note(decided)
        cached = decided.scheduled_cached_reqs
        grown = self._grown(cached, step)
        if before is not None and self._alike(before, step, cached):
            record: Fields = {"ev": "schedule+", "step": step.number}
            short = True
        else:
            record = self._different(before, step, cached)
            short = record["ev"] == "schedule+"
        self._rest(record, decided, grown, record if short else record.pop("cached", None))
        observer.numbers.finished(step.number, decided.finished_req_ids, self.scheduler.requests)
        return observer.with_counts(record, short=short)

    def _alike(self, before: Step, step: Step, cached: Any) -> bool:
        """Whether everybody is there once more and as expected: told by nothing at all."""
        if not step.single or step.ids is not before.ids or cached.req_ids != step.ids:
            return False
        step.counts = packed(cached.num_computed_tokens, cached.num_output_tokens)
        return step.counts is not None and step.counts == before.next_counts()

    def _different(self, before: Step | None, step: Step, cached: Any) -> Fields:
        """Told by the differences, if there are few; else whole."""
        if before is not None and before.counts is not None:
            record = self._changed(before, step, cached)
            if record is not None:
                return record
        step.learn()
        return self._whole(step, cached)

    def _changed(self, before: Step, step: Step, cached: Any) -> Fields | None:
        """The short form, if those that stay come first and most of them are as expected."""
        left = _left(before, step)
        kept = _without(before, left) if left else before
        many = len(kept.ids)
        if not many or step.ids[:many] != kept.ids or cached.req_ids[:many] != kept.ids:
            return None
        tail = step.ids[many:]
        further = dict(_facts(step.decided, cached, many))
        if not all(map(further.__contains__, tail)):
            return None
        odd = _odd(kept, step, cached)
        if len(odd) * ODD_SHARE > many:
            return None
        facts = [further[r] for r in tail]
        step.take(
            cached.num_computed_tokens[:many] + [computed for computed, _ in facts],
            cached.num_output_tokens[:many] + [outputs for _, outputs in facts],
        )
        record: Fields = {"ev": "schedule+", "step": step.number}
        if left:
            record["gone"] = [before.numbers[place] for place in left]
        if odd:
            record["odd"] = odd
        if tail:
            record["ids"] = step.numbers[many:]
            record["tokens"] = step.tokens[many:]
        if len(cached.req_ids) > many:
            of = self.observer.numbers.of
            record["known"] = [(of[r], *further[r]) for r in cached.req_ids[many:]]
        return record

    def _whole(self, step: Step, cached: Any) -> Fields:
        record: Fields = {
            "ev": "schedule",
            "step": step.number,
            "ids": step.numbers,
            "tokens": step.tokens,
        }
        if cached.req_ids:
            same = cached.req_ids == step.ids
            record["cached"] = {
                "ids": step.numbers if same else self.observer.numbers.each(cached.req_ids),
                "computed": cached.num_computed_tokens,
                "num_output": cached.num_output_tokens,
            }
        return record

    def _grown(self, cached: Any, step: Step) -> list[tuple[int, Any]]:
        """Who gets blocks, and which. Counts what is given out."""
        groups, ids = cached.new_block_ids, cached.req_ids
        places = list(compress(range(len(groups)), groups))
        if not places:
            return []
        observer = self.observer
        if step.single and len(step.ids) == len(ids):
            observer.chains.given_out += len(places)  # at least
        else:
            observer.chains.given_out += sum(map(len, chain.from_iterable(filter(None, groups))))
            for r in cached.resumed_req_ids:
                hits = cached.num_computed_tokens[ids.index(r)] // self.scheduler.block_size
                observer.chains.given_out -= hits * len(self.managers)
        if ids == step.ids:
            numbers = step.numbers
            return [(numbers[place], groups[place]) for place in places]
        of = observer.numbers.of
        return [(of[ids[place]], groups[place]) for place in places]

    def _rest(self, record: Fields, decided: Any, grown: list[Any], lists: Fields | None) -> None:
        """The parts of a step that both forms have; ``lists`` takes those of known requests."""
        of, cached = self.observer.numbers.of, decided.scheduled_cached_reqs
        short = lists is record
        if decided.scheduled_new_reqs:
            record["new"] = [self._new(new) for new in decided.scheduled_new_reqs]
        if lists is not None:
            resumed, sent = cached.resumed_req_ids, cached.all_token_ids
            if not short:
                record["cached"] = lists
            if self.observer.tells_blocks and (grown or not short):
                lists["blocks"] = grown
            if resumed:
                lists["resumed"] = [of[r] for r in cached.req_ids if r in resumed]
            if sent or not short:
                lists["all_tokens"] = [(of[r], len(sent[r])) for r in cached.req_ids if r in sent]
        if decided.preempted_req_ids:
            record["preempted"] = sorted(of[r] for r in decided.preempted_req_ids)
        if decided.finished_req_ids:
            record["finished"] = sorted(of[r] for r in decided.finished_req_ids if r in of)
        prefix = decided.num_common_prefix_blocks
        if not short or prefix != self._prefix:
            record["common_prefix"] = self._prefix = prefix

    def _new(self, new: Any) -> Fields:
        hits = new.num_computed_tokens // self.scheduler.block_size
        self.observer.chains.given_out += sum(len(ids) - hits for ids in new.block_ids)
        self.watch(new.req_id)
        fields = {"id": self.observer.numbers.of[new.req_id], "computed": new.num_computed_tokens}
        if self.observer.tells_blocks:
            fields["blocks"] = new.block_ids
        return fields

    def before_update(self, decided: Any) -> Step | None:
        """The step that an output belongs to; None: not one that was seen."""
        step = self.in_flight.pop(id(decided), None)
        if step is not None:
            step.decided = None
        return step


def _facts(decided: Any, cached: Any, start: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Computed tokens and outputs of those in a step: new ones, and known ones from a place on."""
    for new in decided.scheduled_new_reqs:
        yield new.req_id, (new.num_computed_tokens, 0)
    computed, outputs = cached.num_computed_tokens[start:], cached.num_output_tokens[start:]
    yield from zip(cached.req_ids[start:], zip(computed, outputs, strict=True), strict=True)


def _left(before: Step, step: Step) -> list[int]:
    """The places of those in a step that are not in the next one."""
    many = len(before.ids)
    if step.ids[:many] == before.ids:
        return []
    stays = list(map(step.decided.num_scheduled_tokens.__contains__, before.ids))
    places: list[int] = []
    for _ in range(stays.count(False)):
        places.append(stays.index(False, places[-1] + 1 if places else 0))
    return places


def _without(step: Step, places: list[int]) -> Step:
    """A step as if some had not been in it."""
    computed, outputs = map(list, step.lists())
    ids, tokens = step.ids.copy(), step.tokens.copy()
    for part in (ids, tokens, computed, outputs):
        for place in reversed(places):
            del part[place]
    kept = Step(step.number, None, ids, [], tokens, tokens.count(1) == len(tokens))
    kept.take(computed, outputs)
    return kept


def _odd(kept: Step, step: Step, cached: Any) -> list[tuple[int, int, int, int]]:
    """Of those that stay, and come first, the ones that are not as expected."""
    many = len(kept.ids)
    computed, outputs = cached.num_computed_tokens[:many], cached.num_output_tokens[:many]
    tokens, expected = step.tokens[:many], kept.next_counts()
    if tokens.count(1) == many and expected is not None and packed(computed, outputs) == expected:
        return []
    before_computed, before_outputs = kept.lists()
    before = zip(before_computed, kept.tokens, before_outputs, strict=True)
    rows = zip(step.numbers[:many], tokens, computed, outputs, before, strict=True)
    return [
        (number, n, c, o)
        for number, n, c, o, (before_c, before_n, before_o) in rows
        if n != 1 or c != before_c + before_n or o != before_o + 1
    ]
