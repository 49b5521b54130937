"""Reads steps, outputs and updates into records: whole ones, or short where little changed.

This is the part that has to be fast. With hundreds of requests decoding, a step is like the one
before it, so lists are compared in one go and requests are looked at one by one only where they
differ. What short forms leave out is what FORMAT.md says a reader fills in, and nothing else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from operator import not_, sub
from typing import Any

from nullblock.conformance.adapters.vllm.observe import Fields, Observer
from nullblock.conformance.adapters.vllm.wheel import Wheel

MAX_IN_FLIGHT = 1024
"""Steps; an engine that asks for more without an update has lost some."""
ODD_SHARE = 4
"""A short form has to have one in so many as expected, or better."""


@dataclass(slots=True)
class Step:
    """What is kept of a decided step until its output has come, and the next step is decided.

    Lists run in parallel. They are never changed: steps that are alike share them.
    """

    number: int
    decided: Any
    """The scheduler's output: kept, so that its identity is nobody else's."""
    ids: list[str]
    numbers: list[int]
    tokens: list[int]
    computed: Sequence[int] = ()
    """Before the step; empty where it is not known of everybody."""
    outputs: Sequence[int] = ()

    def learn(self) -> None:
        """Take what was computed, and what had come out, from the decision itself."""
        known = dict(_facts(self.decided, self.decided.scheduled_cached_reqs, 0))
        if all(map(known.__contains__, self.ids)):
            self.computed = [known[r][0] for r in self.ids]
            self.outputs = [known[r][1] for r in self.ids]
        else:
            self.computed = self.outputs = ()


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

    def note(self, decided: Any) -> Step:
        """Remember a step until its output has come."""
        self.count += 1
        self.observer.steps = self.count
        scheduled = decided.num_scheduled_tokens
        ids, tokens = list(scheduled), list(scheduled.values())
        before = self.before
        if before is not None and ids == before.ids:
            step = Step(self.count, decided, before.ids, before.numbers, tokens)
        else:
            number = self.observer.numbers.number
            step = Step(self.count, decided, ids, list(map(number, ids)), tokens)
        self.in_flight[id(decided)] = step
        if len(self.in_flight) > MAX_IN_FLIGHT:
            raise RuntimeError(f"{MAX_IN_FLIGHT} steps without an update")
        return step

    def schedule(self, decided: Any) -> Fields:
        """A ``schedule`` record."""
        before = self.before
        step = self.note(decided)
        cached = decided.scheduled_cached_reqs
        grown = self._grown(cached, step)
        record = None
        if before is not None and step.ids is before.ids and cached.req_ids == step.ids:
            record = self._alike(before, step, cached)
        if record is None:
            record = self._different(before, step, cached)
        self.before = step
        self._rest(record, decided, cached, grown)
        finished = decided.finished_req_ids
        self.observer.numbers.finished(self.count, finished, self.scheduler.requests)
        return self.observer.with_counts(record, short=record["ev"] == "schedule+")

    def _alike(self, before: Step, step: Step, cached: Any) -> Fields | None:
        """The shortest form: everybody as expected; None if not."""
        computed, outputs = cached.num_computed_tokens, cached.num_output_tokens
        many = len(step.ids)
        step.computed, step.outputs = computed, outputs
        if (
            len(before.computed) != many
            or step.tokens.count(1) != many
            or list(map(sub, computed, before.computed)) != before.tokens
            or list(map(sub, outputs, before.outputs)).count(1) != many
        ):
            return None
        return {"ev": "schedule+", "step": step.number}

    def _different(self, before: Step | None, step: Step, cached: Any) -> Fields:
        """Told by the differences, if there are few; else whole."""
        if before is not None and before.computed:
            record = self._changed(before, step, cached)
            if record is not None:
                return record
        step.learn()
        return self._whole(step, cached)

    def _changed(self, before: Step, step: Step, cached: Any) -> Fields | None:
        """The short form, if those that stay come first and most of them are as expected."""
        stays = list(map(step.decided.num_scheduled_tokens.__contains__, before.ids))
        staying = list(compress(before.ids, stays))
        many = len(staying)
        if not many or step.ids[:many] != staying or cached.req_ids[:many] != staying:
            return None
        further = dict(_facts(step.decided, cached, many))
        if not all(map(further.__contains__, step.ids[many:])):
            return None
        odd = _odd(before, step, cached, stays, many)
        if len(odd) * ODD_SHARE > many:
            return None
        tail = [further[r] for r in step.ids[many:]]
        step.computed = cached.num_computed_tokens[:many] + [computed for computed, _ in tail]
        step.outputs = cached.num_output_tokens[:many] + [outputs for _, outputs in tail]
        record: Fields = {"ev": "schedule+", "step": step.number}
        if many != len(stays):
            record["gone"] = list(compress(before.numbers, map(not_, stays)))
        if odd:
            record["odd"] = odd
        if many != len(step.ids):
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
            of = self.observer.numbers.of
            same = cached.req_ids == step.ids
            record["cached"] = {
                "ids": step.numbers if same else [of[r] for r in cached.req_ids],
                "computed": cached.num_computed_tokens,
                "num_output": cached.num_output_tokens,
            }
        return record

    def _grown(self, cached: Any, step: Step) -> list[tuple[int, Any]]:
        """Who gets blocks, and which. Counts what is given out."""
        groups = cached.new_block_ids
        places = list(compress(range(len(groups)), groups))
        if not places:
            return []
        given = list(map(groups.__getitem__, places))
        observer, ids = self.observer, cached.req_ids
        observer.chains.given_out += sum(map(len, chain.from_iterable(given)))
        for r in cached.resumed_req_ids:
            hits = cached.num_computed_tokens[ids.index(r)] // self.scheduler.block_size
            observer.chains.given_out -= hits * len(self.managers)
        numbers = step.numbers
        if ids != step.ids:
            numbers = list(map(observer.numbers.of.__getitem__, ids))
        return [(numbers[place], blocks) for place, blocks in zip(places, given, strict=True)]

    def _count_given_out(self, groups: Any, computed: int) -> None:
        hits = computed // self.scheduler.block_size
        self.observer.chains.given_out += sum(len(ids) - hits for ids in groups)

    def _rest(self, record: Fields, decided: Any, cached: Any, grown: list[Any]) -> None:
        """The parts of a step that both forms have."""
        of, blocks = self.observer.numbers.of, self.observer.tells_blocks
        lists = record if record["ev"] == "schedule+" else record.pop("cached", None)
        if decided.scheduled_new_reqs:
            record["new"] = [self._new(new) for new in decided.scheduled_new_reqs]
        if lists is not None:
            short = lists is record
            if not short:
                record["cached"] = lists
            if blocks and (grown or not short):
                lists["blocks"] = grown
            resumed, sent = cached.resumed_req_ids, cached.all_token_ids
            if resumed:
                lists["resumed"] = [of[r] for r in cached.req_ids if r in resumed]
            if sent or not short:
                lists["all_tokens"] = [(of[r], len(sent[r])) for r in cached.req_ids if r in sent]
        if decided.preempted_req_ids:
            record["preempted"] = sorted(of[r] for r in decided.preempted_req_ids)
        if decided.finished_req_ids:
            record["finished"] = sorted(of[r] for r in decided.finished_req_ids if r in of)
        prefix = decided.num_common_prefix_blocks
        if lists is not record or prefix != self._prefix:
            record["common_prefix"] = self._prefix = prefix

    def _new(self, new: Any) -> Fields:
        self._count_given_out(new.block_ids, new.num_computed_tokens)
        self.wheel.watch(new.req_id, self.observer.requests[new.req_id])
        fields = {"id": self.observer.numbers.of[new.req_id], "computed": new.num_computed_tokens}
        if self.observer.tells_blocks:
            fields["blocks"] = new.block_ids
        return fields

    def before_update(self, decided: Any) -> Step | None:
        """The step that an output belongs to; None: not one that was seen."""
        return self.in_flight.pop(id(decided), None)


def _facts(decided: Any, cached: Any, start: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Computed tokens and outputs of those in a step: new ones, and known ones from a place on."""
    for new in decided.scheduled_new_reqs:
        yield new.req_id, (new.num_computed_tokens, 0)
    computed, outputs = cached.num_computed_tokens[start:], cached.num_output_tokens[start:]
    yield from zip(cached.req_ids[start:], zip(computed, outputs, strict=True), strict=True)


def _odd(
    before: Step, step: Step, cached: Any, stays: list[bool], many: int
) -> list[tuple[int, int, int, int]]:
    """Of those that stay, the ones that are not as expected."""
    computed, outputs = cached.num_computed_tokens[:many], cached.num_output_tokens[:many]
    c0, o0 = list(compress(before.computed, stays)), list(compress(before.outputs, stays))
    n0, tokens = list(compress(before.tokens, stays)), step.tokens[:many]
    if (
        tokens.count(1) == many
        and list(map(sub, computed, c0)) == n0
        and list(map(sub, outputs, o0)).count(1) == many
    ):
        return []
    rows = zip(step.numbers[:many], tokens, computed, outputs, c0, n0, o0, strict=True)
    return [
        (number, n, c, o)
        for number, n, c, o, before_c, before_n, before_o in rows
        if n != 1 or c != before_c + before_n or o != before_o + 1
    ]
