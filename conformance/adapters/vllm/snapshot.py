"""The ``state`` record: all that decisions depend on, so that a reader can start there."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple

from msgspec import json

from nullblock.conformance.adapters.vllm import drafts, remote, sessions
from nullblock.conformance.adapters.vllm.groups import last_hash
from nullblock.conformance.adapters.vllm.look import Look
from nullblock.conformance.adapters.vllm.observe import Fields, Observer
from nullblock.conformance.adapters.vllm.step import Step
from nullblock.conformance.adapters.vllm.steps import Steps

MAX_LINE = 15 * 2**20
"""Bytes; a reader takes no line of 16 MiB. Pools of a million blocks come near it."""
COUNTS_OF_ANOTHER = "in_flight_of_another"
"""A request whose engine has taken tokens in flight from its count that were of another one, with
an id that was used again: what it counts then is not told."""
GROUP_BYTES = 4
"""At the end of a block's key: the number of its KV cache group."""


def snapshot(observer: Observer, steps: Steps) -> bytes:
    """The line; without the pool where that makes it too long."""
    _settle(observer)
    line = json.encode(state(observer, steps)) + b"\n"
    if len(line) > MAX_LINE:
        small = state(observer, steps)
        for name in ("free_queue", "ref_cnt", "chains", "chain_groups"):
            small.pop(name, None)
        line = json.encode(small) + b"\n"
    return line


def _settle(observer: Observer) -> None:
    """Number what waits to be numbered: what comes after it has later numbers."""
    with observer.backlog.lock:
        observer.backlog.settle()


def adopt(observer: Observer, look: Look) -> None:
    """Learn what an engine in the middle of its work has: its requests and its caches."""
    arrived, observer.arrived = observer.arrived, {}
    for id in sorted(observer.scheduler.finished_req_ids):
        observer.numbers.number(id)  # whoever has the id next may come before that is reported
    for id, request in observer.scheduler.requests.items():
        if request.is_finished():
            observer.numbers.number(id)
            observer.chains.add(id, request.block_hashes if observer.caching else [])
            observer.kept.ids.append(id)
            continue
        observer.add(look.add(request))
        _settle(observer)
        observer.arrived[id] = arrived.get(id, -1)
        if request.resumable:
            sessions.adopt(observer, request)
    for cached in _cached(observer):
        observer.chains.cached(cached.hash)
    if observer.items is not None:
        observer.items.adopt()


def state(observer: Observer, steps: Steps) -> Fields:
    """A ``state`` record."""
    scheduler, of = observer.scheduler, observer.numbers.of
    managers = scheduler.kv_cache_manager.coordinator.single_type_managers
    flying = _flying(observer, steps)
    record: Fields = {
        "ev": "state",
        "step": observer.steps,
        "running": [of[r.request_id] for r in scheduler.running],
        "waiting": [of[r.request_id] for r in chain(*observer.queues)],
        **_skipped(observer),
        "requests": [
            _request(observer, r, managers, flying[r.request_id])
            for r in scheduler.requests.values()
            if r.request_id not in observer.kept.ids
        ],
    }
    if observer.tells_blocks:
        queue = observer.pool.free_block_queue.get_all_free_blocks()
        # Where vLLM counts more than there are, who reads on from here would count fewer.
        if len(queue) == observer.pool.get_num_free_blocks():
            record["free_queue"] = [block.block_id for block in queue]
        _, *blocks = observer.pool.blocks  # nobody keeps the count of the null block
        record["ref_cnt"] = [(b.block_id, b.ref_cnt) for b in blocks if b.ref_cnt]
        if observer.caching:
            record |= _chains(observer)
    if observer.items is not None:
        record["encoder"] = observer.items.cache(observer.numbers)
    if observer.answers is not None:
        told = managers if observer.tells_blocks else None
        record["remote"] = remote.state(scheduler, observer.kept, of, told)
    record["in_flight"] = [_in_flight(observer, step) for step in steps.in_flight.values()]
    record["finished"] = _numbers(of, scheduler.finished_req_ids)
    if not (scheduler.use_v2_model_runner and hasattr(scheduler, "use_eagle_block_drop")):
        # Since 0.32.0 it is kept for the first model runner alone.
        record["previous"] = _numbers(of, scheduler.prev_step_scheduled_req_ids)
    record["pause_state"] = scheduler.pause_state.name
    return record


def _numbers(of: dict[str, int], ids: Iterable[str]) -> list[int]:
    return sorted(of[r] for r in ids if r in of)


def _flying(observer: Observer, steps: Steps) -> Counter[str]:
    """Tokens that each request has in the steps in flight."""
    found: Counter[str] = Counter()
    for step in steps.in_flight.values():
        for id, tokens in zip(step.ids, step.tokens, strict=True):
            if not _has_gone(observer, id, step):
                found[id] += tokens
    return found


