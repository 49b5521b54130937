"""Streaming sessions in a replay: what a trace tells of them, compared with what the rules say."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from msgspec import UNSET, UnsetType

from nullblock.conformance.checker import items
from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.checker.unknown import NotRecorded
from nullblock.conformance.repetition import FEATURE
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.records import (
    Chunk,
    RequestState,
    SessionEnd,
    Taken,
    TraceConfig,
    Turn,
)
from nullblock.conformance.trace.sessions import RESUMABLE, QueuedChunk, SessionState
from nullblock.conformance.unruled import moves_past_others, stops_again
from nullblock.spec import facts
from nullblock.spec.fields import INPUT, STOPPED_BY_ID, WAITING
from nullblock.spec.machine import sessions
from nullblock.spec.names import BLOCKED
from nullblock.spec.profiles import Semantics
from nullblock.spec.rejection import why_refused
from nullblock.spec.sessions import (
    awaits_input,
    is_lost,
    kept,
    max_tokens,
    may_stand_twice,
    num_output,
    prompt,
)
from nullblock.spec.state import live
from nullblock.spec.turns import can_take, is_refused
from nullblock.spec.waiting import is_heap, is_skipped

_RECORDER = "record it again: a recorder writes what happens, in its order"
AWAITS_INPUT = BLOCKED[INPUT]
"""The status of a session that waits for a chunk."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A chunk."""

    length: int
    max_tokens: int
    min_tokens: int
    arrival: float = 0.0
    """As of an arrival; 0 where only the order of arrivals counts."""
    tie: float = 0.0
    detects: bool = False
    """Whether it wants repetitions detected."""
    items: tuple[facts.Item, ...] = ()
    """Its encoder inputs, by their places in it."""


class Talk:
    """What sessions were sent, and what they take, by number. Memory: what is not taken."""

    def __init__(self) -> None:
        self.sent: dict[int, dict[int, Sent]] = {}
        """Of each session, by place from 1: its chunks, from the one that it took last on."""
        self.told: dict[int, Taken | None] = {}
        """What the trace tells that sessions take now."""
        self.heap_is_known = True
        """Whether it is known where in the skipped queue, as a heap, those stand who do."""
        self.by_stop_id: set[int] = set()
        """Sessions of which an earlier turn has ended with a stop id: all later ends say so."""

    def forget(self, r: int) -> None:
        """A request is gone."""
        self.sent.pop(r, None)
        self.by_stop_id.discard(r)

    def clear(self) -> None:
        """Nothing is known any more."""
        self.heap_is_known = True
        self.sent.clear()
        self.told.clear()
        self.by_stop_id.clear()

    def send(self, r: int, place: int, chunk: Chunk | QueuedChunk) -> None:
        """A chunk arrives."""
        self.sent.setdefault(r, {})[place] = _sent(chunk)

    def waiting(self) -> Iterator[Sent]:
        """All chunks that are not taken, and some that are."""
        return (chunk for sent in self.sent.values() for chunk in sent.values())

    def take(self, r: int, n: int) -> tuple[Taken | None, Sent]:
        """Session r takes its n-th chunk: what the trace tells of that, and the chunk."""
        self.sent[r].pop(n - 1, None)
        return self.told.get(r), self.sent[r][n]


def _sent(chunk: Chunk | QueuedChunk) -> Sent:
    arrival = 0.0 if chunk.arrival is UNSET else float(chunk.arrival)
    tie = 0.0 if chunk.tie is UNSET else chunk.tie
    told = chunk.prompt, chunk.max_tokens, chunk.min_tokens, arrival, tie
    return Sent(*told, FEATURE in chunk.features, items.items(chunk.items))


def _others(chunk: Chunk | QueuedChunk) -> list[str]:
    """The features of a later chunk with which it is not judged."""
    return [feature for feature in chunk.features if feature not in (FEATURE, items.ITEMS)]


def why_not(config: TraceConfig, semantics: Semantics) -> str | None:
    """Why sessions cannot be judged beside these; None if they can."""
    if config.connector is not UNSET and not config.is_plain:
        return "a session with layers of which some see a part of the past, beside a KV connector,"
    if semantics.freed_unhashed_first and not semantics.resumes_await_output:
        return "a session with freed_unhashed_first"
    return None


def unknown(k: Any, chunk: Chunk | QueuedChunk, sizes: dict[int, int]) -> Iterator[str]:
    """Why a later chunk cannot be judged. ``sizes``: of known items; this adds to them."""
    yield from items.unknown_of_chunk(k, chunk, sizes)
    for feature in _others(chunk):
        yield f"the feature {feature} of a later chunk"
    if k.priority and chunk.arrival is UNSET:
        yield "the arrival time of a later chunk, under the PRIORITY policy,"


def unknown_stop(s: Any, r: int) -> str | None:
    """What is not known where a request stops. None: nothing."""
    if s.k.resumable(r) and stops_again(s, r):
        return f"how session {r} goes on, which stops again while it waits for its turn"
    goes_by = may_stand_twice(s) or s.k.sem.stops_leave_every_queue
    if not goes_by and s.k.resumable(r) and is_skipped(s, r):
        return f"how session {r} goes on, which stops while it stands in the skipped queue"
    return None


