"""Encoder inputs in a replay: what a trace tells of them, compared with what the rules say."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from msgspec import UNSET

from nullblock.conformance.checker.decisions import Mismatch
from nullblock.conformance.checker.unknown import NotRecorded
from nullblock.conformance.encoder_format import MOST_ITEMS
from nullblock.conformance.trace.errors import Malformed
from nullblock.conformance.trace.records import (
    Add,
    Chunk,
    EncoderCache,
    Item,
    RequestState,
    Schedule,
    State,
)
from nullblock.conformance.trace.sessions import QueuedChunk
from nullblock.conformance.unruled import follows_many_items, follows_odd_items
from nullblock.spec import facts
from nullblock.spec.encoder import is_in_cache
from nullblock.spec.machine.output import SchedulerOutput
from nullblock.spec.state import live

ITEMS = "multimodal"
"""The feature of a request with encoder inputs."""


LONGEST = 2**24
"""Tokens of an item of which it is told token by token which stand for an embedding."""


def items(told: Sequence[Item]) -> tuple[facts.Item, ...]:
    """The encoder inputs of a request, as the rules know them."""
    return tuple(facts.Item(q.item, q.offset, q.length, _mask(q)) for q in told)


def _mask(item: Item) -> tuple[bool, ...] | None:
    if item.is_embed is None:
        return None
    end = max((first + many for first, many in item.is_embed), default=0)
    if end > item.length or item.length > LONGEST:
        what = f"is_embed of item {item.item} ends at {end}, and its length is {item.length}"
        raise Malformed(what, f"it ends within the length, which is at most {LONGEST}")
    stands = {place for first, many in item.is_embed for place in range(first, first + many)}
    return tuple(place in stands for place in range(item.length))


def unknown(s: Any, request: Add | RequestState, sizes: dict[int, int]) -> Iterator[str]:
    """Why a request with its encoder inputs cannot be judged. ``sizes``: of items that are known,
    which this adds to.
    """
    told = request.items
    if bool(told) != (ITEMS in request.features) or (told and not s.k.encodes):
        yield "the encoder inputs"
    if not told:
        return
    if len(told) > MOST_ITEMS and not follows_many_items(s.k.sem):
        yield f"the order in which it lets go of so many encoder inputs ({len(told)}),"
    if not follows_odd_items(s.k.sem):
        yield from _odd(s.k, items(told), sizes)


def _odd(k: Any, told: Sequence[facts.Item], sizes: dict[int, int]) -> Iterator[str]:
    """What of encoder inputs no front end makes. ``sizes``: of items that are known, which this
    adds to.
    """
    end = 0
    for item in told:
        if k.encoder_decoder:
            yield from _before_prompt(item)
        elif item.start < end:
            yield "encoder inputs that overlap, or are not in order,"
            return
        end, size = item.end, item.embedded(item.end)
        if sizes.setdefault(item.number, size) != size:
            yield f"an encoder input of two sizes ({item.number}),"


def unknown_of_chunk(k: Any, chunk: Chunk | QueuedChunk, sizes: dict[int, int]) -> Iterator[str]:
    """The same of a later chunk of a session."""
    told = chunk.items
    if bool(told) != (ITEMS in chunk.features) or (told and not k.encodes):
        yield "the encoder inputs of a later chunk"
    elif told and k.encoder_decoder:
        yield "a later chunk with encoder inputs of an encoder-decoder model"
    elif not follows_odd_items(k.sem):
        yield from _odd(k, items(told), sizes)


def extended(k: Any, r: int, later: tuple[facts.Item, ...], kept: int) -> tuple[facts.Item, ...]:
    """The items of a session once a chunk stands behind the tokens that it keeps. Raises
    NotRecorded where there are more than a request may have, or some stand where the chunk does.
    """
    before: tuple[facts.Item, ...] = k.requests[r].items
    if len(before) + len(later) > MOST_ITEMS and not follows_many_items(k.sem):
        what = f"so many encoder inputs ({len(before) + len(later)}), of request {r}"
        raise NotRecorded(f"the order in which it lets go of {what}")
    if later and before and before[-1].end > kept and not follows_odd_items(k.sem):
        raise NotRecorded(f"encoder inputs that overlap, or are not in order, of request {r}")
    return before + tuple(replace(item, start=item.start + kept) for item in later)


def _before_prompt(item: facts.Item) -> Iterator[str]:
    """Why an item of an encoder-decoder model, of whose tokens the prompt has none, is not one."""
    if item.start or not item.length or item.is_embed is not None:
        yield "an encoder-decoder model's input that is not whole, or not at the beginning,"


def learn(k: Any, seen: Schedule) -> None:
    """Know what an encoder connector answers in a step. Raises NotRecorded."""
    if not (seen.item_answers or seen.connector_items):
        return
    if not k.loads_items:
        raise NotRecorded("an encoder connector that nobody configured")
    told: dict[int, bool] = {}
    for n, has in seen.item_answers:
        if told.setdefault(n, has) != has:
            raise NotRecorded(
                f"which of its answers about item {n} an encoder connector gave when"
            )
        (k.held.add if has else k.held.discard)(n)


def at_connector(s: Any) -> list[int]:
    """Of what is kept, or a live request has, the items that an encoder connector has."""
    known = {item.number for r, q in s.k.requests.items() if live(s, r) for item in q.items}
    known |= {n for n in s.kept if is_in_cache(s, n)} | {s.gone[i] for i in range(s.ngone)}
    return sorted(s.k.held & known)


def schedule(out: SchedulerOutput, seen: Schedule) -> Iterator[Mismatch]:
    """What a step computes, and what workers forget before it."""
    for rule, what, ours, theirs in (
        ("OUT-14", "the encoder inputs to compute", out.encoder_inputs, seen.encoder_inputs),
        ("OUT-15", "the items that are evicted", out.evicted_items, seen.evicted_items),
        ("OUT-21", "the items that have room", out.connector_items, seen.connector_items),
    ):
        if list(ours) != theirs:
            yield Mismatch(rule, what, list(ours), theirs)


def alike(out: SchedulerOutput, seen: Schedule) -> bool:
    """Whether these are plainly the rules' own."""
    theirs = seen.encoder_inputs or seen.evicted_items or seen.connector_items
    if not (theirs or out.encoder_inputs or out.evicted_items or out.connector_items):
        return True
    return not list(schedule(out, seen))


