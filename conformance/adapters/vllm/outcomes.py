"""Reads outputs and updates into records: whole ones, or short where they are as expected."""

from collections.abc import Collection
from itertools import chain, compress, repeat
from operator import not_
from typing import Any

from nullblock.conformance.adapters.vllm import drafts
from nullblock.conformance.adapters.vllm.filling import Edges, Filling
from nullblock.conformance.adapters.vllm.observe import Fields, Observer
from nullblock.conformance.adapters.vllm.step import Step
from nullblock.conformance.adapters.vllm.steps import ODD_SHARE


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
        self._sampled: list[list[int]] | None = None
        """Where there are drafts: tokens sampled, with those behind an end, which the engine cuts.
        """
        self.last: Step | None = None
        """Where there are drafts: the step whose output is recorded last, in the same file."""
        self._frames: Any = ()
        """Tokens sampled, by the output last recorded."""
        self._counts: list[int] | None = None
        """How many; None: one each."""

    def before(self, sampled: Any) -> None:
        """An output with drafts is about to be taken in."""
        self._sampled = list(map(list, sampled.sampled_token_ids))

    def output(self, step: Step, sampled: Any, rejected: drafts.Rejected) -> Fields:
        """An ``output`` record: what the model sampled."""
        frames: Any = sampled.sampled_token_ids
        if self.observer.drafts:
            frames, self._sampled = self._sampled or frames, None
        if not frames:
            frames = [()] * len(step.ids)
        elif sampled.req_ids != step.ids:
            frames = [frames[sampled.req_id_to_index[r]] for r in step.ids]
        self._frames = frames
        record: Fields = {"ev": "output+", "step": step.number}
        try:
            tokens = [token for (token,) in frames]
            self._counts = None
        except ValueError:
            tokens = list(chain.from_iterable(frames))
            self._counts = counts = list(map(len, frames))
            odd = [pair for pair in zip(step.numbers, counts, strict=True) if pair[1] != 1]
            if len(odd) * ODD_SHARE > len(counts) and self.observer.drafts:
                record["counts"] = counts
            elif len(odd) * ODD_SHARE > len(counts):
                record = {"ev": "output", "step": step.number}
                record |= {"ids": step.numbers, "counts": counts}
            else:
                record["odd"] = odd
        if self.observer.drafts:
            rejected.output(step, self._counts)
            self.last = step
        if not self.observer.end_tokens.isdisjoint(tokens):
            eos, stop = self._ends(step, frames)
            if eos:
                record["eos"] = eos
            if stop:
                record["stop"] = stop
        if self.observer.caching:
            self._filled(record, step)
        return record

    def _ends(self, step: Step, frames: Any) -> tuple[list[Any], list[Any]]:
        eos, stop = [], []
        requests = map(self.observer.requests.get, step.ids)
        for request, number, tokens in zip(requests, step.numbers, frames, strict=True):
            parameters = request.sampling_params if request is not None else None
            if parameters is None:
                continue
            for place, token in enumerate(tokens):
                if token == parameters.eos_token_id:
                    eos.append((number, place))
                elif token in (parameters.stop_token_ids or ()):
                    stop.append((number, place))
        return eos, stop

    def _filled(self, record: Fields, step: Step) -> None:
        """The chain number of every block that was filled since the step before."""
        observer, counts, at = self.observer, self._counts, step.at
        several = counts is not None and max(counts, default=0) > 1
        loose = several or step.loose or observer.unplaced
        if at is None or loose or observer.ids_return or observer.sessions or not self.placed:
            everybody = dict.fromkeys(filter(None, map(observer.filling.get, step.ids)))
            record["chain"] = self._one_by_one(everybody, step)
            return
        mask = self._edges.filling(at)
        due = list(compress(step.fillings, mask))
        filled = [h[-1] for f in due if len(h := f.hashes) == f.known + 1]
        if len(filled) != len(due) or not due or record["ev"] != "output+":
            record["chain"] = self._one_by_one(due, step)
        else:
            self._fill(record, due, filled, list(compress(step.numbers, mask)))

    def as_expected(self, number: int, step: Step, full: list[int]) -> Fields:
        """The ``output`` record of a step like ``step`` where everybody got one token, which ended
        nobody. ``full``: the places of those whose block it fills; later steps may have, too.
        """
        record: Fields = {"ev": "output+", "step": number}
        if self.observer.caching:
            due = [step.fillings[place] for place in full]
            filled = [h[f.known] for f in due if len(h := f.hashes) > f.known]
            if len(filled) != len(due) or not due:
                record["chain"] = self._one_by_one(due, step)
            else:
                self._fill(record, due, filled, [step.numbers[place] for place in full])
        return record

    def _fill(
        self, record: Fields, due: list[Filling], filled: list[bytes], numbers: list[int]
    ) -> None:
        """Each of those fills one block."""
        for filling in due:
            filling.known += 1
        self.observer.backlog.fill(record, numbers, filled)

    def _one_by_one(self, fillings: Collection[Filling], step: Step) -> list[tuple[int, int]]:
        """Request and chain number of what these have filled."""
        told: list[tuple[int, int]] = []
        if not fillings:
            return told
        if self.observer.sessions:
            counts = self._counts
            sampled = set(step.ids if counts is None else compress(step.ids, counts))
            for id, filling in self.observer.filling.items():
                if id not in sampled:
                    filling.known = len(filling.hashes)
        backlog, chains = self.observer.backlog, self.observer.chains
        with backlog.lock:
            backlog.settle()
            for filling in fillings:
                if filling.alive:
                    filling.hashes = filling.request.block_hashes
                new = filling.hashes[filling.known :]
                if new:
                    filling.known += len(new)
                    told += zip(repeat(filling.number), chains.each(new))
        return told

    def update(self, step: Step, result: Any) -> Fields:
        """An ``update`` record: what the engine made of the output just recorded."""
        outputs = _in_order(result, step)
        ids = [output.request_id for output in outputs]
        passed_on = [output.new_token_ids for output in outputs]
        record: Fields = {"ev": "update+", "step": step.number}
        frames, self._frames = self._frames, ()
        if ids != step.ids or passed_on != frames:
            tokens = list(map(len, passed_on))
            gone, cut = self._not_passed_on(step, ids, tokens), None
            if gone is None and self._counts is not None and self.observer.drafts:
                gone, cut = drafts.passed_on(step, self._counts, ids, tokens) or (None, None)
            if gone is None:
                of = self.observer.numbers.of
                record = {"ev": "update", "step": step.number}
                record |= {"ids": [of[r] for r in ids], "tokens": tokens}
            elif gone:
                record["gone"] = gone
            if cut:
                record["cut"] = cut
        ended: list[Any] = []
        if self.scheduler.finished_req_ids or self.observer.unusual:
            ended = [output for output in outputs if output.finish_reason is not None]
        if ended:
            record["finish"] = [self._finish(output) for output in ended]
            for output in ended:
                request = self.observer.requests.get(output.request_id)
                # A session that waits for more input reports an end and goes on.
                if request is not None and request.is_finished():
                    self.observer.forget(request)
        return record

    def drafts(self, tokens: Any) -> Fields:
        """A record of the drafts that are proposed."""
        observer = self.observer
        return drafts.proposed(
            tokens, None if observer.ids_return else self.last, observer.numbers
        )

    def _not_passed_on(self, step: Step, ids: list[str], tokens: list[int]) -> list[int] | None:
        """Who sampled something and gets nothing; None if that does not explain the outputs."""
        got = set(ids)
        if self._counts is None:
            stays = list(map(got.__contains__, step.ids))
            same = list(compress(step.ids, stays)) == ids and tokens.count(1) == len(ids)
            return list(compress(step.numbers, map(not_, stays))) if same else None
        expected: list[str] = []
        counts: list[int] = []
        gone: list[int] = []
        for r, number, count in zip(step.ids, step.numbers, self._counts, strict=True):
            if not count:
                continue
            if r in got:
                expected.append(r)
                counts.append(count)
            else:
                gone.append(number)
        return gone if (expected, counts) == (ids, tokens) else None

    def _finish(self, output: Any) -> Fields:
        number = self.observer.numbers.of[output.request_id]
        fields: Fields = {"id": number, "reason": str(output.finish_reason)}
        if isinstance(output.stop_reason, int):
            fields["by_stop_id"] = True
        return fields


def _in_order(result: Any, step: Step) -> list[Any]:
    """The outputs for all clients, in schedule order."""
    if len(result) == 1:
        (of_client,) = result.values()
        outputs: list[Any] = of_client.outputs
        return outputs
    outputs = list(chain.from_iterable(result[client].outputs for client in sorted(result)))
    place = {r: i for i, r in enumerate(step.ids)}
    outputs.sort(key=lambda output: place[output.request_id])
    return outputs
