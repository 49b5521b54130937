"""What is kept of a step: who is in it, and what is expected of the next one."""

from array import array
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import compress
from operator import ne

from nullblock.conformance.adapters.vllm import expected
from nullblock.conformance.adapters.vllm.filling import Filling, a_token_on, positions
from nullblock.conformance.adapters.vllm.seen import Seen

FEW = 4
"""So many are looked for one by one."""


@dataclass(slots=True)
class Step:
    """What is kept of a decided step until its output has come, and the next step is decided.

    Lists run in parallel. They are never changed: steps that are alike share them.
    """

    number: int
    seen: Seen | None
    """What was decided, until its output; None of a step that is like the one before."""
    ids: list[str]
    numbers: list[int]
    fillings: list[Filling]
    tokens: list[int]
    single: bool
    """Whether everybody has one token."""
    counts: int | None = None
    """Computed tokens and outputs before the step, packed; None where that cannot be, or where
    they are not known of everybody."""
    at: bytes | None = None
    """The positions of the last tokens that it computes (``filling``); None where counts are."""
    drafts: list[int] | None = None
    """How many of the tokens are drafts; None: nobody's."""
    due: list[int] = field(default_factory=list)
    """Where there may be drafts: the tokens of each if nobody has others than its drafts and one
    more; ``tokens`` itself, where that is so."""
    told: bool = True
    """Whether it is told in the file that its output will be told in."""
    loose: bool = False
    """Whether tokens may end elsewhere than the step says: somebody was preempted meanwhile."""

    def learn(self) -> None:
        """Take what was computed, and what had come out, from the decision itself."""
        assert self.seen is not None
        known = dict(self.seen.facts(0, self.seen.others.new))
        self.counts = self.at = None
        if all(map(known.__contains__, self.ids)):
            computed, outputs = [known[r][0] for r in self.ids], [known[r][1] for r in self.ids]
            self.counts = expected.packed(computed, outputs)
            self.at = positions(computed, self.tokens)

    def lists(self) -> tuple[list[int], list[int]]:
        """Computed tokens and outputs, where they are known."""
        assert self.counts is not None
        return expected.unpacked(self.counts, len(self.ids))

    def next_counts(self) -> int | None:
        """What is expected of the step after it, if everybody stays; None: that has no number."""
        if self.counts is None:
            return None
        return expected.after(self.counts, self.tokens, single=self.single)

    def take(self, words: "array[int]", before: "Step", likely: int | None) -> list[int] | None:
        """Know the counts of those who stay, who lead this step, of which ``likely`` are expected;
        ``before``: only them, there.

        The places of those that are not as expected; None: counts that are none.
        """
        counts = expected.number(words)
        if counts is None or likely is None or before.at is None:
            return None
        many = len(before.ids)
        odd = expected.differing(counts, likely, many) if counts != likely else set()
        if self.drafts is not None:
            if self.due is not self.tokens:
                odd.update(compress(range(many), map(ne, self.tokens, self.due)))
        elif not self.single and self.tokens[:many].count(1) != many:
            odd.update(place for place in range(many) if self.tokens[place] != 1)
        self.counts, self.at = counts, a_token_on(before.at)
        if odd:
            at = bytearray(self.at)
            for place in odd:
                at[place] = (words[place] + self.tokens[place] - 1) & 255
            self.at = bytes(at)
        return sorted(odd)

    def join(self, further: list[tuple[int, int]]) -> None:
        """Know the counts of those behind them, too."""
        assert self.counts is not None and self.at is not None
        many = len(self.ids) - len(further)
        at = positions([computed for computed, _ in further], self.tokens[many:])
        self.counts, self.at = expected.joined(self.counts, many, further), self.at + at

    def staying(self, seen: Seen) -> "tuple[Step, list[int]] | None":
        """This step without those who are not in the next one; and their numbers.

        None: not all others lead the next step, or what is expected of them is not known.
        """
        ids = seen.ids
        if ids is self.ids or ids[: len(self.ids)] == self.ids:
            return self, []
        if self.counts is None or self.at is None:
            return None
        ended = [*seen.others.finished, *seen.others.preempted]
        places = _places(self.ids, ended) if len(ended) <= FEW else []
        kept = self._without(places) if places else None
        if kept is None or ids[: len(kept.ids)] != kept.ids:
            places = _absent(self.ids, seen.ids)
            kept = self._without(places)
            if ids[: len(kept.ids)] != kept.ids:
                return None
        return kept, [self.numbers[place] for place in places]

    def _without(self, places: list[int]) -> "Step":
        """This step as if some had not been in it."""
        ids, numbers = self.ids.copy(), self.numbers.copy()
        fillings, tokens = self.fillings.copy(), self.tokens.copy()
        assert self.counts is not None and self.at is not None
        at = bytearray(self.at)
        drafts = None if self.drafts is None else self.drafts.copy()
        due = tokens if self.due is self.tokens else self.due.copy()
        for place in reversed(places):
            if drafts is not None:
                del drafts[place]
            if due and due is not tokens:
                del due[place]
            del ids[place], numbers[place], fillings[place], tokens[place], at[place]
        single = self.single or tokens.count(1) == len(tokens)
        counts = expected.without(self.counts, len(self.ids), places)
        fields = ids, numbers, fillings, tokens, single, counts, bytes(at), drafts, due
        return Step(self.number, None, *fields)


def _places(ids: list[str], ended: Collection[str]) -> list[int]:
    """The places of those that are there at all; who was preempted may have ended besides."""
    places = []
    for r in ended:
        try:
            places.append(ids.index(r))
        except ValueError:
            continue
    return sorted(set(places))


def _absent(ids: list[str], scheduled: list[str]) -> list[int]:
    """The places of those that are not scheduled."""
    place, others = _first_difference(ids, scheduled), len(ids) - 1
    if place <= others and ids[place + 1 :] == scheduled[place:others]:
        return [place] if ids[place] not in scheduled[others:] else []  # mostly it is one
    stays = list(map(set(scheduled).__contains__, ids))
    places: list[int] = []
    for _ in range(stays.count(False)):
        places.append(stays.index(False, places[-1] + 1 if places else 0))
    return places


def _first_difference(one: list[str], other: list[str]) -> int:
    """The first place where two lists differ; ``other``, or what follows, may be shorter."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least