def refused_next(s: Any, r: int, why: Any) -> str | None:
    """Why a session ends where it stops, for the chunk that it would take; None: it does not."""
    return _why_refused(s, r) if s.k.sessions and is_refused(s, r, why) else None


def _why_refused(s: Any, r: int) -> str:
    k, n = s.k, s.turns[r] + 1
    limit = k.chunk_limit(r, n if k.sem.chunks_bring_limits else 0)
    why = why_refused(k.config, kept(s, r), k.chunk_len(r, n), limit, k.encoder_tokens(r))
    assert why is not None, "a refusal has a reason"
    return why


def take(k: Any, s: Any, record: Chunk | SessionEnd) -> Iterator[Mismatch]:
    """A chunk, or the end, arrives. Raises NotRecorded for one that cannot be judged."""
    if isinstance(record, SessionEnd):
        return take_end(k, s, record)
    sizes = items.known_sizes(s) if record.items else {}
    if missing := tuple(unknown(k, record, sizes)):
        raise NotRecorded(*(f"{why} of request {record.id}" for why in missing))
    return take_chunk(k, s, record)


def take_chunk(k: Any, s: Any, record: Chunk) -> Iterator[Mismatch]:
    """A chunk arrives. Raises Malformed for one of a request that is no session."""
    r = record.id
    _check(k, s, r, "a chunk for")
    waits = bool(awaits_input(s, r))
    if not s.ended[r]:
        k.talk.send(r, s.sent[r] + 1, record)
        if waits and not can_take(s, r):
            waits = False
            k.refused.append((r, _why_refused(s, r)))
        if waits:
            _check_place(k, s, r)
    k.talk.told = {r: record.taken}
    sessions.send(s, r)
    k.talk.told = {}
    ours = s.ntok[r] if waits else None
    yield from _taken(s, r, ours, record.taken, "SESS-13")


def _check_place(k: Any, s: Any, r: int) -> None:
    """Raise NotRecorded where a chunk that is taken at once moves its session past others, and no
    rule says what becomes of it, or it is not known where they stand.
    """
    sent = k.talk.sent[r][s.sent[r] + 1]
    after = (k.requests[r].priority, sent.arrival, (sent.tie, r))
    k.talk.heap_is_known |= len(s.heap) <= 1
    if moves_past_others(s, r, after, k.talk.heap_is_known):
        what = f"a chunk of request {r} that moves it past others in the skipped queue"
        raise NotRecorded(f"what becomes of {what}, under the PRIORITY policy")


def take_end(k: Any, s: Any, record: SessionEnd) -> Iterator[Mismatch]:
    """No more chunks come. Raises Malformed for a request that is no session."""
    r = record.id
    _check(k, s, r, "the end of")
    sessions.end(s, r)
    ended = not live(s, r)
    if ended != record.ended:
        what = f"whether session {r} ends at once"
        yield Mismatch("SESS-12", what, ended, record.ended, r)


def _check(k: Any, s: Any, r: int, what: str) -> None:
    if r not in k.requests or not live(s, r) or not k.resumable(r):
        raise Malformed(f"{what} request {r}, which is no session that is alive", _RECORDER)


def turns(k: Any, s: Any, told: Sequence[Turn]) -> Iterator[Mismatch]:
    """Which sessions that stopped in an update go on, and what they take."""
    if not k.sessions and not told:
        return
    ours = {r: _has_now(s, r) for r, _ in k.ends if live(s, r)}
    if list(ours) != [turn.id for turn in told]:
        theirs = [turn.id for turn in told]
        yield Mismatch("SESS-6", "which sessions go on", list(ours), theirs)
    for turn in told:
        yield from _taken(s, turn.id, ours[turn.id], turn.taken, "SESS-6")


def remember(k: Any, s: Any) -> None:
    """An update is over: which of the sessions that go on have ended a turn with a stop id."""
    for r, why in k.ends if k.sessions else ():
        if why == STOPPED_BY_ID and live(s, r):
            k.talk.by_stop_id.add(r)


def _has_now(s: Any, r: int) -> int | None:
    """The tokens of a session that has taken a chunk; None where it waits for one."""
    return None if awaits_input(s, r) else int(s.ntok[r])


def _taken(s: Any, r: int, ours: int | None, told: Taken | None, rule: str) -> Iterator[Mismatch]:
    """What a session takes. Raises Malformed for more content than it has."""
    theirs = None if told is None else told.tokens
    if (ours is None) != (theirs is None):
        what = f"whether session {r} takes a chunk"
        yield Mismatch(rule, what, ours is not None, theirs is not None, r)
    elif ours != theirs:
        yield Mismatch("SESS-3", f"the tokens of session {r} with its chunk", ours, theirs, r)
    if told is None or isinstance(told.chain, UnsetType) or not told.chain:
        return
    if s.k.chains[r].length * s.k.block_size > s.ntok[r]:
        what = f"a block of session {r} that its tokens do not fill"
        raise Malformed(what, "record it again: one chain number for each full block")


