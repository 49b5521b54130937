"""What is kept of a step: who is in it, and what is expected of the next one."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from nullblock.conformance.adapters.vllm import expected
from nullblock.conformance.adapters.vllm.filling import Filling, a_token_on, positions

FEW = 4
"""So many are looked for one by one."""


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
    loose: bool = False
    """Whether tokens may end elsewhere than the step says: somebody was preempted meanwhile."""

    def learn(self) -> None:
        """Take what was computed, and what had come out, from the decision itself."""
        decided = self.decided
        known = dict(facts(decided.scheduled_new_reqs, decided.scheduled_cached_reqs, 0))
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

    def alike(self, before: "Step", cached: Any) -> bool:
        """Whether everybody is there once more and as expected: told by nothing at all."""
        if not self.single or self.ids is not before.ids or cached.req_ids != self.ids:
            return False
        counts = expected.packed(cached.num_computed_tokens, cached.num_output_tokens)
        if counts is None or before.at is None or counts != before.next_counts():
            return False
        self.counts, self.at = counts, a_token_on(before.at)
        return True

    def take(
        self, computed: list[int], outputs: list[int], before: "Step", likely: int | None
    ) -> list[int] | None:
        """Know the counts of those who stay, who lead this step, of which ``likely`` are expected;
        ``before``: only them, there.

        The places of those that are not as expected; None: counts that are none.
        """
        counts = expected.packed(computed, outputs)
        if counts is None or likely is None or before.at is None:
            return None
        many = len(computed)
        odd = expected.differing(counts, likely, many) if counts != likely else set()
        if self.drafts is not None:
            rows = zip(self.tokens[:many], self.drafts, strict=False)
            odd.update(place for place, (tokens, n) in enumerate(rows) if tokens != n + 1)
        elif not self.single and self.tokens[:many].count(1) != many:
            odd.update(place for place in range(many) if self.tokens[place] != 1)
        self.counts, self.at = counts, a_token_on(before.at)
        if odd:
            at = bytearray(self.at)
            for place in odd:
                at[place] = (computed[place] + self.tokens[place] - 1) & 255
            self.at = bytes(at)
        return sorted(odd)

    def join(self, further: list[tuple[int, int]]) -> None:
        """Know the counts of those behind them, too."""
        assert self.counts is not None and self.at is not None
        many = len(self.ids) - len(further)
        at = positions([computed for computed, _ in further], self.tokens[many:])
        self.counts, self.at = expected.joined(self.counts, many, further), self.at + at

    def staying(self, decided: Any) -> "tuple[Step, list[int]] | None":
        """This step without those who are not in the next one; and their numbers.

        None: not all others lead the next step, or what is expected of them is not known.
        """
        ids = list(decided.num_scheduled_tokens)
        if ids[: len(self.ids)] == self.ids:
            return self, []
        if self.counts is None or self.at is None:
            return None
        ended = [*decided.finished_req_ids, *(decided.preempted_req_ids or ())]
        places = _places(self.ids, ended) if len(ended) <= FEW else []
        kept = self._without(places) if places else None
        if kept is None or ids[: len(kept.ids)] != kept.ids:
            places = _absent(self.ids, decided.num_scheduled_tokens)
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
        for place in reversed(places):
            if drafts is not None:
                del drafts[place]
            del ids[place], numbers[place], fillings[place], tokens[place], at[place]
        single = self.single or tokens.count(1) == len(tokens)
        counts = expected.without(self.counts, len(self.ids), places)
        fields = ids, numbers, fillings, tokens, single, counts, bytes(at), drafts
        return Step(self.number, None, *fields)


def _places(ids: list[str], ended: Collection[str]) -> list[int]:
    """The places of those that are there at all."""
    places = []
    for r in ended:
        try:
            places.append(ids.index(r))
        except ValueError:
            continue
    return sorted(places)


def _absent(ids: list[str], scheduled: dict[str, int]) -> list[int]:
    """The places of those that are not scheduled."""
    stays = list(map(scheduled.__contains__, ids))
    places: list[int] = []
    for _ in range(stays.count(False)):
        places.append(stays.index(False, places[-1] + 1 if places else 0))
    return places


def facts(new: Iterable[Any], cached: Any, start: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Computed tokens and outputs of new requests, and of known ones from a place on."""
    for request in new:
        yield request.req_id, (request.num_computed_tokens, 0)
    computed, outputs = cached.num_computed_tokens[start:], cached.num_output_tokens[start:]
    yield from zip(cached.req_ids[start:], zip(computed, outputs, strict=True), strict=True)
