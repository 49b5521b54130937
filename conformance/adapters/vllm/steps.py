"""Reads steps into records: whole ones, or short where little changed.

This is the part that has to be fast. With hundreds of requests decoding, a step is like the one
before it, so lists are compared in one go and requests are looked at one by one only where they
differ. What short forms leave out is what FORMAT.md says a reader fills in, and nothing else.
"""

from collections.abc import Iterable
from itertools import chain, compress
from typing import Any

from nullblock.conformance.adapters.vllm import drafts
from nullblock.conformance.adapters.vllm.filling import NOBODY, Edges
from nullblock.conformance.adapters.vllm.observe import Fields, Observer
from nullblock.conformance.adapters.vllm.step import Step, facts

MAX_IN_FLIGHT = 1024
"""Steps; an engine that asks for more without an update has lost some."""
ODD_SHARE = 4
"""A short form has to have one in so many as expected, or better."""


class Steps:
    """Turns what is decided into records."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.scheduler = observer.scheduler
        self.count = 0
        self.in_flight: dict[int, Step] = {}
        """By the identity of the scheduler's output, oldest first."""
        self.before: Step | None = None
        """The step that a short form may refer to: the last one recorded, in the same file."""
        self.managers = observer.scheduler.kv_cache_manager.coordinator.single_type_managers
        self._edges = Edges(self.scheduler.block_size)
        self._gives = self._edges.told and observer.tells_blocks and len(self.managers) == 1
        self._gives &= not observer.drafts
        self.rejected = drafts.Rejected()
        self._disturbed = 0
        """The last step before somebody was preempted with steps in flight."""
        self.prefix: list[int] = []
        """The common prefix told last."""

    def note(self, decided: Any, stay: Step | None = None) -> Step:
        """Remember a step until its output has come.

        ``stay``: the step before, without those who are not in this one, which the others lead.
        """
        observer = self.observer
        observer.steps = self.count = count = self.count + 1
        tokens = list(decided.num_scheduled_tokens.values())
        single = tokens.count(1) == len(tokens)
        if stay is not None and len(stay.ids) == len(tokens):
            step = Step(count, decided, stay.ids, stay.numbers, stay.fillings, tokens, single)
        else:
            ids = list(decided.num_scheduled_tokens)
            tail = ids if stay is None else ids[len(stay.ids) :]
            numbers = observer.numbers.each(tail)
            fillings = [observer.filling.get(r, NOBODY) for r in tail]
            if stay is not None:
                numbers, fillings = stay.numbers + numbers, stay.fillings + fillings
            step = Step(count, decided, ids, numbers, fillings, tokens, single)
        if observer.drafts:
            step.drafts = drafts.of_step(decided, step.ids)
        if self.is_loose():
            step.loose = True
        self.in_flight[id(decided)] = step
        if len(self.in_flight) > MAX_IN_FLIGHT:
            raise RuntimeError(f"{MAX_IN_FLIGHT} steps without an update")
        return step

    def disturb(self) -> None:
        """Somebody is preempted: what is in flight may not end where it seemed to."""
        if self.in_flight:
            self._disturbed = self.count

    def is_loose(self) -> bool:
        """Whether a step is in flight that was decided before a disturbance."""
        if not self._disturbed:
            return False
        oldest = next(iter(self.in_flight.values()), None)
        return oldest is not None and oldest.number <= self._disturbed

    def forget(self) -> None:
        """The next records may not refer to those before."""
        self.before = None
        for step in self.in_flight.values():
            step.at = None

    def schedule(self, decided: Any) -> Fields:
        """A ``schedule`` record."""
        before, observer = self.before, self.observer
        found = before.staying(decided) if before is not None else None
        stay, gone = found if found is not None else (None, [])
        self.before = step = self.note(decided, stay)
        cached = decided.scheduled_cached_reqs
        drafted = observer.drafts
        if before is not None and stay is before and not drafted and step.alike(before, cached):
            assert step.at is not None
            record: Fields = {"ev": "schedule+", "step": step.number}
            self._rest(record, step, cached, self._edges.opening(step.at))
        else:
            record = self._different(step, cached, stay, gone)
        if drafted:
            self.rejected.since.clear()
        observer.numbers.finished(step.number, decided.finished_req_ids, self.scheduler.requests)
        return observer.with_counts(record, short=record["ev"] == "schedule+")

    def _different(self, step: Step, cached: Any, stay: Step | None, gone: list[int]) -> Fields:
        """Told by the differences, if there are few; else whole."""
        odd = self._odd(step, cached, stay) if stay is not None else None
        if stay is None or odd is None or step.at is None:
            step.learn()
            record = {"ev": "schedule", "step": step.number}
            record |= {"ids": step.numbers, "tokens": step.tokens}
            if step.drafts is not None:
                record["drafts"] = drafts.pairs(step)
            self._rest(record, step, cached, None)
            return record
        many = len(stay.ids)
        opening = bytearray(self._edges.opening(step.at))
        record = {"ev": "schedule+", "step": step.number}
        if gone:
            record["gone"] = gone
        if odd:
            record["odd"] = rows = []
            for place in odd:
                opening[place] = 0
                counts = cached.num_computed_tokens[place], cached.num_output_tokens[place]
                rows.append((step.numbers[place], step.tokens[place], *counts))
        if step.drafts is not None:
            record |= drafts.told(step, many)
        if len(step.ids) > many:
            record["ids"] = step.numbers[many:]
            record["tokens"] = step.tokens[many:]
        if len(cached.req_ids) > many:
            of = self.observer.numbers.of
            known = facts((), cached, many)
            record["known"] = [(of[r], *numbers) for r, numbers in known]
        self._rest(record, step, cached, bytes(opening[:many]))
        return record

    def _odd(self, step: Step, cached: Any, stay: Step) -> list[int] | None:
        """The places of those that stay and are not as expected; None: too many for a short form.

        Then the counts of all are known.
        """
        many = len(stay.ids)
        if not many or cached.req_ids[:many] != stay.ids:
            return None
        further = dict(facts(step.decided.scheduled_new_reqs, cached, many))
        tail = step.ids[many:]
        if not all(map(further.__contains__, tail)):
            return None
        computed, outputs = cached.num_computed_tokens, cached.num_output_tokens
        likely = self.rejected.next_counts(stay) if self.observer.drafts else stay.next_counts()
        odd = step.take(computed[:many], outputs[:many], stay, likely)
        if odd is None or len(odd) * ODD_SHARE > many:
            return None
        if tail:
            step.join([further[r] for r in tail])
        return odd

    def _rest(self, record: Fields, step: Step, cached: Any, opening: bytes | None) -> None:
        """What both forms have. ``opening``, of the short one: of those who stay, those expected
        to get a block, one each: 1, others 0.
        """
        of, decided = self.observer.numbers.of, step.decided
        if decided.scheduled_new_reqs:
            record["new"] = [self._new(new) for new in decided.scheduled_new_reqs]
        short = opening is not None
        if short or cached.req_ids:
            lists = record if short else self._lists(step, cached)
            self._grown(lists, cached, opening)
            resumed, sent = cached.resumed_req_ids, cached.all_token_ids
            if resumed:
                lists["resumed"] = [of[r] for r in cached.req_ids if r in resumed]
            if sent or not short:
                lists["all_tokens"] = [(of[r], len(sent[r])) for r in cached.req_ids if r in sent]
            if not short:
                record["cached"] = lists
        if decided.preempted_req_ids:
            self.disturb()
            record["preempted"] = sorted(of[r] for r in decided.preempted_req_ids)
        if decided.finished_req_ids:
            record["finished"] = sorted(of[r] for r in decided.finished_req_ids if r in of)
        prefix = decided.num_common_prefix_blocks
        if not short or prefix != self.prefix:
            record["common_prefix"] = self.prefix = prefix

    def _lists(self, step: Step, cached: Any) -> Fields:
        """The beginning of ``cached``."""
        same = cached.req_ids == step.ids
        return {
            "ids": step.numbers if same else self.observer.numbers.each(cached.req_ids),
            "computed": cached.num_computed_tokens,
            "num_output": cached.num_output_tokens,
        }

    def grown(self, lists: Fields, cached: Any, opening: list[int]) -> None:
        """The blocks of a step in which everybody goes on alike. ``opening``: the places of those
        expected to get one.
        """
        groups = cached.new_block_ids
        if self._gives and groups.count(None) == len(groups) - len(opening):
            given = _one_each([groups[place] for place in opening])
            if given is not None:
                self.observer.chains.given_out += len(given)
                if given:
                    lists["given"] = given
                return
        expected = bytearray(len(cached.req_ids))
        for place in opening:
            expected[place] = 1
        self._grown(lists, cached, bytes(expected))

    def _grown(self, lists: Fields, cached: Any, opening: bytes | None) -> None:
        """Who gets blocks, and which. Counts what is given out."""
        groups, chains = cached.new_block_ids, self.observer.chains
        covered = 0
        if opening is not None and self._gives:
            given = _one_each(compress(groups, opening))
            if given is not None:
                chains.given_out += len(given)
                if given:
                    lists["given"] = given
                if groups.count(None) == len(groups) - len(given):
                    return
                covered = len(opening)
        places = list(compress(range(len(groups)), groups))
        if covered and opening is not None:
            places = [place for place in places if place >= covered or not opening[place]]
        if places:
            chains.given_out += sum(map(len, chain.from_iterable(groups[p] for p in places)))
        for r in cached.resumed_req_ids:
            hits = cached.num_computed_tokens[cached.req_ids.index(r)] // self.scheduler.block_size
            chains.given_out -= hits * len(self.managers)
        if self.observer.tells_blocks and (places or opening is None):
            of, ids = self.observer.numbers.of, cached.req_ids
            lists["blocks"] = [(of[ids[place]], groups[place]) for place in places]

    def _new(self, new: Any) -> Fields:
        hits = new.num_computed_tokens // self.scheduler.block_size
        self.observer.chains.given_out += sum(len(ids) - hits for ids in new.block_ids)
        fields = {"id": self.observer.numbers.of[new.req_id], "computed": new.num_computed_tokens}
        if self.observer.tells_blocks:
            fields["blocks"] = new.block_ids
        return fields

    def before_update(self, decided: Any) -> Step | None:
        """The step that an output belongs to; None: not one that was seen."""
        step = self.in_flight.pop(id(decided), None)
        if step is not None:
            step.decided = None
            step.loose |= step.number <= self._disturbed
        return step


def _one_each(groups: Iterable[Any]) -> list[int] | None:
    """The only block of each; None where somebody has none, or several."""
    try:
        return [block for ((block,),) in groups]
    except (TypeError, ValueError):
        return None