def state(s: Any, seen: State) -> Iterator[Mismatch]:
    """The encoder cache in a whole state."""
    told = seen.encoder
    if not isinstance(told, EncoderCache) or not s.k.encodes:
        return
    if s.k.loads_items and (had := at_connector(s)) != told.at_connector:
        raise Malformed(
            f"an encoder connector that has items {told.at_connector}, which had {had} before",
            "record it again: a recorder writes what happens, in its order",
        )
    if s.k.encoder_decoder:
        yield from _next_to_forget(s, told)
        return
    _check_whole(told)
    kept = sorted(n for n, size in s.kept.items() if size)
    for rule, what, ours, theirs in (
        ("ENC-12", "the items that are kept", kept, [n for n, _ in told.cached]),
        ("ENC-14", "who refers to them", [(n, sorted(s.users[n])) for n in kept], told.cached),
        ("ENC-9", "what is evicted next", [(n, s.kept[n]) for n in s.unused], told.freeable),
        ("ENC-12", "the free slots of the encoder cache", s.eroom, told.num_free_slots),
        ("ENC-14", "what could be freed of it", s.efree, told.num_freeable_slots),
    ):
        if ours != theirs:
            yield Mismatch(rule, what, ours, theirs)


def _check_whole(told: EncoderCache) -> None:
    """Raise Malformed where an encoder cache that keeps something does not say how much."""
    if told.num_freeable_slots is UNSET:
        what = "an encoder cache without `num_freeable_slots`"
        raise Malformed(what, "leave it out of an encoder-decoder model alone")


