"""Reads outputs and updates into records: whole ones, or short where they are as expected."""

from itertools import chain, compress
from operator import not_
from typing import Any

from nullblock.conformance.adapters.vllm.observe import Fields, Observer
from nullblock.conformance.adapters.vllm.steps import ODD_SHARE, Step
from nullblock.conformance.adapters.vllm.wheel import Filling, Wheel


class Outcomes:
    """What the model sampled in a step, and what the engine made of it."""

    def __init__(self, observer: Observer, wheel: Wheel) -> None:
        self.observer, self.wheel = observer, wheel
        self.scheduler = observer.scheduler
        self._frames: Any = ()
        """Tokens sampled, by the output last recorded."""
        self._counts: list[int] | None = None
        """How many; None: one each."""

    def output(self, step: Step, sampled: Any) -> Fields:
        """An ``output`` record: what the model sampled."""
        frames = sampled.sampled_token_ids
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
            if len(odd) * ODD_SHARE > len(counts):
                record = {"ev": "output", "step": step.number}
                record |= {"ids": step.numbers, "counts": counts}
            else:
                record["odd"] = odd
        if not self.observer.end_tokens.isdisjoint(tokens):
            eos, stop = self._ends(step, frames)
            if eos:
                record["eos"] = eos
            if stop:
                record["stop"] = stop
        if self.observer.caching:
            record["chain"] = self._filled_blocks(step)
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

    def _filled_blocks(self, step: Step) -> list[tuple[int, int]]:
        """Request and chain number of every block that was filled since the step before."""
        observer, counts = self.observer, self._counts
        due, next_round = self.wheel.turn()
        if observer.ids_return or (counts is not None and max(counts) > 1):
            everybody = filter(None, map(observer.filling.get, step.ids))
            due, next_round = list(dict.fromkeys(chain(everybody, due))), []
        if observer.unusual:  # more input for a session fills blocks, too
            sampled = set(step.ids if counts is None else compress(step.ids, counts))
            for entry in due:
                if entry.request.request_id not in sampled:
                    entry.known = len(entry.request.block_hashes)
        numbers: list[int] = []
        filled: list[bytes] = []
        for entry in due:
            hashes, known = entry.request.block_hashes, entry.known
            many = len(hashes)
            if not entry.alive:
                continue
            if many == known + 1:
                entry.known = many
                numbers.append(entry.number)
                filled.append(hashes[known])
                next_round.append(entry)
            else:
                self._catch_up(entry, numbers, filled)
        return list(zip(numbers, observer.chains.each(filled), strict=True))

    def _catch_up(self, entry: Filling, numbers: list[int], filled: list[bytes]) -> None:
        """A request that has filled no block, or several."""
        hashes = entry.request.block_hashes
        new = hashes[entry.known :]
        entry.known = len(hashes)
        filled += new
        numbers += [entry.number] * len(new)
        self.wheel.watch(entry)

    def update(self, step: Step, result: Any) -> Fields:
        """An ``update`` record: what the engine made of the output just recorded."""
        outputs = _in_order(result, step)
        ids = [output.request_id for output in outputs]
        passed_on = [output.new_token_ids for output in outputs]
        record: Fields = {"ev": "update+", "step": step.number}
        frames, self._frames = self._frames, ()
        if ids != step.ids or passed_on != frames:
            tokens = list(map(len, passed_on))
            gone = self._not_passed_on(step, ids, tokens)
            if gone is None:
                of = self.observer.numbers.of
                record = {"ev": "update", "step": step.number}
                record |= {"ids": [of[r] for r in ids], "tokens": tokens}
            elif gone:
                record["gone"] = gone
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
