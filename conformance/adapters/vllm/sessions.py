"""Streaming sessions in a recording: what they are sent, and what they take of it.

Nothing in here is called while no request is a session.
"""

from collections import deque
from typing import Any

from nullblock.conformance.adapters.vllm.configuration import request_features
from nullblock.conformance.adapters.vllm.numbering import runs
from nullblock.conformance.adapters.vllm.observe import Fields, Observer, clamped, limits
from nullblock.conformance.adapters.vllm.talk import NOWHERE, Place

OF_A_CHUNK = ("pooling", "multimodal", "prompt_embeds", "repetition_detection")
"""Features that a chunk brings into its session; the engine looks at no others of a chunk's."""


def sent(observer: Observer, chunk: Any, session: Any) -> Fields:
    """A ``chunk`` or ``session_end`` record: what arrived for a session."""
    id = chunk.request_id
    number = observer.numbers.of[id]
    if not chunk.resumable:
        ended = bool(session.is_finished())
        if ended:
            observer.forget(session)
        return {"ev": "session_end", "id": number} | ({"ended": True} if ended else {})
    record: Fields = {"ev": "chunk", "id": number, **_arrived(observer, chunk)}
    now = taken(observer, id)
    # With what it takes a session has the items where they stand in all that it has.
    before = 0 if now is None else now["tokens"] - record["prompt"]
    record |= _items(observer, id, chunk.mm_features, before)
    return record | ({} if now is None else {"taken": now})


def _items(observer: Observer, id: str, features: Any, before: int) -> Fields:
    """The encoder inputs of a chunk, which stand behind so many tokens already."""
    if observer.items is None or not features:
        return {}
    return {"items": observer.items.of_chunk(id, features, before)}


def _arrived(observer: Observer, chunk: Any) -> Fields:
    """What is told of a chunk that arrives."""
    facts = limits(chunk)
    features = [name for name in request_features(chunk) if name in OF_A_CHUNK]
    return _with(facts, features, _placed(observer, chunk.request_id, chunk))


def _placed(observer: Observer, id: str, chunk: Any) -> Place:
    """The place of a chunk, which is kept until it is taken."""
    if not observer.by_priority:
        return NOWHERE
    features: list[str] = []
    told = observer.place(id, observer.facts[id], chunk.arrival_time, features)
    place = Place(told, features)
    observer.talk.places.setdefault(id, deque()).append(place)
    return place


def _queued(observer: Observer, id: str, update: Any, place: Place) -> Fields:
    """The same of one in the queue of its session."""
    parameters = update.sampling_params
    facts: Fields = {
        "prompt": len(update.prompt_token_ids or ()),
        "max_tokens": update.max_tokens,
    }
    if parameters is not None and parameters.min_tokens:
        facts["min_tokens"] = parameters.min_tokens
    brings = (
        parameters is None,
        bool(update.mm_features),
        update.prompt_token_ids is None,
        getattr(parameters, "repetition_detection", None) is not None,
    )
    told = _with(facts, [n for n, yes in zip(OF_A_CHUNK, brings, strict=True) if yes], place)
    return told | _items(observer, id, update.mm_features, 0)


def _with(facts: Fields, features: list[str], place: Place) -> Fields:
    features = features + clamped(facts) + place.features
    return facts | place.told | ({"features": features} if features else {})


def taken(observer: Observer, id: str) -> Fields | None:
    """What a session has taken, and what follows for what is known of it; None: nothing."""
    found = observer.talk.taken.pop(id, None)
    if found is None:
        return None
    request, facts = found.request, observer.facts[id]
    gone = ["prompt", "max_tokens", "min_tokens"]
    now = limits(request)
    clamped(now)
    if places := observer.talk.places.get(id):
        observer.leave(id, facts, [facts])
        now |= places.popleft().told
        gone += ["arrival", "tie"]
    observer.facts[id] = facts = now | {n: v for n, v in facts.items() if n not in gone}
    _brought(observer, request, facts)
    told: Fields = {"tokens": found.tokens}
    filling = observer.filling.get(id)
    if filling is not None:
        hashes = request.block_hashes[found.first : found.full]
        observer.backlog.settle()
        observer.chains.changed(id, found.first)
        told["chain"] = runs(observer.chains.each(hashes))
        filling.known = found.full
    return told


def _brought(observer: Observer, request: Any, facts: Fields) -> None:
    """A session has taken a chunk: what is known of it has what that brought along."""
    if observer.items is not None and request.mm_features:
        facts["items"] = observer.items.add(request)
    known = facts.get("features", [])
    found = [n for n in request_features(request) if n in OF_A_CHUNK and n not in known]
    if found:
        facts["features"] = known + found


def turns(observer: Observer, ended: list[Any]) -> list[Fields]:
    """Of the outputs that say so, sessions that have not ended, and what each has taken."""
    found = []
    for output in ended:
        request = observer.requests.get(output.request_id)
        if request is not None and not request.is_finished():
            id = output.request_id
            observer.talk.held[id] = held(observer, id)
            now = taken(observer, id)
            told = {} if now is None else {"taken": now}
            found.append({"id": observer.numbers.of[id], **told})
    observer.talk.taken.clear()
    return found


def adopt(observer: Observer, request: Any) -> None:
    """A session that was there when recording began."""
    for chunk in request.streaming_queue or ():
        if chunk is not None:
            observer.watch(chunk.sampling_params)
            _placed(observer, request.request_id, chunk)
    observer.talk.held[request.request_id] = held(observer, request.request_id)


def held(observer: Observer, id: str) -> int:
    """The blocks in the tables of a request."""
    coordinator = observer.scheduler.kv_cache_manager.coordinator
    managers = coordinator.single_type_managers
    return sum(len(manager.req_to_blocks.get(id, ())) for manager in managers)


def state(observer: Observer, request: Any) -> Fields:
    """What a ``state`` record tells of a session besides."""
    fields: Fields = {}
    queue = list(request.streaming_queue or ())
    ended = None in queue
    chunks = queue[: queue.index(None)] if ended else queue
    if chunks:
        id = request.request_id
        places: Any = observer.talk.places.get(id) or [NOWHERE] * len(chunks)
        fields["chunks"] = [
            _queued(observer, id, *one) for one in zip(chunks, places, strict=False)
        ]
    if ended:
        fields["ended"] = True
    lost = request.num_prompt_tokens + request.num_output_tokens - request.num_tokens
    if lost:
        fields["lost"] = lost
    if isinstance(request.stop_reason, int):
        fields["by_stop_id"] = True
    return fields