def _next_to_forget(s: Any, told: EncoderCache) -> Iterator[Mismatch]:
    """The same of an encoder-decoder model, which keeps nothing."""
    for rule, what, ours, theirs in (
        ("ENC-52", "what is to be forgotten", [s.gone[i] for i in range(s.ngone)], told.to_forget),
        ("ENC-54", "the free slots of the encoder cache", s.eroom, told.num_free_slots),
        ("ENC-52", "the items that are kept", [], [n for n, _ in told.cached + told.freeable]),
    ):
        if ours != theirs:
            yield Mismatch(rule, what, ours, theirs)


def restore(s: Any, told: EncoderCache) -> None:
    """Put the encoder cache that a state tells of into one that has the requests already. Raises
    NotRecorded for what it does not tell.
    """
    s.k.held = set(told.at_connector)
    if s.k.encoder_decoder:
        s.eroom = s.efree = told.num_free_slots
        for place, n in enumerate(told.to_forget):
            s.gone[place] = n
        s.ngone = len(told.to_forget)
        return
    _check_whole(told)
    sizes = sizes_of(s.k.requests.values()) | dict(told.freeable)
    for n, users in told.cached:
        s.kept[n] = sizes.get(n, 0)
        s.users[n] = set(users)
        for r in users if s.k.sem.items_held_by_place else ():
            _hold(s, r, n)
    for n, _ in told.freeable:
        s.unused[n] = s.uback
        s.uback += 1
    s.eroom, s.efree = told.num_free_slots, told.num_freeable_slots


def _hold(s: Any, r: int, n: int) -> None:
    """r refers to item n for the sake of its place. Raises NotRecorded where it has several."""
    places = [i for i in range(s.k.num_items(r)) if s.k.item(r, i) == n]
    if len(places) > 1:
        raise NotRecorded(f"at which of its places request {r} refers to item {n}")
    for i in places:
        s.holds[r, i] = 1


def contradictions(s: Any, told: EncoderCache) -> Iterator[Mismatch]:
    """What a recorded state says that no encoder cache can be. Raises NotRecorded where its slots
    do not add up: inputs that have two sizes, of which nothing is judged, come to that.
    """
    if s.k.encoder_decoder:
        yield from _next_to_forget(s, told)
        return
    used = sum(size for n, size in s.kept.items() if s.users[n])
    unused = sum(size for n, size in s.kept.items() if not s.users[n])
    slots = s.k.encoder_slots
    ours, theirs = (slots - used - unused, slots - used), (s.eroom, s.efree)
    if ours != theirs:
        raise NotRecorded(
            f"whether an encoder input had two sizes before: of {slots} slots {theirs[0]} are "
            f"counted as free, {theirs[1]} with those that could be; by its items {ours[0]} and "
            f"{ours[1]} are (ENC-22)"
        )
    idle = sorted(n for n in s.kept if not s.users[n])
    if idle != (counted := sorted(n for n, _ in told.freeable)):
        yield Mismatch("ENC-21", "the items that nobody refers to", idle, counted)


def forget(s: Any, evicted: Sequence[int]) -> None:
    """Drop everything about evicted items that are gone for good."""
    for n in evicted:
        if not s.kept[n]:
            s.kept.pop(n, None)
            s.users.pop(n, None)
    if s.k.held:
        s.k.held.intersection_update(at_connector(s))


def known_sizes(s: Any) -> dict[int, int]:
    """The embeddings of each item that a live request has, a chunk that is not taken, or that is
    kept; nothing where nobody asks for them.
    """
    if follows_odd_items(s.k.sem):
        return {}
    kept = {n: size for n, size in s.kept.items() if size}
    return sizes_of(s.k.requests.values()) | sizes_of(s.k.talk.waiting()) | kept


def told_sizes(seen: State) -> dict[int, int]:
    """The embeddings of each item that a request in a state has."""
    return {i.number: i.embedded(i.end) for q in seen.requests for i in items(q.items)}


def sizes_of(requests: Any) -> dict[int, int]:
    """The embeddings of each item that some requests, or chunks, have."""
    return {i.number: i.embedded(i.end) for q in requests for i in q.items}