def of_request(s: Any, seen: RequestState) -> Iterator[tuple[str, str, Any, Any]]:
    """What a state tells of a session: rule, what, ours, theirs."""
    r, told = seen.id, seen.session
    if not s.k.sessions or not s.k.resumable(r):
        return
    yield "SESS-1", "prompt", prompt(s, r), seen.prompt
    limit = 0 if isinstance(seen.max_tokens, UnsetType) else seen.max_tokens  # 0 is none
    yield "SESS-2", "limit", max_tokens(s, r), limit
    if isinstance(told, UnsetType):
        return
    waiting = [s.k.talk.sent[r][n] for n in range(s.turns[r] + 1, s.sent[r] + 1)]
    yield "SESS-11", "waiting chunks", _shown(waiting), _shown(map(_sent, told.chunks))
    brought = [items.ITEMS for chunk in waiting if chunk.items]
    features = [name for chunk in told.chunks for name in chunk.features if name != FEATURE]
    yield "SESS-11", "features of waiting chunks", brought, features
    yield "SESS-12", "end", bool(s.ended[r]), told.ended
    yield "SESS-1", "lost tokens", prompt(s, r) + num_output(s, r) - s.ntok[r], told.lost
    yield "UPD-4", "stop id of an earlier turn", r in s.k.talk.by_stop_id, told.by_stop_id


def _shown(chunks: Iterable[Sent]) -> list[dict[str, Any]]:
    """Chunks as a verdict shows them, in whatever form."""
    return [asdict(chunk) for chunk in chunks]


def restore(s: Any, requests: Sequence[RequestState]) -> None:
    """Put what a state tells of sessions into one that has their requests already."""
    if not s.k.sessions:
        return
    talk = s.k.talk
    for q in requests:
        r, told = q.id, q.session
        if not isinstance(told, SessionState):
            continue
        s.k.requests[r] = replace(s.k.requests[r], resumable=True)
        for place, chunk in enumerate(told.chunks, start=1):
            talk.send(r, place, chunk)
        s.sent[r], s.ended[r], s.lost[r] = len(told.chunks), int(told.ended), told.lost
        if told.by_stop_id:
            talk.by_stop_id.add(r)
        if q.status == AWAITS_INPUT:
            s.stage[r], s.awaits[r] = WAITING, INPUT


def restore_heap(s: Any, skipped: Sequence[int], told: Sequence[int] | UnsetType) -> None:
    """Put those who stand in the skipped queue, told as vLLM takes them out one after the other,
    into the heap that it is: where more than two do, that does not tell their places.

    Args:
        told: those by their places, if these are told.

    Raises NotRecorded where they are out of order, and their places are not told.
    """
    if not is_heap(s):
        return
    if may_stand_twice(s):
        s.queue = s.k.blank("queue")
        for r in sorted((r for r in s.rank if not is_skipped(s, r)), key=s.k.order):
            s.k.put_last(s.queue, s, r)
    s.k.talk.heap_is_known = told is not UNSET or len(skipped) <= 2
    places = skipped if isinstance(told, UnsetType) else told
    if not s.k.talk.heap_is_known and list(places) != sorted(places, key=s.k.order):
        raise NotRecorded("where in the skipped queue, which is out of order, those stand who do")
    for r in places:
        s.k.put_last(s.heap, s, r)


def heap(s: Any, told: Sequence[int] | UnsetType) -> Iterator[Mismatch]:
    """Where those stand in the skipped queue, as a heap, who do. What was not known is from now
    on.
    """
    if isinstance(told, UnsetType) or not is_heap(s):
        return
    ours = [s.heap[i] for i in range(len(s.heap))]
    if not s.k.talk.heap_is_known and sorted(ours) == sorted(told):
        s.heap = s.k.blank("heap")
        restore_heap(s, told, told)
    elif ours != list(told):
        yield Mismatch("WAIT-53", "where those stand in the heap who wait", ours, list(told))


def missing(k: Any, q: RequestState, sizes: dict[int, int]) -> Iterator[str]:
    """What a state leaves out of a session, so that judging cannot begin there. ``sizes``: as of
    `unknown`.
    """
    told = q.session
    if (RESUMABLE in q.features) != (told is not UNSET):
        yield f"the chunks of session {q.id}"
    if isinstance(told, SessionState):
        for chunk in told.chunks:
            yield from (f"{why} of session {q.id}" for why in unknown(k, chunk, sizes))


def cut_drafts(s: Any, r: int) -> int:
    """How many drafts behind the end of its last turn may count as computed of a session, as
    vllm-0.22.1 counts them.
    """
    if s.k.sem.late_outputs_dropped or not s.k.resumable(r):
        return 0
    return int(s.k.num_spec)


def in_no_queue(s: Any, r: int) -> bool:
    """Whether a request may wait and stand in no queue."""
    return bool(s.k.sessions and s.k.resumable(r) and is_lost(s, r))
