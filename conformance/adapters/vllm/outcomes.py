"""Reads outputs and updates into records: whole ones, or short where they are as expected."""

from itertools import chain, compress
from operator import not_
from typing import Any

from nullblock.conformance.adapters.vllm.observe import Fields, Observer
from nullblock.conformance.adapters.vllm.steps import ODD_SHARE, Step
from nullblock.conformance.adapters.vllm.wheel import Wheel


class Outcomes:
    """What the model sampled in a step, and what the engine made of it."""

    def __init__(self, observer: Observer, wheel: Wheel) -> None:
        self.observer, self.wheel = observer, wheel
        self.scheduler = observer.scheduler
        self._frames: Any = ()
        """Tokens sampled, by the output last recorded."""
        self._counts: list[int] = []
        """How many."""
        self._single = True
        """Whether nobody got more than one."""

    def output(self, step: Step, sampled: Any) -> Fields:
        """An ``output`` record: what the model sampled."""
        frames = sampled.sampled_token_ids
        if not frames:
            frames = [()] * len(step.ids)
        elif sampled.req_ids != step.ids:
            frames = [frames[sampled.req_id_to_index[r]] for r in step.ids]
        many, odd = len(step.ids), 0
        self._single = True
        try:
            tokens = [token for (token,) in frames]
            self._counts = [1] * many
        except ValueError:
            tokens = list(chain.from_iterable(frames))
            self._counts = list(map(len, frames))
            odd = many - self._counts.count(1)
            self._single = max(self._counts) <= 1
        self._frames = frames
        if odd * ODD_SHARE > many:
            record: Fields = {"ev": "output", "step": step.number}
            record |= {"ids": step.numbers, "counts": self._counts}
        else:
            record = {"ev": "output+", "step": step.number}
            if odd:
                record["odd"] = [
                    pair for pair in zip(step.numbers, self._counts, strict=True) if pair[1] != 1
                ]
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
        observer = self.observer
        filled, of, number = observer.filled, observer.numbers.of, observer.chains.number
        due, next_round = self.wheel.turn()
        if observer.ids_return or not self._single:
            due = [(r, observer.requests.get(r)) for r in step.ids]
            next_round = []
        untold: set[str] = set()
        if observer.unusual:  # more input for a session fills blocks, too
            sampled = set(compress(step.ids, self._counts))
            untold = {r for r, _ in due if r not in sampled}
        found: list[tuple[int, int]] = []
        for entry in due:
            r, request = entry
            known = filled.get(r)
            if known is None or request is None:
                continue  # it has ended
            if r in untold:
                known = filled[r] = len(request.block_hashes)
            hashes = request.block_hashes
            many = len(hashes)
            if many == known + 1:
                filled[r] = many
                found.append((of[r], number(hashes[known])))
                next_round.append(entry)
            else:
                filled[r] = many
                found += [(of[r], number(hash)) for hash in hashes[known:]]
                self.wheel.watch(r, request)
        return found

    def update(self, step: Step, result: Any) -> Fields:
        """An ``update`` record: what the engine made of the output just recorded."""
        outputs = _in_order(result, step)
        ids = [output.request_id for output in outputs]
        passed_on = [output.new_token_ids for output in outputs]
        record: Fields = {"ev": "update+", "step": step.number}
        if ids != step.ids or passed_on != self._frames:
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
        if self._counts.count(1) == len(step.ids) == len(got) + len(step.ids) - len(ids):
            stays = list(map(got.__contains__, step.ids))
            if list(compress(step.ids, stays)) == ids and tokens.count(1) == len(ids):
                return list(compress(step.numbers, map(not_, stays)))
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
        return list(of_client.outputs)
    outputs = list(chain.from_iterable(result[client].outputs for client in sorted(result)))
    place = {r: i for i, r in enumerate(step.ids)}
    outputs.sort(key=lambda output: place[output.request_id])
    return outputs