def _has_gone(observer: Observer, id: str, step: Step) -> bool:
    """Whether whoever has the id now, if anybody, came after the step was decided."""
    return id not in observer.requests or observer.arrived[id] >= step.number


def _request(observer: Observer, request: Any, managers: Any, flying: int) -> Fields:
    """``flying``: its tokens in flight."""
    id = request.request_id
    fields: Fields = {
        "id": observer.numbers.of[id],
        "status": request.status.name,
        "computed": request.num_computed_tokens,
        "tokens": request.num_tokens,
    }
    if observer.tells_blocks:
        fields["blocks"] = [
            [block.block_id for block in manager.req_to_blocks.get(id, ())] for manager in managers
        ]
    fields |= observer.facts.get(id, {})
    if observer.caching:
        fields["chain"] = observer.chains.runs(id)
    for name, attribute in (
        ("placeholders", "num_output_placeholders"),
        ("discard", "async_tokens_to_discard"),
        ("discard", "num_stale_output_tokens"),  # its name in 0.32.0
        ("preemptions", "num_preemptions"),
    ):
        value = getattr(request, attribute, 0)
        if value:
            fields[name] = value
    if getattr(request, "num_in_flight_tokens", flying) != flying:  # since 0.32.0
        fields["features"] = [*fields.get("features", ()), COUNTS_OF_ANOTHER]
    if request.spec_token_ids:  # somebody may have proposed some that were not configured
        fields["drafts"] = len(request.spec_token_ids)
    if observer.drafts and request.is_prefill_chunk:
        fields["chunk"] = True
    cached = [manager.num_cached_block.get(id) for manager in managers]
    if None not in cached:
        fields["num_cached"] = cached
    before = [getattr(manager, "last_state_block_idx", {}) for manager in managers]
    if any(hasattr(manager, "last_state_block_idx") for manager in managers):
        fields["states_before"] = [places.get(id, -1) + 1 for places in before]
    if request.resumable:
        fields["session"] = sessions.state(observer, request)
    return fields


def _in_flight(observer: Observer, step: Step) -> Fields:
    """A step whose output has not come, and whom it owes a token."""
    owed, gone = [], []
    if step.counts is None:
        step.learn()  # it was decided before recording began
    computed, outputs = step.told_counts()
    owing = observer.talk.owing.get(step.number)
    new = {} if step.seen is None else {new.id: new.owed for new in step.seen.others.new}
    rows = zip(step.ids, step.numbers, step.tokens, computed, outputs, strict=True)
    for id, number, tokens, before, told in rows:
        request = observer.requests.get(id)
        if request is None or _has_gone(observer, id, step):
            gone.append(number)
        elif owing is not None and request.resumable:
            if id in owing:  # its prompt may be longer by now
                owed.append(number)
        elif new.get(id, before + tokens >= request.num_prompt_tokens + told):
            owed.append(number)
    fields: Fields = {"step": step.number, "ids": step.numbers, "tokens": step.tokens}
    if step.drafts is not None:
        fields["drafts"] = drafts.pairs(step)
    if owed:
        fields["owed"] = owed
    if gone:
        fields["gone"] = gone
    return fields


def _skipped(observer: Observer) -> Fields:
    """Who stands in the skipped queue, where somebody does, and where in the heap that it is."""
    queue: Any = ()
    for name in ("skipped_waiting", "kv_holding_waiting"):  # the latter since 0.32.0
        queue = getattr(observer.scheduler, name, queue)
    skipped = [observer.numbers.of[r.request_id] for r in queue]
    fields: Fields = {"skipped": skipped} if skipped else {}
    if observer.sessions and observer.by_priority and len(skipped) > 2:
        fields["heap"] = [observer.numbers.of[r.request_id] for r in queue._heap]
    return fields


def _chains(observer: Observer) -> Fields:
    """What the prefix cache has: the chain number of each block, and its group. What a block is
    known by besides comes last.
    """
    cached = sorted(_cached(observer), key=lambda one: one.is_further)
    fields: Fields = {"chains": [(c.block, observer.chains.cached(c.hash)) for c in cached]}
    groups = [(c.block, c.group) for c in cached if c.group]
    return fields | ({"chain_groups": groups} if groups else {})


class Cached(NamedTuple):
    """A block in the prefix cache, by a key that it is known by."""

    block: int
    hash: bytes
    group: int
    is_further: bool
    """Whether the block has a key of its own besides."""


def _cached(observer: Observer) -> Iterator[Cached]:
    """All that is cached; blocks of one hash and group in the order of caching."""
    if not observer.caching:
        return
    for key, found in observer.pool.cached_block_hash_to_block._cache.items():
        hash, group = bytes(key[:-GROUP_BYTES]), int.from_bytes(key[-GROUP_BYTES:], "big")
        hash = last_hash(hash, observer.hashes[group])
        for block in found.values() if isinstance(found, dict) else (found,):
            yield Cached(block.block_id, hash, group, key != block.block_hash)
