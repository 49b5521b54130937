"""KV events as vLLM's releases write them, read as the events of the law.

``FORMAT.md`` beside this file has a table of the releases. Up to 0.23 an event is an array: its
name, then fields to which later ones were added at the end; from 0.24.0 on a map of the same
names, its ``type`` the event's, in which what has its default is left out. A batch is an array of
time, events and data-parallel rank; newer sources have a map of the same. Hashes are whole numbers
or bytes, in JSON also strings. What is behind the known fields of an array, unknown names of a map
and unknown events are passed over and counted; anything else that does not fit is
:class:`Damaged`.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from nullblock.conformance.kv_events.errors import Damaged
from nullblock.spec.kv_events import Cleared, Event, Hash, Removed, Stored

POOL = "GPU"
"""What vLLM calls the medium of its own block pool."""
UNNAMED = "(none)"
_ABSENT: Any = object()
_LEAST, _MOST = -(2**63), 2**64
_REMEDY = "write it as vLLM publishes it (conformance/kv_events/FORMAT.md)"
_MOST_NAMES = 64

STORED = (
    *("block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium"),
    *("lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind"),
    "kv_cache_spec_sliding_window",
)
REMOVED = ("block_hashes", "medium", "group_idx")
CLEARED: tuple[str, ...] = ()
_FIELDS = {"BlockStored": STORED, "BlockRemoved": REMOVED, "AllBlocksCleared": CLEARED}
_NEEDED = {"BlockStored": 4, "BlockRemoved": 1, "AllBlocksCleared": 0}
_BATCH = ("ts", "events", "data_parallel_rank")


@dataclass(slots=True)
class Batch:
    """What was published at once.

    Attributes:
        ts: seconds since the epoch, by the server's clock; None in a line of ``nullblock run``.
        rank: of data parallelism; None where it is not told.
        events: one list for each event as written: a removal of several hashes is several here,
            an event of another medium none; None for one that no release up to 0.32 has.
    """

    ts: float | None
    rank: int | None
    events: list[list[Event] | None] = field(default_factory=list)


@dataclass(slots=True)
class Passed:
    """What was read and is not judged."""

    media: Counter[str] = field(default_factory=Counter)
    """Events of other media than the block pool, by medium."""
    fields: Counter[str] = field(default_factory=Counter)
    """Fields that the law does not know, by name."""
    unknown: Counter[str] = field(default_factory=Counter)
    """Events that the law does not know, by name."""

    def count_unknown(self, name: str) -> None:
        """Count an event that no release up to 0.32 has; only so many names are kept apart."""
        name = plain(name[:40])
        known = name in self.unknown or len(self.unknown) < _MOST_NAMES
        self.unknown[name if known else "other events"] += 1

    def count_medium(self, name: str) -> None:
        """Count an event of another medium; only so many are kept apart."""
        known = name in self.media or len(self.media) < _MOST_NAMES
        self.media[name if known else "other media"] += 1

    def count_field(self, name: str) -> None:
        """Count a field; only so many names are kept apart."""
        name = plain(name[:60])
        known = name in self.fields or len(self.fields) < _MOST_NAMES
        self.fields[name if known else "other fields"] += 1


class _Wrong(Exception):
    """A value that does not fit: which, and what it should be."""


def batch(body: Any, passed: Passed, driver: bool = False) -> Batch:
    """A batch. Raises :class:`Damaged` with the place inside the batch."""
    try:
        if driver:
            told, made = body["kv_events"], Batch(None, None)
        else:
            fields = _named(body, "batch", _BATCH, 2, passed)
            ts, told = fields["ts"], fields["events"]
            if type(ts) not in (int, float):
                raise _Wrong("ts: no time in seconds")
            made = Batch(float(ts), _whole(fields, "data_parallel_rank"))
        if type(told) is not list:
            raise _Wrong("events: no list")
    except (_Wrong, OverflowError) as wrong:
        raise Damaged(f"no batch of KV events: {wrong}", _REMEDY) from None
    for index, one in enumerate(told):
        try:
            made.events.append(_event(one, passed))
        except _Wrong as wrong:
            raise Damaged(str(wrong), _REMEDY, f"event {index + 1} of the batch") from None
    return made


def _named(
    value: Any, what: str, names: tuple[str, ...], needed: int, passed: Passed
) -> dict[str, Any]:
    """The fields of an array or a map by their names; those that are not there are absent."""
    match value:
        case list():
            found = dict(zip(names, value, strict=False))
            for index in range(len(names), len(value)):
                passed.count_field(f"{what}[{index}]")
        case dict():
            found = {name: value[name] for name in names if name in value}
            if len(found) < len(value):
                for name in value:
                    if type(name) is not str:
                        raise _Wrong("a map with other keys than names")
                    if name not in found and name not in ("type", "t"):
                        passed.count_field(f"{what}.{name}")
        case _:
            raise _Wrong(f"neither an array nor a map, but {_kind(value)}")
    for name in names[:needed]:
        if name not in found:
            raise _Wrong(f"{name} is missing")
    return found


def _event(value: Any, passed: Passed) -> list[Event] | None:
    match value:
        case [str(name), *rest]:
            value, partial = rest, False
        case {"type": str(name)}:
            partial = True
        case {"t": str(name)}:
            # As a driver prints it; its releases know no prefixes that end inside a block.
            partial = False
        case _:
            raise _Wrong("no event: neither [name, …] nor a map with its name under type")
    names = _FIELDS.get(name)
    if names is None:
        passed.count_unknown(name)
        return None
    fields = _named(value, name, names, _NEEDED[name], passed)
    medium = fields.get("medium", _ABSENT)
    if medium is not _ABSENT and medium != POOL:
        passed.count_medium(_medium(medium))
        return []
    match name:
        case "BlockStored":
            return [_stored(fields, partial)]
        case "BlockRemoved":
            group = _whole(fields, "group_idx")
            return [Removed(hash, group) for hash in _hashes(fields)]
        case _:
            return [Cleared()]


def _medium(medium: Any) -> str:
    if medium is None:
        return UNNAMED
    if type(medium) is not str:
        raise _Wrong(f"medium: {_kind(medium)}, where a string belongs")
    return plain(medium[:40])


def _stored(fields: dict[str, Any], partial: bool) -> Stored:
    hashes, tokens = _hashes(fields), fields["token_ids"]
    if type(tokens) is not list or not set(map(type, tokens)) <= {int}:
        raise _Wrong("token_ids: no list of whole numbers")
    if tokens and not _LEAST <= min(tokens) <= max(tokens) < _MOST:
        raise _Wrong("token_ids: a number of more than 64 bits")
    size = _whole(fields, "block_size")
    if size is None:
        raise _Wrong("block_size: nothing, where a whole number belongs")
    parent = fields["parent_block_hash"]
    _text(fields, "lora_name")
    _whole(fields, "lora_id")
    return Stored(
        hashes,
        None if parent is None else _hash(parent, "parent_block_hash"),
        tokens,
        size,
        _extra_keys(fields),
        _whole(fields, "group_idx"),
        _text(fields, "kv_cache_spec_kind"),
        _whole(fields, "kv_cache_spec_sliding_window"),
        partial,
    )


def _extra_keys(fields: dict[str, Any]) -> list[Any] | None:
    found = fields.get("extra_keys")
    if found is None:
        return None
    if type(found) is not list or not set(map(type, found)) <= {list, type(None)}:
        raise _Wrong("extra_keys: no list with a list or null for each hash")
    return found


def _hashes(fields: dict[str, Any]) -> list[Hash]:
    found = fields["block_hashes"]
    if type(found) is not list:
        raise _Wrong("block_hashes: no list")
    return [_hash(one, "block_hashes") for one in found]


def _hash(value: Any, name: str) -> Hash:
    match value:
        case bool():
            pass
        case int() if _LEAST <= value < _MOST:
            return value
        case bytes() | str() if value:
            return value
    raise _Wrong(f"{name}: {_kind(value)}, where a hash belongs (64 bits, bytes or a string)")


def _typed(check: Callable[[Any], bool], words: str) -> Callable[[dict[str, Any], str], Any]:
    def read(fields: dict[str, Any], name: str) -> Any:
        value = fields.get(name)
        if value is None or check(value):
            return value
        raise _Wrong(f"{name}: {_kind(value)}, where {words} belongs")

    return read


_whole = _typed(lambda v: type(v) is int and _LEAST <= v < _MOST, "a whole number")
_text = _typed(lambda v: type(v) is str, "a string")


def plain(text: str) -> str:
    """Text from a file, fit for one line of a terminal."""
    return text.encode("unicode_escape").decode("ascii")


def _kind(value: Any) -> str:
    """What a value is, for people."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "a truth value"
        case int():
            return "a whole number"
        case float():
            return "a fraction"
        case str():
            return "a string"
        case bytes():
            return "bytes"
        case list():
            return "an array"
        case dict():
            return "a map"
        case _:
            return "something else"
