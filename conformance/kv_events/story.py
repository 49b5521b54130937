"""What a person who is called at night needs to know about a violation."""

from nullblock.conformance.kv_events.publisher import Publisher
from nullblock.conformance.kv_events.verdict import First
from nullblock.conformance.kv_events.wire import plain
from nullblock.spec.catalogue import catalogue
from nullblock.spec.kv_events import Breach, Event, Hash, Key, Removed, Stored

_LOST = (
    "batches were lost between the server and this file: a slow subscriber (ZMQ drops beyond hwm) "
    "or a restart of it. Let it ask replay_endpoint for what it missed",
    "an index that was built from this stream is wrong from here on: drop what it knows of this "
    "server, and build it again after the next AllBlocksCleared or restart",
    "--allow-gaps judges what follows",
)
_RESTARTED = (
    "the server was restarted, and its first batches are not in this file: split it there",
    "or two servers publish under one topic and rank: record each in a file of its own",
    "--allow-gaps judges what follows",
)
_INDEX = (
    "an index that follows this stream is wrong for this server: drop it and build it anew; route "
    "by load in the meantime"
)
_RECORDING = (
    "if the recording began after the server did, or the server was restarted in it, say "
    "--from-middle, or split it there"
)
_REPORT = (
    "the engine announced what it cannot have done: keep this file and the server's log, record a "
    "trace (RecordingScheduler) and run nullblock check on it, and report it upstream"
)
NEXT: dict[str, tuple[str, ...]] = {
    "EVENT-1": _LOST,
    "EVENT-2": (_RECORDING, _INDEX, _REPORT),
    "EVENT-3": (
        "compare --num-blocks with the server's log (GPU KV cache size / block size); requests "
        "with kv_cache_report_mode=full are announced without a block",
        _INDEX,
        _REPORT,
    ),
    "EVENT-4": (_RECORDING, _INDEX, _REPORT),
    "EVENT-5": (
        "if the server has a KV connector after all, leave --no-connector out: a failed load "
        "evicts blocks in any order",
        _REPORT,
    ),
    "EVENT-6": (
        "if the server has a KV connector after all, leave --no-connector out: a failed load "
        "evicts blocks in any order",
        _REPORT,
    ),
    "EVENT-12": (
        "two prompts share a hash: requests may have been answered from another prompt's cache. "
        "Empty the cache (reset_prefix_cache) and look for streaming sessions (upstream 49377), "
        "a weak hash function or a damaged file",
        _INDEX,
        _REPORT,
    ),
}
"""By law, what to do about it."""
_OTHERWISE = (
    "check that all batches come from one release of vLLM, and that the file is not damaged",
    _REPORT,
)


def violation(
    publisher: Publisher,
    rule: str,
    breach: Breach,
    event: Event,
    where: tuple[str, int, int, int | None],
) -> First:
    """The story of an event that breaks a law; ``where`` is place, event, batch, sequence."""
    place, number, batch, seq = where
    what = f"event {number}, {told(event)}"
    story = [
        f"{what}; in batch {batch}{_numbered(seq)}{_of(publisher)}",
        *_law(rule, breach),
        *_about(publisher, breach.key),
        _cached(publisher),
        *_before(publisher),
    ]
    return First(
        place=place,
        event=number,
        batch=batch,
        seq=seq,
        rule=rule,
        what=what,
        expected=breach.expected,
        actual=breach.actual,
        story=tuple(story),
        next=NEXT.get(rule, _OTHERWISE),
    )


def out_of_order(
    publisher: Publisher, expected: str, where: tuple[str, int, int], seq: int, changed: bool
) -> First:
    """The story of a batch whose number does not follow; ``where`` is place, events, batch.

    ``changed``: the number was used before, for another batch.
    """
    place, events, batch = where
    what = f"batch {batch} of the file has number {seq}"
    actual = f"number {seq}" + ", with other events" * changed
    story = [
        f"{what}{_of(publisher)}, after {events} events",
        *_law("EVENT-1", Breach(expected, actual)),
        _cached(publisher),
        *_before(publisher),
    ]
    return First(
        place=place,
        event=0,
        batch=batch,
        seq=seq,
        rule="EVENT-1",
        what=what,
        expected=expected,
        actual=actual,
        story=tuple(story),
        next=_RESTARTED if changed else NEXT["EVENT-1"],
    )


def told(e: Event) -> str:
    """An event in a few words."""
    match e:
        case Stored():
            hashes = ", ".join(short(h) for h in e.hashes[:3])
            more = f", … {len(e.hashes)} in all" if len(e.hashes) > 3 else ""
            parent = "at the start" if e.parent is None else f"after {short(e.parent)}"
            return f"BlockStored {hashes or 'nothing'}{more} {parent}{_in(e.group)}"
        case Removed():
            return f"BlockRemoved {short(e.hash)}{_in(e.group)}"
        case _:
            return "AllBlocksCleared"


def short(hash: Hash) -> str:
    """The front of a hash."""
    match hash:
        case bytes():
            return hash.hex()[:12]
        case str():
            return plain(hash[:20])
        case _:
            return str(hash)


def _in(group: int | None) -> str:
    return "" if group is None else f" (group {group})"


def _numbered(seq: int | None) -> str:
    return "" if seq is None else f" (number {seq})"


def _of(publisher: Publisher) -> str:
    return f" of {publisher.name}" if publisher.name else ""


def _law(rule: str, breach: Breach) -> list[str]:
    sentence = next(s.sentence for s in catalogue() if s.id == rule)
    return [
        f"the law says: {breach.expected}",
        f"the stream says: {breach.actual}",
        f"{rule}: {sentence} (nullblock rules {rule})",
    ]


def _about(publisher: Publisher, key: Key | None) -> list[str]:
    """What is known of the hash at fault."""
    if key is None:
        return []
    cache, (group, hash) = publisher.cache, key
    entry = cache.entries.get(key)
    if entry is not None:
        copies = "1 copy is" if entry.copies == 1 else f"{entry.copies} copies are"
        return [f"{short(hash)}{_in(group)}: {copies} cached, stored first by event {entry.at}"]
    if key in cache.removed:
        at = cache.removed[key]
        return [f"{short(hash)}{_in(group)}: its last copy was removed by event {at}"]
    return [f"{short(hash)}{_in(group)}: never stored"]


def _cached(publisher: Publisher) -> str:
    cache = publisher.cache
    pool = publisher.premises.num_blocks
    of = "" if pool is None else f" of {pool - 1}"
    return (
        f"by the stream {cache.num_copies}{of} blocks are cached then, under "
        f"{len(cache.entries)} hashes"
    )


def _before(publisher: Publisher) -> list[str]:
    return [f"before, event {number}: {told(e)}" for number, e in publisher.history]
