"""Reads outputs and updates into records: whole ones, or short where they are as expected."""

from collections.abc import Collection
from itertools import compress, repeat
from operator import ne
from typing import Any

from nullblock.conformance.adapters.vllm import drafts, sessions
from nullblock.conformance.adapters.vllm.filling import Edges, Filling, Row
from nullblock.conformance.adapters.vllm.observe import Fields, Observer
from nullblock.conformance.adapters.vllm.seen import Many, Proposal, Seen, Taken
from nullblock.conformance.adapters.vllm.step import Step, absent, without
from nullblock.conformance.adapters.vllm.steps import ODD_SHARE
from nullblock.conformance.adapters.vllm.tally import Tally, fits


class Outcomes:
    """What the model sampled in a step, and what the engine made of it."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.scheduler = observer.scheduler
        size = observer.pool.hash_block_size
        self._edges = Edges(size)
        self.placed = self._edges.told and size == self.scheduler.block_size
        """Whether positions tell who fills a block."""
        self.placed &= not observer.drafts
        self.tally: Tally | None = None
        """Where the tokens that come tell who fills a block."""
        if observer.drafts and observer.caching and fits(size):
            self.tally = Tally(size)
        self._fillings: list[Filling] = []
        self._full: list[int] = []
        """The requests of the last step that was told by lengths, and how many blocks each had
        filled: all of them are told, if they are the request's own."""
        self._reasons: dict[Any, str] = {}
        """How the engine's reasons for an end are spelled, which takes it its time to say."""
        self.last: Step | None = None
        """Where there are drafts: the step whose output is recorded last, in the same file."""

    def output(self, step: Step, taken: Taken, rejected: drafts.Rejected) -> Fields:
        """An ``output`` record: what the model sampled."""
        record: Fields = {"ev": "output+", "step": step.number}
        counts = taken.tokens
        if counts is not None:
            many = (len(counts) - counts.count(1)) * ODD_SHARE > len(counts)
            if many and self.observer.drafts:
                record["counts"] = list(counts)
            elif many:
                record = {"ev": "output", "step": step.number}
                record |= {"ids": step.numbers, "counts": list(counts)}
            else:
                pairs = zip(step.numbers, counts, strict=True)
                record["odd"] = [pair for pair in pairs if pair[1] != 1]
        if self.observer.drafts:
            rejected.output(step, counts)
            self.last = step
        self._ends(record, step.ids, taken)
        if self.observer.caching:
            self._filled(record, step, taken)
        return record

    def _ends(self, record: Fields, ids: list[str], taken: Taken) -> None:
        """What was sampled that ends somebody."""
        of = self.observer.numbers.of
        if taken.frames is not None:
            eos, stop = self._end_tokens(ids, taken.frames)
            if eos:
                record["eos"] = eos
            if stop:
                record["stop"] = stop
        if taken.ended:
            # A grammar has rejected what was sampled; whose load failed has no tokens.
            ends = (o for o in taken.ended if o.new_token_ids)
            errors = [o for o in ends if self._reason(o) == "error"]
            if errors:
                # The grammar saw what was taken: nothing behind an end.
                last = ((of[o.request_id], len(o.new_token_ids) - 1) for o in errors)
                record["rejected"] = list(last)

    def _end_tokens(self, ids: list[str], frames: Any) -> tuple[list[Any], list[Any]]:
        """Whose tokens have one that ends it, and where: its eos, one of its stop ids."""
        eos, stop, observer = [], [], self.observer
        plain = observer.end_tokens.isdisjoint
        for id, tokens in zip(ids, frames, strict=True):
            if plain(tokens):
                continue
            parameters = observer.talk.parameters(observer.requests.get(id))
            if parameters is None:
                continue
            number = observer.numbers.of[id]
            for place, token in enumerate(tokens):
                if token == parameters.eos_token_id:
                    eos.append((number, place))
                elif token in (parameters.stop_token_ids or ()):
                    stop.append((number, place))
        return eos, stop

    def _filled(self, record: Fields, step: Step, taken: Taken) -> None:
        """The chain number of every block that was filled since the step before."""
        observer, counts = self.observer, taken.tokens
        if self.tally is not None and not observer.irregular:
            self._by_tally(record, step, taken, self.tally)
            return
        if taken.full is not None and not observer.irregular:
            self._by_length(record, step, taken.full)
            return
        several = counts is not None and max(counts, default=0) > 1
        if observer.irregular or step.loose or several or step.at is None:
            # Told at once: the hashes that there are have all come by now.
            everybody = dict.fromkeys(filter(None, map(observer.filling.get, step.ids)))
            record["chain"] = self._one_by_one(everybody, step, counts)
        else:
            assert step.at is not None
            mask = self._edges.filling(step.at)
            places = list(compress(range(len(mask)), mask))
            if taken.passed_on is not None:
                got, ids = _some(*taken.passed_on), step.ids
                due = [place for place in places if ids[place] in got]
            else:
                due = places
            fresh = len(due) == len(places) and step.told and record["ev"] == "output+"
            self._fill(record, list(map(step.fillings.__getitem__, due)), fresh=fresh)

    def of_each(self, taken: Taken, full: Row) -> Fields | None:
        """The ``output`` record of a step where everybody got one token. ``full``: those whose
        block it fills. None: it does not explain who was passed on what.
        """
        seen = taken.step
        record: Fields = {"ev": "output+", "step": seen.number}
        fillings = full.fillings
        if not taken.plain:
            if taken.passed_on is not None:
                gone = not_passed_on(seen.ids, *taken.passed_on)
                if gone is None:
                    return None
                pairs = zip(*full, strict=True)
                fillings = [filling for id, filling in pairs if id not in gone]
            self._ends(record, seen.ids, taken)
        if self.observer.caching:
            self._fill(record, fillings, fresh=len(fillings) == len(full.ids))
        return record

    def _fill(self, record: Fields, due: list[Filling], *, fresh: bool) -> None:
        """These fill a block each; later steps may have filled more by now.

        ``fresh``: whether these are all of whom a reader would think so.
        """
        hashes = _next_of_each(due)
        if hashes is None:
            due, fresh = [f for f in due if len(f.hashes) > f.known], False
            hashes = [filling.hashes[filling.known] for filling in due]
        for filling in due:
            filling.known += 1
        self.observer.backlog.fill(record, due, hashes, fresh=fresh and bool(due))

    def _by_tally(self, record: Fields, step: Step, taken: Taken, tally: Tally) -> None:
        """Those who fill blocks with the tokens that are passed on."""
        ids, counts = step.ids, taken.tokens
        if taken.passed_on is None:
            tokens: Many = b"\1" * len(ids) if counts is None else counts
        else:
            got, tokens = taken.passed_on
            if got != ids:
                tokens = _of_all(ids, got, tokens)
        places, many = tally.took(step, tokens)
        filled = list(map(step.fillings.__getitem__, places))
        hashes = _next_of_each(filled) if many.count(1) == len(places) else None
        if hashes is None:
            filled = [step.fillings[place] for place in places for _ in range(many[place])]
            filled, hashes = _one_after_another(filled)
        else:
            for filling in filled:
                filling.known += 1
        self.observer.backlog.fill(record, filled, hashes, fresh=False)

    def _by_length(self, record: Fields, step: Step, full: list[int]) -> None:
        """Those with more hashes than are known have filled a block for each."""
        whose: list[Filling] = []
        hashes: list[bytes] = []
        fillings, known = step.fillings, self._full
        if fillings is not self._fillings:
            known = [filling.known for filling in fillings]
        for place in compress(range(len(full)), map(ne, known, full)):
            filling = fillings[place]
            new = filling.hashes[filling.known : full[place]]
            if len(new) == 1:  # mostly
                whose.append(filling)
            else:
                whose += [filling] * len(new)
            filling.known += len(new)
            hashes += new
        self._fillings, self._full = fillings, full
        self.observer.backlog.fill(record, whose, hashes, fresh=False)

    def _one_by_one(
        self, fillings: Collection[Filling], step: Step, counts: Many | None
    ) -> list[tuple[int, int]]:
        """Request and chain number of what these have filled by now."""
        told: list[tuple[int, int]] = []
        backlog, chains, talk = self.observer.backlog, self.observer.chains, self.observer.talk
        backlog.settle()
        for filling in fillings:
            hashes = filling.hashes
            if filling.alive:
                filling.hashes = hashes = filling.request.block_hashes
                before = talk.hashes(filling.request.request_id)
                hashes = hashes if before is None else before
            new = hashes[filling.known :]
            if new:
                filling.known += len(new)
                told += zip(repeat(filling.number), chains.each(new))
        return told

    def update(self, step: Step | Seen, taken: Taken) -> Fields:
        """An ``update`` record: what the engine made of the output just recorded. ``step``: only
        where everybody got one token it may be what was decided.
        """
        record: Fields = {"ev": "update+", "step": step.number}
        if taken.passed_on is not None:
            lost = taken.remote is not None and "failed" in taken.remote
            # Whose load failed gets an output, whatever was sampled.
            explained = None if lost else self._passed_on(step, taken.tokens, *taken.passed_on)
            record |= self._told(*taken.passed_on) if explained is None else explained
        if taken.ended:
            record["finish"] = [self._finish(output) for output in taken.ended]
            for output in taken.ended:
                request = self.observer.requests.get(output.request_id)
                # A session that waits for more input reports an end and goes on.
                if request is not None and request.is_finished():
                    self.observer.forget(request)
            if self.observer.sessions:
                turns = sessions.turns(self.observer, taken.ended)
                if turns:
                    record["turns"] = turns
        return record

    def _passed_on(
        self, step: Step | Seen, counts: Many | None, ids: list[str], tokens: Many
    ) -> Fields | None:
        """Who got no tokens, or fewer, than were sampled; None where that does not explain it."""
        gone: list[int] | None
        cut: list[tuple[int, int]] | None
        if counts is None:
            lost, cut = not_passed_on(step.ids, ids, tokens), None
            gone = None if lost is None else self.observer.numbers.each(lost)
        else:
            assert isinstance(step, Step)
            gone, cut = drafts.passed_on(step, counts, ids, tokens) or (None, None)
        if gone is None or (cut and not self.observer.drafts):
            return None
        return ({"gone": gone} if gone else {}) | ({"cut": cut} if cut else {})

    def _told(self, ids: list[str], tokens: Many) -> Fields:
        """A whole record of who got how many tokens."""
        of = self.observer.numbers.of
        return {"ev": "update", "ids": [of[r] for r in ids], "tokens": list(tokens)}

    def drafts(self, proposal: Proposal) -> Fields:
        """A record of the drafts that are proposed."""
        observer = self.observer
        return drafts.proposed(
            proposal, None if observer.ids_return else self.last, observer.numbers
        )

    def _reason(self, output: Any) -> str:
        reason = output.finish_reason
        told = self._reasons.get(reason)
        if told is None:
            told = self._reasons[reason] = str(reason)
        return told

    def _finish(self, output: Any) -> Fields:
        number = self.observer.numbers.of[output.request_id]
        fields: Fields = {"id": number, "reason": self._reason(output)}
        if isinstance(output.stop_reason, int):
            fields["by_stop_id"] = True
        return fields


