"""Reads what a scheduler is asked into records, as plain values in the order of the format.

Steps have a module of their own; what both know is here.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

from nullblock.conformance.adapters.vllm import groups, items, remote
from nullblock.conformance.adapters.vllm.backlog import Backlog
from nullblock.conformance.adapters.vllm.configuration import events_are_on
from nullblock.conformance.adapters.vllm.filling import Filling
from nullblock.conformance.adapters.vllm.items import ItemNumbers
from nullblock.conformance.adapters.vllm.numbering import (
    AdapterNumbers,
    ChainNumbers,
    RequestNumbers,
    Ties,
)
from nullblock.conformance.adapters.vllm.seen import Arrival, Counts
from nullblock.conformance.adapters.vllm.settings import Settings
from nullblock.conformance.adapters.vllm.talk import Talk

Fields = dict[str, Any]
COUNTS = ("num_free", "num_running", "num_waiting")
WORD = 2**63
"""The format has no numbers from there on, nor below its negative."""


def queues_of(scheduler: Any) -> tuple[Any, ...]:
    """Where requests wait, those that were passed over first; 0.32.0 has other queues."""
    names = ("skipped_waiting", "kv_holding_waiting", "waiting")
    return tuple(getattr(scheduler, name) for name in names if hasattr(scheduler, name))


def limits(request: Any) -> Fields:
    """How long a prompt is, and how long its output may be."""
    parameters = request.sampling_params
    facts: Fields = {"prompt": request.num_prompt_tokens, "max_tokens": request.max_tokens}
    if parameters is not None and parameters.min_tokens:
        facts["min_tokens"] = parameters.min_tokens
    return facts


def clamped(facts: Fields) -> list[str]:
    """Features that say which numbers the format does not have, which are put right."""
    features = []
    for name in ("max_tokens", "min_tokens", "priority"):
        told = facts.get(name, 0)
        if not -WORD <= told < WORD:
            facts[name] = min(max(told, -WORD), WORD - 1)
            features.append(f"{name}_beyond_64_bits")
    return features


class Queued:
    """The ids of those who stand in queues."""

    def __init__(self, queues: Iterable[Iterable[Any]]) -> None:
        self._queues = queues

    def __contains__(self, id: object) -> bool:
        return any(r.request_id == id for queue in self._queues for r in queue)


class Observer:
    """What is known of a scheduler's requests and blocks, in numbers. Memory: those alive."""

    def __init__(self, scheduler: Any, settings: Settings) -> None:
        self.scheduler, self.names = scheduler, settings.names
        self.tells_blocks = "blocks" in settings.observe
        self.tells_counts = "counts" in settings.observe
        self.events = events_are_on(scheduler, settings)
        told = (groups.constants(scheduler) or {}).get("groups", ())
        self.kinds = bool(told)
        """Whether layers are of several kinds, or of one that is not plain."""
        self.zeroes = self.tells_blocks and any("mamba" in group for group in told)
        """Whether it is told which blocks workers zero, beside Mamba layers."""
        self.hashes = groups.hashes_in_blocks(scheduler)
        """How many hashes a block of each group is known by."""
        self.drafts = scheduler.num_spec_tokens > 0
        """Whether there may be drafts."""
        self.pool = scheduler.kv_cache_manager.block_pool
        self.caching = bool(scheduler.kv_cache_manager.enable_caching)
        self.by_priority = scheduler.policy.value == "priority"
        """Of a prompt so long a step computes the last token, where others leave it room."""
        self.numbers = RequestNumbers()
        self.chains = ChainNumbers(scheduler.kv_cache_config.num_blocks, events=self.events)
        self.backlog = Backlog(self.chains, says_who=self.drafts)
        self.ties = Ties()
        self.adapters = AdapterNumbers() if scheduler.lora_config is not None else None
        """Where their number is capped."""
        encodes = items.constants(scheduler) is not None
        self.items = ItemNumbers(scheduler.encoder_cache_manager) if encodes else None
        """Where the model has an encoder."""
        self.asked: items.Asked | None = getattr(scheduler, "_nullblock_items", None)
        """Where it has an encoder connector."""
        self.answers: remote.Answers | None = getattr(scheduler, "_nullblock_connector", None)
        """Where the engine has a KV connector."""
        self.kept = remote.KeptNumbers(scheduler, self._let_go)
        self.awaiting: dict[str, Any] = {}
        """Requests whose grammar was not compiled when they were looked at last."""
        self.filling: dict[str, Filling] = {}
        """Each live request, where chains are recorded."""
        self.facts: dict[str, Fields] = {}
        """Of each live request, what its ``add`` told besides its chain."""
        self.unusual = False
        """Whether some request had a feature: it may have an end that is none."""
        self.grammars = False
        """Whether some request has a grammar, which may refuse drafts."""
        self.sessions = False
        """Whether some request may get more input: that fills blocks, too."""
        self.talk = Talk()
        self.irregular = self.answers is not None
        """Whether it takes a look at each request to know who fills a block, and at once: there
        are sessions, ids return, or running requests were reset with steps in flight, since when
        the engine may give tokens other places than it computed them for. With a KV connector it
        may at any time: loads fail."""
        self.end_tokens: set[int] = set()
        """Every token that ends some request: eos or stop id."""
        self.first_arrival: float | None = None
        queues = queues_of(scheduler)
        self.queues = queues
        self._many = deque.__len__ if all(isinstance(q, deque) for q in queues) else len
        """How many wait in a queue: those of vLLM take their time to say so."""
        self.requests: dict[str, Any] = {}
        """Those alive, by id."""
        self.arrived: dict[str, int] = {}
        """After how many steps each of them came; before recording begins, those that come."""
        self.steps = 0
        """Scheduled so far."""
        self.told: tuple[int, int, int] | None = None
        """The counts that a short form may leave out: those told last, in the same file."""
        self.ids_return = False
        """Whether an id was ever used again while it was remembered."""

    def add(self, arrival: Arrival) -> Fields:
        """An ``add`` record; the request was just taken."""
        request, blocks = arrival.request, arrival.blocks
        id = request.request_id
        self.requests[id], self.arrived[id] = request, self.steps
        record = self.facts[id] = self._facts(request, arrival.features)
        number = self.numbers.number(id)
        record = {"ev": "add", "id": number, **record}
        if self.caching:
            hashes = request.block_hashes
            self.backlog.arrive(record, self.chains.expect(id, hashes, blocks))
            rest = arrival.tokens % self.pool.hash_block_size
            self.filling[id] = Filling(number, request, hashes, blocks, rest)
        return record

    def _facts(self, request: Any, features: list[str]) -> Fields:
        facts = limits(request)
        if request.priority:
            facts["priority"] = request.priority
        features += clamped(facts)
        facts |= self.place(request.request_id, facts, request.arrival_time, features)
        if self.adapters is not None and request.lora_request is not None:
            adapter = request.lora_request.lora_int_id
            facts["adapter"] = self.adapters.add(request.request_id, adapter)
            if adapter is None or adapter < 1:  # which no front end lets pass
                features.append("adapter_below_1")
        if self.items is not None and request.mm_features:
            facts["items"] = self.items.add(request)
        if request.skip_reading_prefix_cache:
            facts["skip_reading_prefix_cache"] = True
        if features:
            facts["features"] = features
            self.unusual = True
        if self.names:
            facts["name"] = request.request_id
        return facts

    def place(self, id: str, facts: Fields, arrival_time: float, features: list[str]) -> Fields:
        """The arrival of a request with these facts, or of a chunk of one, where that counts, and
        its tie.
        """
        if not self.by_priority:
            return {}
        if self.first_arrival is None:
            self.first_arrival = arrival_time
        arrival = float(arrival_time - self.first_arrival)
        tie = self.ties.add((facts.get("priority", 0), arrival), id)
        if tie is None:
            features.append("order_of_equals")
        return {"arrival": arrival} | ({"tie": tie} if tie else {})

    def leave(self, id: str, facts: Fields, places: Iterable[Fields]) -> None:
        """A request with these facts, or a chunk of one, has these places no more."""
        for place in places if self.by_priority else ():
            self.ties.remove((facts.get("priority", 0), place["arrival"]), id)

    def keeps_hashes(self, session: Any) -> int:
        """How many blocks of a session keep their hashes when it takes a chunk. Before 0.32.0 all
        that have one; since then those of which every token is kept.
        """
        many = len(session.block_hashes)
        if not hasattr(self.scheduler, "kv_holding_waiting"):
            return many
        return int(min(many, session.num_computed_tokens // self.pool.hash_block_size))

    def watch(self, parameters: Any) -> None:
        """Somebody samples with these parameters from now on, or later."""
        if parameters is not None:
            if parameters.eos_token_id is not None:
                self.end_tokens.add(parameters.eos_token_id)
            self.end_tokens.update(parameters.stop_token_ids or ())

    def forget(self, request: Any) -> None:
        """A request has ended."""
        id = request.request_id
        self.requests.pop(id, None)
        self.arrived.pop(id, None)
        filling = self.filling.pop(id, None)
        if filling is not None:
            filling.end()
        facts = self.facts.pop(id, None)
        self.awaiting.pop(id, None)
        if self.adapters is not None:
            self.adapters.remove(id)
        if self.items is not None:
            self.items.remove(id)
        if self.answers is None or not self.kept.ended(id):
            self.chains.remove(id)
        if facts is not None and self.by_priority:
            chunks = self.talk.places.get(id, ())
            self.leave(id, facts, [facts, *(chunk.told for chunk in chunks)])
        self.talk.forget(id)

    def _let_go(self, id: str) -> None:
        """The blocks of a request that has ended are kept no longer."""
        self.chains.remove(id)
        self.ended(self.steps, [id])

    def ended(self, step: int, ids: Iterable[str]) -> None:
        """A step reports ends. The engine may be ahead of what is told: who has ended there is
        alive here, and who has ended here may be kept there.
        """
        # Where sessions or a connector are, somebody may be left in a queue who has ended.
        left = Queued(self.queues) if self.sessions or self.answers is not None else ()
        self.numbers.finished(step, ids, self.requests, self.scheduler.requests, left=left)

    def knows_who_waits(self) -> bool:
        """Whether each that stands in a queue is alive or kept: who has ended, and is left there
        as vllm-0.22.1 may leave it, has no number in a recording that begins now.
        """
        live = self.scheduler.requests
        return all(r.request_id in live for queue in self.queues for r in queue)

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
            self.forget(request)
        record = {"ev": "abort", "asked": asked, "status": status.name, "aborted": aborted}
        return self.with_counts(record)

    def with_abort(self) -> list[Fields]:
        """What stands right before an ``abort``: what the connector said of those who ended."""
        told = None if self.answers is None else self.answers.with_abort()
        return [] if told is None else [remote.transfers(told, self.numbers.of)]

    def with_call(self, sampled: Any) -> list[Fields]:
        """What stands right before a call that raised: what the connector answered in it so far;
        what workers reported with ``sampled``, an output.
        """
        if self.answers is None:
            return []
        of, asked = self.numbers.of, self.answers.take()
        if asked:
            return [remote.matched(asked, of, blocks=self.tells_blocks)]
        told = None if sampled is None else self.answers.with_output(sampled, ())
        return [] if told is None else [remote.transfers(told, of)]

    def reset(self, running: bool, ok: Any) -> Fields:
        """A ``reset`` record."""
        record: Fields = {"ev": "reset"}
        if running:
            record["reset_running"] = True
        record["ok"] = bool(ok)
        return self.with_counts(record)

    def evict(self, blocks: Iterable[int]) -> Fields:
        """An ``evict`` record. Where blocks are not told its list is empty, and says nothing."""
        return {"ev": "evict", "blocks": list(blocks) if self.tells_blocks else []}

    def counts(self) -> Counts | None:
        """What is cheap to know of the state now; None where it is not to be told."""
        if not self.tells_counts:
            return None
        waiting = sum(map(self._many, self.queues))
        return Counts(self.pool.get_num_free_blocks(), len(self.scheduler.running), waiting)

    def with_counts(self, record: Fields) -> Fields:
        """The record with what is cheap to know of the state now."""
        return self.tell(record, self.counts(), short=False)

    def tell(self, record: Fields, counts: Counts | None, *, short: bool) -> Fields:
        """The record with what was counted after it; ``short``: what is not as told last."""
        if counts is not None:
            each, told = counts.each(), self.told
            if not short or told is None:
                record["state"] = dict(zip(COUNTS, each, strict=True))
            elif each != told:
                if each[1:] == told[1:]:
                    record["state"] = {"num_free": each[0]}
                else:
                    pairs = zip(COUNTS, each, told, strict=True)
                    record["state"] = {name: now for name, now, before in pairs if now != before}
            self.told = each
        return record
