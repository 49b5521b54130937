"""Reads vLLM's objects into records, as plain values in the order in which the format has them."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from msgspec import Raw, json

from nullblock.conformance.adapters.vllm.configuration import request_features
from nullblock.conformance.adapters.vllm.numbering import ChainNumbers, RequestNumbers, Ties

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class InFlight:
    """What is kept of a decided step until its output has come."""

    step: int
    ids: list[str]
    """In schedule order."""
    numbers: Raw
    """Theirs, already as JSON: the same list stands in several records."""


class Observer:
    """Turns what a scheduler is asked and decides into records, one method a kind.

    With hundreds of requests running, this has to cost a few microseconds a request less than the
    engine itself: lists are read in one go, and nothing is looked up twice.
    """

    def __init__(self, scheduler: Any) -> None:
        self.scheduler = scheduler
        self.pool = scheduler.kv_cache_manager.block_pool
        self.caching = bool(scheduler.kv_cache_manager.enable_caching)
        self.by_priority = scheduler.policy.value == "priority"
        self.numbers = RequestNumbers()
        self.chains = ChainNumbers(scheduler.kv_cache_config.num_blocks)
        self.ties = Ties()
        self.filled: dict[str, int] = {}
        """Blocks of each live request whose chain is recorded."""
        self.end_tokens: set[int] = set()
        """Every token that ends some request: eos or stop id."""
        self.first_arrival: float | None = None
        self.steps = 0
        self.in_flight: dict[int, InFlight] = {}
        """By the identity of the scheduler's output."""

    def add(self, request: Any) -> Fields:
        """An ``add`` record; the request has just been taken."""
        id = request.request_id
        parameters = request.sampling_params
        record: Fields = {
            "ev": "add",
            "id": self.numbers.number(id),
            "prompt": request.num_prompt_tokens,
            "max_tokens": request.max_tokens,
        }
        features = request_features(request)
        if parameters is not None:
            if parameters.min_tokens:
                record["min_tokens"] = parameters.min_tokens
            if parameters.eos_token_id is not None:
                self.end_tokens.add(parameters.eos_token_id)
            self.end_tokens.update(parameters.stop_token_ids or ())
        if request.priority:
            record["priority"] = request.priority
        if self.by_priority:
            if self.first_arrival is None:
                self.first_arrival = request.arrival_time
            record["arrival"] = float(request.arrival_time - self.first_arrival)
            tie = self.ties.add((request.priority, record["arrival"]), id)
            if tie is None:
                features.append("order_of_equals")
            elif tie:
                record["tie"] = tie
        if request.skip_reading_prefix_cache:
            record["skip_reading_prefix_cache"] = True
        if self.caching:
            record["chain"] = self.chains.add(id, request.block_hashes)
            self.filled[id] = len(request.block_hashes)
        if features:
            record["features"] = features
        return record

    def schedule(self, decided: Any) -> Fields:
        """A ``schedule`` record."""
        of = self.numbers.of
        self.steps += 1
        scheduled = decided.num_scheduled_tokens
        flight = InFlight(
            self.steps, list(scheduled), Raw(json.encode(list(map(of.__getitem__, scheduled))))
        )
        self.in_flight[id(decided)] = flight
        record: Fields = {
            "ev": "schedule",
            "step": self.steps,
            "ids": flight.numbers,
            "tokens": list(scheduled.values()),
        }
        if decided.scheduled_new_reqs:
            record["new"] = [self._new(new) for new in decided.scheduled_new_reqs]
        if decided.scheduled_cached_reqs.req_ids:
            record["cached"] = self._cached(decided.scheduled_cached_reqs, flight)
        if decided.preempted_req_ids:
            record["preempted"] = sorted(of[r] for r in decided.preempted_req_ids)
        if decided.finished_req_ids:
            record["finished"] = sorted(of[r] for r in decided.finished_req_ids)
        record["common_prefix"] = decided.num_common_prefix_blocks
        record["state"] = self._post_state()
        self.numbers.finished(self.steps, decided.finished_req_ids, self.scheduler.requests)
        return record

    def _new(self, new: Any) -> Fields:
        self._count_given_out(new.block_ids, new.num_computed_tokens)
        return {
            "id": self.numbers.of[new.req_id],
            "computed": new.num_computed_tokens,
            "blocks": new.block_ids,
        }

    def _count_given_out(self, groups: tuple[list[int], ...], computed: int) -> None:
        hits = computed // self.scheduler.block_size
        self.chains.given_out += sum(len(ids) - hits for ids in groups)

    def _cached(self, cached: Any, flight: InFlight) -> Fields:
        of, resumed, sent = self.numbers.of, cached.resumed_req_ids, cached.all_token_ids
        grown = [
            (cached.req_ids[place], groups, cached.num_computed_tokens[place])
            for place, groups in enumerate(cached.new_block_ids)
            if groups is not None
        ]
        for r, groups, computed in grown:
            self._count_given_out(groups, computed if r in resumed else 0)
        fields: Fields = {
            "ids": self._numbers(cached.req_ids, flight),
            "computed": cached.num_computed_tokens,
            "num_output": cached.num_output_tokens,
            "blocks": [(of[r], groups) for r, groups, _ in grown],
        }
        if resumed:
            fields["resumed"] = [of[r] for r in cached.req_ids if r in resumed]
        fields["all_tokens"] = (
            [(of[r], len(sent[r])) for r in cached.req_ids if r in sent] if sent else []
        )
        return fields

    def _numbers(self, ids: list[str], flight: InFlight) -> Any:
        """The numbers of some ids, which are mostly those that were scheduled."""
        return flight.numbers if ids == flight.ids else [self.numbers.of[r] for r in ids]

    def before_update(self, decided: Any) -> list[Any]:
        """The requests that a step's output is for, None where one is gone."""
        return list(map(self.scheduler.requests.get, decided.num_scheduled_tokens))

    def update(self, requests: list[Any], decided: Any, sampled: Any, result: Any) -> list[Fields]:
        """The ``output`` that a step brought, and the ``update`` that the engine made of it."""
        flight = self.in_flight.pop(id(decided))
        records = [self._output(flight, requests, sampled)]
        outputs = list(chain.from_iterable(result[client].outputs for client in sorted(result)))
        if len(result) > 1:
            place = {r: i for i, r in enumerate(flight.ids)}
            outputs.sort(key=lambda output: place[output.request_id])
        record: Fields = {
            "ev": "update",
            "step": flight.step,
            "ids": self._numbers([output.request_id for output in outputs], flight),
            "tokens": [len(output.new_token_ids) for output in outputs],
        }
        ended = [output for output in outputs if output.finish_reason is not None]
        if ended:
            record["finish"] = [self._finish(output) for output in ended]
            of_id = dict(zip(flight.ids, requests, strict=True))
            for output in ended:
                request = of_id[output.request_id]
                # A session that waits for more input reports an end and goes on.
                if request.is_finished():
                    self._forget(request)
        record["state"] = self._post_state()
        return [*records, record]

    def _output(self, flight: InFlight, requests: list[Any], sampled: Any) -> Fields:
        frames = sampled.sampled_token_ids
        if not frames:
            frames = [()] * len(flight.ids)
        elif sampled.req_ids != flight.ids:
            frames = [frames[sampled.req_id_to_index[r]] for r in flight.ids]
        record: Fields = {
            "ev": "output",
            "step": flight.step,
            "ids": flight.numbers,
            "counts": list(map(len, frames)),
        }
        if not self.end_tokens.isdisjoint(chain.from_iterable(frames)):
            eos, stop = self._ends(requests, frames)
            if eos:
                record["eos"] = eos
            if stop:
                record["stop"] = stop
        if self.caching:
            record["chain"] = self._filled_blocks(flight, requests)
        return record

    def _filled_blocks(self, flight: InFlight, requests: list[Any]) -> list[tuple[int, int]]:
        """Request and chain number of every block that was filled since the step before."""
        filled, of, found = self.filled, self.numbers.of, []
        for r, request in zip(flight.ids, requests, strict=True):
            if request is None:
                continue
            hashes = request.block_hashes
            if len(hashes) != filled[r]:
                new = hashes[filled[r] :]
                filled[r] = len(hashes)
                found += [(of[r], self.chains.extend(r, hash)) for hash in new]
        return found

    def _ends(self, requests: list[Any], frames: Any) -> tuple[list[Any], list[Any]]:
        eos, stop = [], []
        for request, tokens in zip(requests, frames, strict=True):
            parameters = request.sampling_params if request is not None else None
            if parameters is None:
                continue
            number = self.numbers.of[request.request_id]
            for place, token in enumerate(tokens):
                if token == parameters.eos_token_id:
                    eos.append((number, place))
                elif token in (parameters.stop_token_ids or ()):
                    stop.append((number, place))
        return eos, stop

    def _finish(self, output: Any) -> Fields:
        fields: Fields = {
            "id": self.numbers.of[output.request_id],
            "reason": str(output.finish_reason),
        }
        if isinstance(output.stop_reason, int):
            fields["by_stop_id"] = True
        return fields

    def before_abort(self, ids: Iterable[str] | str | None) -> list[int] | None:
        """The numbers of the requests that an abort names."""
        if ids is None:
            return None
        named = (ids,) if isinstance(ids, str) else ids
        return sorted({self.numbers.of[r] for r in named if r in self.numbers.of})

    def abort(self, asked: list[int] | None, status: Any, requests: list[Any]) -> Fields:
        """An ``abort`` record; ``requests`` are those that it ended, in order."""
        aborted = [self.numbers.of[request.request_id] for request in requests]
        for request in requests:
            self._forget(request)
        return {
            "ev": "abort",
            "asked": asked,
            "status": status.name,
            "aborted": aborted,
            "state": self._post_state(),
        }

    def reset(self, reset_running: bool, ok: bool) -> Fields:
        """A ``reset`` record."""
        running: Fields = {"reset_running": True} if reset_running else {}
        return {"ev": "reset", **running, "ok": ok, "state": self._post_state()}

    def state(self) -> Fields:
        """A ``state`` record: everything."""
        scheduler, of = self.scheduler, self.numbers.of
        managers = scheduler.kv_cache_manager.coordinator.single_type_managers
        record: Fields = {
            "ev": "state",
            "step": self.steps,
            "running": [of[r.request_id] for r in scheduler.running],
            "waiting": [
                of[r.request_id] for r in chain(scheduler.skipped_waiting, scheduler.waiting)
            ],
            "requests": [
                {
                    "id": of[r.request_id],
                    "status": r.status.name,
                    "computed": r.num_computed_tokens,
                    "tokens": r.num_tokens,
                    "blocks": [
                        [block.block_id for block in manager.req_to_blocks.get(r.request_id, ())]
                        for manager in managers
                    ],
                }
                for r in scheduler.requests.values()
            ],
            "free_queue": [b.block_id for b in self.pool.free_block_queue.get_all_free_blocks()],
            "ref_cnt": [(b.block_id, b.ref_cnt) for b in self.pool.blocks if b.ref_cnt],
        }
        if self.caching:
            # Four bytes at the end of a block's key name its KV cache group.
            carried = (
                (block.block_id, self.chains.known(bytes(block.block_hash[:-4])))
                for block in self.pool.blocks
                if block.block_hash is not None
            )
            record["chains"] = [pair for pair in carried if pair[1] is not None]
        return record

    def _post_state(self) -> Fields:
        scheduler = self.scheduler
        return {
            "num_free": self.pool.get_num_free_blocks(),
            "num_running": len(scheduler.running),
            "num_waiting": len(scheduler.waiting) + len(scheduler.skipped_waiting),
        }

    def _forget(self, request: Any) -> None:
        id = request.request_id
        self.filled.pop(id, None)
        self.chains.remove(id)
        if self.by_priority and self.first_arrival is not None:
            arrival = float(request.arrival_time - self.first_arrival)
            self.ties.remove((request.priority, arrival), id)