def not_passed_on(each: list[str], ids: list[str], tokens: Many) -> list[str] | None:
    """Who of each, who sampled a token, gets nothing, if these get so many; None if that does not
    explain it.
    """
    places = absent(each, ids)
    same = without(each, places) == ids and tokens.count(1) == len(ids)
    return [each[place] for place in places] if same else None


def _some(ids: list[str], tokens: Many) -> set[str]:
    """Those that have some of these tokens."""
    return set(compress(ids, tokens) if 0 in tokens else ids)


def _of_all(ids: list[str], some: list[str], tokens: Many) -> Many:
    """The tokens of all, if only some have these."""
    gone = absent(ids, some)
    if isinstance(tokens, bytes) and without(ids, gone) == some:
        each = bytearray(tokens)
        for place in gone:
            each.insert(place, 0)
        return bytes(each)
    of = dict(zip(some, tokens, strict=True))
    return [of.get(r, 0) for r in ids]


def _next_of_each(filled: list[Filling]) -> list[bytes] | None:
    """The hash of the next block of each; None: somebody's has none."""
    try:
        return [filling.hashes[filling.known] for filling in filled]
    except IndexError:
        return None


def _one_after_another(filled: list[Filling]) -> tuple[list[Filling], list[bytes]]:
    """Who fills a block, once for each block, and the hashes, as far as there are any."""
    whose: list[Filling] = []
    hashes: list[bytes] = []
    for filling in filled:
        if filling.known < len(filling.hashes):
            whose.append(filling)
            hashes.append(filling.hashes[filling.known])
            filling.known += 1
    return whose, hashes
