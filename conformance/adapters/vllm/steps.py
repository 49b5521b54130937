"""Reads steps into records: whole ones, or short where little changed.

This is the part that has to be fast. With hundreds of requests decoding, a step is like the one
before it, so lists are compared in one go and requests are looked at one by one only where they
differ. What short forms leave out is what FORMAT.md says a reader fills in, and nothing else.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, compress
from operator import not_
from typing import Any

from nullblock.conformance.adapters.vllm import drafts, groups, turns
from nullblock.conformance.adapters.vllm.filling import NOBODY, Edges
from nullblock.conformance.adapters.vllm.observe import Fields, Observer
from nullblock.conformance.adapters.vllm.seen import New, Seen, spread
from nullblock.conformance.adapters.vllm.step import Step, without

ODD_SHARE = 4
"""A short form has to have one in so many as expected, or better."""


class Steps:
    """Turns what is decided into records."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.scheduler = observer.scheduler
        self.in_flight: dict[int, Step] = {}
        """By number, oldest first."""
        self.before: Step | None = None
        """The step that a short form may refer to: the last one recorded, in the same file."""
        self.managers = observer.scheduler.kv_cache_manager.coordinator.single_type_managers
        self.size = groups.size_of_chains(self.scheduler)
        """Tokens in a block of the only group, if there is one."""
        self._taken = groups.Taken(self.scheduler)
        self._edges = Edges(self.size)
        one = observer.tells_blocks and len(self.managers) == 1
        self._gives = one and self._edges.told and not observer.drafts
        self._says_who = one and observer.drafts
        """Whether it is told who gets one block, and which, as it does not follow."""
        self.rejected = drafts.Rejected()
        self.prefix: list[int] = []
        """The common prefix told last."""

    def note(self, seen: Seen, before: Step | None = None, gone: list[int] | None = None) -> Step:
        """Remember a step until its output has come.

        ``gone``: the places of those who were in the step ``before`` and are not in this one,
        which the others lead; None: they do not.
        """
        observer, ids, tokens = self.observer, seen.ids, seen.tokens
        if before is None or gone is None:
            before, tail, numbers, fillings = None, ids, [], []
        else:
            tail = ids[len(before.ids) - len(gone) :]
            numbers, fillings = before.numbers, before.fillings
            if gone:
                numbers, fillings = without(numbers, gone), without(fillings, gone)
        single = seen.drafts is None and tokens.count(1) == len(tokens)
        step = Step(seen.number, seen, ids, numbers, fillings, tokens, single, drafts=seen.drafts)
        if before is not None and gone is not None:
            step.after, step.base, step.gone = before.ids, before.fillings, gone
        if observer.drafts:
            step.due = drafts.due(seen.drafts, tokens, before)
        return self._noted(step, tail)

    def _noted(self, step: Step, tail: list[str]) -> Step:
        """Remember a step, behind whose requests others stand."""
        observer = self.observer
        observer.steps = step.number
        if tail:
            step.numbers = step.numbers + observer.numbers.each(tail)
            step.fillings = step.fillings + [observer.filling.get(r, NOBODY) for r in tail]
        self.in_flight[step.number] = step
        return step

    def forget(self) -> None:
        """The next records may not refer to those before."""
        self.before = None
        for step in self.in_flight.values():
            step.told = False

    def recognise(self) -> None:
        """Know who fills blocks with the steps in flight: these were noted before anybody was, and
        no record tells them.
        """
        for step in self.in_flight.values():
            step.told = False
            step.fillings = [self.observer.filling.get(r, NOBODY) for r in step.ids]

    def schedule(self, seen: Seen) -> Fields:
        """A ``schedule`` record."""
        before, observer, step = self.before, self.observer, None
        if before is not None and seen.encoder is None:
            step = turns.turned(seen, before, self.rejected if observer.drafts else None)
        if before is not None and step is not None:
            self._noted(step, step.ids[len(seen.known) :])
            record = self._short(step, seen, before, [])
        else:
            gone = before.staying(seen) if before is not None else None
            step = self.note(seen, before, gone)
            record = self._different(step, seen, before)
        self.before = step
        if observer.drafts:
            self.rejected.since.clear()
        observer.ended(step.number, seen.others.finished)
        return observer.tell(record, seen.counted, short=record["ev"] == "schedule+")

    def _different(self, step: Step, seen: Seen, before: Step | None) -> Fields:
        """Told by the differences, if there are few; else whole."""
        if before is not None and step.base is not None:
            many = len(before.ids) - len(step.gone)
            if many or not (step.gone or step.ids or self.observer.drafts):
                odd = self._odd(step, seen, before, many)
                if odd is not None:
                    return self._short(step, seen, before, odd)
        step.learn()
        record: Fields = {"ev": "schedule", "step": step.number}
        record |= {"ids": step.numbers, "tokens": step.tokens}
        if step.drafts is not None:
            record["drafts"] = drafts.pairs(step)
        self._rest(record, step, seen, None)
        return record

    def _short(self, step: Step, seen: Seen, before: Step, odd: list[int]) -> Fields:
        """Told by the differences. ``odd``: the places of those that stay and are not as expected.
        Then the counts of all are known.
        """
        gone = step.gone
        many = len(before.ids) - len(gone)
        opening = bytearray(many)
        if self._gives and step.at is not None:
            opening = bytearray(self._edges.opening(step.at[:many]))
        record: Fields = {"ev": "schedule+", "step": step.number}
        if gone:
            record["gone"] = [before.numbers[place] for place in gone]
        if odd:
            record["odd"] = rows = []
            computed, outputs = seen.counts()
            for place in odd:
                opening[place] = 0
                counts = computed[place], outputs[place]
                rows.append((step.numbers[place], step.tokens[place], *counts))
        if step.drafts is not None:
            record |= drafts.told(step, many)
        if len(step.ids) > many:
            record["ids"] = step.numbers[many:]
            record["tokens"] = step.tokens[many:]
        if len(seen.known) > many:
            of = self.observer.numbers.of
            record["known"] = [(of[r], *numbers) for r, numbers in seen.facts(many, ())]
        self._rest(record, step, seen, opening)
        return record

    def _odd(self, step: Step, seen: Seen, before: Step, many: int) -> list[int] | None:
        """The places of those that stay, so many, and are not as expected; None: too many for a
        short form.

        Then the counts of all are known.
        """
        words, tail = seen.words, step.ids[many:]
        if words is None:
            return None
        if seen.known is not step.ids and seen.known[:many] != step.ids[:many]:
            return None
        facts = dict(seen.facts(many, seen.others.new)) if tail else {}
        if not all(map(facts.__contains__, tail)):
            return None
        by_drafts = self.observer.drafts
        likely = self.rejected.next_counts(before) if by_drafts else before.next_counts()
        if likely is None:
            return None
        try:
            odd = step.take(words, before, likely, [facts[r] for r in tail])
        except OverflowError:  # a count that has no word
            return None
        return None if odd is None or len(odd) * ODD_SHARE > many else odd

    def _rest(
        self, record: Fields, step: Step, seen: Seen, opening: bytes | bytearray | None
    ) -> None:
        """What both forms have. ``opening``, of the short one: of those who stay, those expected
        to get a block, one each: 1, others 0.
        """
        of, others = self.observer.numbers.of, seen.others
        if others.new:
            record["new"] = [self.new(new) for new in others.new]
        short = opening is not None
        if short or seen.known:
            lists = record if short else self._lists(step, seen)
            due = None if opening is None else list(compress(step.ids, opening))
            self._grown(lists, seen, due)
            if others.resumed:
                lists["resumed"] = [of[r] for r in others.resumed]
            if others.sent or not short:
                lists["all_tokens"] = [(of[r], tokens) for r, tokens in others.sent.items()]
            if not short:
                record["cached"] = lists
        if others.preempted:
            record["preempted"] = sorted(of[r] for r in others.preempted)
        self.finished(record, seen)
        if seen.encoder is not None and self.observer.items is not None:
            inputs, evicted, asked, room = seen.encoder
            answers = self.observer.items.answers(asked)
            if inputs:
                record["encoder_inputs"] = [(of[r], place) for r, place in inputs]
            if evicted:
                record["evicted_items"] = self.observer.items.evicted(evicted)
            if answers:
                record["item_answers"] = answers
            if room:
                record["connector_items"] = [(of[r], place) for r, place in room]
        if seen.zeroed:
            record["zeroed"] = seen.zeroed
        if not short or seen.prefix != self.prefix:
            record["common_prefix"] = self.prefix = seen.prefix

    def _lists(self, step: Step, seen: Seen) -> Fields:
        """The beginning of ``cached``."""
        same = seen.known is step.ids
        computed, outputs = seen.counts()
        return {
            "ids": step.numbers if same else self.observer.numbers.each(seen.known),
            "computed": computed,
            "num_output": outputs,
        }

    def finished(self, record: Fields, seen: Seen) -> None:
        """Who is told to have ended."""
        of, finished = self.observer.numbers.of, seen.others.finished
        if finished:
            record["finished"] = sorted(of[r] for r in finished if r in of)

    def grown(self, lists: Fields, seen: Seen, opening: list[str]) -> None:
        """The blocks of a step in which everybody who stays goes on alike. ``opening``: those
        expected to get one.
        """
        if self._gives and seen.gets == opening:
            given = _one_each(seen.blocks)
            if given is not None:
                self.observer.chains.given_out += len(given)
                if given:
                    lists["given"] = given
                return
        self._grown(lists, seen, opening)

    def _grown(self, lists: Fields, seen: Seen, opening: list[str] | None) -> None:
        """Who gets blocks, and which. Counts what is given out."""
        gets, blocks, chains, ids = seen.gets, seen.blocks, self.observer.chains, seen.known
        if opening is not None and self._gives:
            due, got = opening, dict(zip(gets, blocks, strict=True))
            given = _one_each(map(got.get, due)) if len(got) == len(gets) else None
            if given is not None:
                chains.given_out += len(given)
                if given:
                    lists["given"] = given
                for id in due:
                    del got[id]
                if not got:
                    return
                gets, blocks = list(got), list(got.values())
        elif opening is not None and self._says_who and not seen.others.resumed:
            if set(map(type, blocks)) - {int}:  # somebody has several
                one = [isinstance(block, int) for block in blocks]
                lists |= self._gets(list(compress(gets, one)), list(compress(blocks, one)))
                several = list(map(not_, one))
                gets, blocks = list(compress(gets, several)), list(compress(blocks, several))
            else:
                lists |= self._gets(gets, blocks)
                gets, blocks = [], ()
        blocks = list(map(spread, blocks))
        if self._taken.counts_all:
            chains.given_out += sum(map(len, chain.from_iterable(blocks)))
        else:
            chains.given_out += sum(map(self._taken.of_growth, blocks))
        if seen.others.resumed:
            computed = seen.counts()[0]
            for r in seen.others.resumed:
                chains.given_out -= self._taken.hits(computed[ids.index(r)])
        if self.observer.tells_blocks and (blocks or opening is None):
            lists["blocks"] = list(zip(self.observer.numbers.each(gets), blocks, strict=True))

    def _gets(self, whose: list[str], given: Sequence[int]) -> Fields:
        """One block each, and whose."""
        self.observer.chains.given_out += len(given)
        return {"gets": self.observer.numbers.each(whose), "given": given} if given else {}

    def new(self, new: New) -> Fields:
        """What is told of a request that the worker has not seen. Counts what it is given."""
        given = self._taken.of_growth(new.blocks) - self._taken.hits(new.computed)
        if self.observer.sessions:
            held = self.observer.talk.held.pop(new.id, 0)
            given = max(sum(map(len, new.blocks)) - held, 0) if held else given
        self.observer.chains.given_out += given
        fields = {"id": self.observer.numbers.of[new.id], "computed": new.computed}
        if self.observer.tells_blocks:
            fields["blocks"] = new.blocks
        if new.prefill is not None:
            fields["prefill"] = new.prefill
        return fields

    def before_update(self, seen: Seen) -> Step:
        """The step that an output belongs to."""
        step = self.in_flight.pop(seen.number)
        step.seen = None
        step.loose = seen.loose
        return step


def _one_each(groups: Iterable[Any]) -> list[int] | None:
    """The only block of each; None where somebody has none, or several."""
    blocks = list(groups)
    return None if set(map(type, blocks)) - {int} else blocks
