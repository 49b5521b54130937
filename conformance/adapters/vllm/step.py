"""What is kept of a step: who is in it, and what is expected of the next one."""

from array import array
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import compress
from operator import ne
from typing import TypeVar

from nullblock.conformance.adapters.vllm import expected
from nullblock.conformance.adapters.vllm.filling import Filling, a_token_on, positions
from nullblock.conformance.adapters.vllm.seen import Many, Seen

FEW = 4
"""So many are looked for one by one."""
_NOT = b"\1" + bytes(255)
T = TypeVar("T")


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
    words: "array[int] | None" = None
    """Computed tokens of everybody before the step, and then outputs, where they are at hand."""
    at: bytes | None = None
    """The positions of the last tokens that it computes (``filling``); None where counts are."""
    drafts: Many | None = None
    """How many of the tokens are drafts; None: nobody's."""
    due: list[int] = field(default_factory=list)
    """Where there may be drafts: the tokens of each if nobody has others than its drafts and one
    more; ``tokens`` itself, where that is so."""
    after: list[str] = field(default_factory=list)
    """Who was in the step before, where those who stay lead this one;"""
    base: list[Filling] | None = None
    """the fillings of these; None: they do not lead it."""
    gone: list[int] = field(default_factory=list)
    """Of those the places of the ones that are not in this step."""
    told: bool = True
    """Whether it is told in the file that its output will be told in."""
    loose: bool = False
    """Whether tokens may end elsewhere than the step says: somebody was preempted meanwhile."""

    packed: int | None = None
    """``counts``, once they were asked for."""

    @property
    def counts(self) -> int | None:
        """Computed tokens and outputs before the step, packed; None where that cannot be, or where
        they are not known of everybody.
        """
        if self.packed is None and self.words is not None:
            self.packed = expected.number(self.words)
        return self.packed

    def learn(self) -> None:
        """Take what was computed, and what had come out, from the decision itself."""
        assert self.seen is not None
        known = dict(self.seen.facts(0, self.seen.others.new))
        self.packed = self.words = self.at = None
        if all(map(known.__contains__, self.ids)):
            computed, outputs = [known[r][0] for r in self.ids], [known[r][1] for r in self.ids]
            self.packed = expected.packed(computed, outputs)
            self.at = positions(computed, self.tokens)

    def counted(self) -> "array[int] | None":
        """The same in words."""
        if self.words is None and self.packed is not None:
            self.words = expected.kept(self.packed, len(self.ids), ())
        return self.words

    def lists(self) -> tuple[list[int], list[int]]:
        """Computed tokens and outputs, where they are known."""
        assert self.counts is not None
        return expected.unpacked(self.counts, len(self.ids))

    def told_counts(self) -> tuple[list[int], list[int]]:
        """The same of everybody as it was decided, counts below 0 included, for which there is no
        number; of whom nothing is told it is 0.
        """
        if self.counts is not None:
            return self.lists()
        new = () if self.seen is None else self.seen.others.new
        known = {} if self.seen is None else dict(self.seen.facts(0, new))
        each = [known.get(r, (0, 0)) for r in self.ids]
        return [computed for computed, _ in each], [outputs for _, outputs in each]

    def next_counts(self) -> int | None:
        """What is expected of the step after it, if everybody stays; None: that has no number."""
        if self.counts is None:
            return None
        return expected.after(self.counts, self.tokens, single=self.single)

    def take(
        self,
        words: "array[int]",
        before: "Step",
        likely: int,
        further: list[tuple[int, int]],
    ) -> list[int] | None:
        """Know the counts of all: ``words`` of those who stay and lead this step, of whom before
        they go ``likely`` are expected in ``before``; ``further`` of those behind them.

        The places of those that are not as expected; None: counts that are none.
        """
        many = len(self.ids) - len(further)
        lead = expected.leading(words, many)
        whole = expected.extended(lead, further) if further else lead
        counts = expected.number(whole)
        if counts is None:
            return None
        odd: set[int] = set()
        if self.gone or further:
            due = expected.kept(likely, len(before.ids), self.gone)
            odd = expected.differing(lead, due, many) if lead != due else odd
        elif counts != likely:
            odd = expected.differing(lead, expected.kept(likely, many, ()), many)
        tokens, usual = self.tokens, [1] * many
        if self.drafts is not None:
            usual = tokens if self.due is tokens else self.due[:many]
        elif self.single:
            usual = tokens
        if usual is not tokens and tokens[:many] != usual:
            odd.update(compress(range(many), map(ne, tokens, usual)))
        self.words, self.packed = whole, counts
        self.at = self._positions(before, odd, words, further)
        return sorted(odd)

    def _positions(
        self,
        before: "Step",
        odd: Collection[int],
        words: "array[int]",
        further: list[tuple[int, int]],
    ) -> bytes | None:
        """Where the last tokens are, which ``before`` knows of those who stay."""
        if before.at is None:
            return None
        at = a_token_on(before.at)
        if self.gone or odd:
            changed = bytearray(at)
            for place in reversed(self.gone):
                del changed[place]
            for place in odd:
                changed[place] = (words[place] + self.tokens[place] - 1) & 255
            at = bytes(changed)
        if further:
            tokens = self.tokens[len(self.ids) - len(further) :]
            at += positions([computed for computed, _ in further], tokens)
        return at

    def staying(self, seen: Seen) -> list[int] | None:
        """The places of those who are not in the next step, which all others lead.

        None: they do not, or what is expected of them is not known.
        """
        ids = seen.ids
        if ids is self.ids or ids[: len(self.ids)] == self.ids:
            return []
        if self.counts is None:
            return None
        ended = [*seen.others.finished, *seen.others.preempted]
        places = _places(self.ids, ended) if len(ended) <= FEW else []
        if not places or not _lead(ids, without(self.ids, places)):
            places = absent(self.ids, ids)
            if not _lead(ids, without(self.ids, places)):
                return None
        return places


def _lead(ids: list[str], first: list[str]) -> bool:
    return ids[: len(first)] == first


def _places(ids: list[str], ended: Collection[str]) -> list[int]:
    """The places of those that are there at all; who was preempted may have ended besides."""
    places = []
    for r in ended:
        try:
            places.append(ids.index(r))
        except ValueError:
            continue
    return sorted(set(places))


def absent(ids: list[str], scheduled: list[str]) -> list[int]:
    """The places of those that are not scheduled."""
    places: list[int] = []
    rest, others, start = ids, scheduled, 0
    while len(places) <= FEW:
        place = _first_difference(rest, others)
        if place == len(rest):  # nobody else
            behind = scheduled[len(ids) - len(places) :]
            if any(ids[place] in behind for place in places):
                break  # in another order
            return places
        places.append(start + place)
        rest, others, start = rest[place + 1 :], others[place:], start + place + 1
    stays = bytes(map(set(scheduled).__contains__, ids))
    return list(compress(range(len(ids)), stays.translate(_NOT)))


def without(each: list[T], places: list[int]) -> list[T]:
    """The others than those at some places, in ascending order."""
    kept = each.copy()
    for place in reversed(places):
        del kept[place]
    return kept


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
