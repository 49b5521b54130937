"""A file of KV events as batches: four ways to write them down, told apart by the first byte.

``msgpack`` is MessagePack values one after another, ``prefixed`` the same with four bytes of
length before each, ``jsonl`` a JSON value a line: batches, or the lines that ``nullblock run``
prints. ``FORMAT.md`` beside this file says more.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import msgspec

from nullblock.conformance.compression import BOM, Damage, Foreign, expanded
from nullblock.conformance.kv_events.errors import Cut, Damaged
from nullblock.conformance.kv_events.walk import Short, end_of

FORMATS = ("auto", "msgpack", "prefixed", "jsonl")
MAX_BATCH = 16 * 2**20
"""Bytes that a batch may have."""
END_OF_REPLAY = b"\xff" * 8
_PREFIX = 4
REMEDY = "KV events are read plain, gzip or zstd (conformance/kv_events/FORMAT.md)"
AGAIN = "copy or record it again"
_BATCH = "write each batch as vLLM publishes it (conformance/kv_events/FORMAT.md)"


@dataclass(frozen=True, slots=True)
class Frame:
    """One batch as it stands in the file.

    Attributes:
        place: where, for people.
        body: the batch, decoded as far as its syntax goes.
        raw: its bytes.
        seq: its number, if it has one.
        topic: under which it was published.
        driver: it is a line of ``nullblock run``.
    """

    place: str
    body: Any
    raw: bytes
    seq: int | None = None
    topic: str = ""
    driver: bool = False


@dataclass(frozen=True, slots=True)
class Started:
    """A new engine with an empty cache: the first line of a run of ``nullblock run``.

    Attributes:
        num_blocks: of its pool.
        cut_hashes: its groups differ in block size: hashes cut to twelve digits are ambiguous.
    """

    num_blocks: int | None
    cut_hashes: bool


def frames(stream: BinaryIO, format: str = "auto") -> Iterator[Frame | Started]:
    """The batches of a file. Raises :class:`Damaged`, with its place, when it gets there."""
    source = _Source(stream)
    match _detected(source) if format == "auto" else format:
        case "jsonl":
            return _json_lines(source)
        case "prefixed":
            return _prefixed(source)
        case _:
            return _concatenated(source)


def _detected(source: "_Source") -> str:
    first = source.first()
    if not first:
        raise Damaged("the file is empty", REMEDY, "byte 1")
    if first == BOM[:1]:
        raise Damaged("this is UTF-8 with a byte order mark", REMEDY, "byte 1")
    if first in b"{[ \t\r\n":
        return "jsonl"
    if first in b"\x00\x01":
        return "prefixed"
    if 0x80 <= first[0] < 0xA0 or 0xDC <= first[0] <= 0xDF:
        return "msgpack"
    raise Damaged("neither MessagePack nor JSON lines", REMEDY, "byte 1")


class _Source:
    """Bytes that are wanted whole."""

    def __init__(self, stream: BinaryIO) -> None:
        self._chunks = expanded(stream)
        self.buffer = bytearray()
        self.start = 0
        """Where in the buffer the unread part begins."""
        self.offset = 0
        """Bytes of the file before it."""

    def first(self) -> bytes:
        """The next byte; empty at the end."""
        self.more(1)
        return bytes(self.buffer[self.start : self.start + 1])

    @property
    def ready(self) -> int:
        """Unread bytes that are there."""
        return len(self.buffer) - self.start

    @property
    def place(self) -> str:
        """Where the unread part begins."""
        return f"byte {self.offset + 1}"

    @property
    def _read(self) -> str:
        return f"behind byte {self.offset + self.ready}"

    def more(self, wanted: int) -> bool:
        """Read on until so many bytes are there; False if the file ends before."""
        if self.ready >= wanted:
            return True
        del self.buffer[: self.start]
        self.start = 0
        while len(self.buffer) < wanted:
            try:
                chunk = next(self._chunks, None)
            except Foreign as found:
                raise Damaged(str(found), REMEDY, "byte 1") from None
            except Damage as damage:
                raise Cut(str(damage), AGAIN, self._read) from None
            if chunk is None:
                return False
            self.buffer += chunk
        return True

    def take(self, length: int) -> bytes:
        """The next bytes, which are there."""
        taken = bytes(self.buffer[self.start : self.start + length])
        self.start += length
        self.offset += length
        return taken


# ---- MessagePack ------------------------------------------------------------


def _concatenated(source: _Source) -> Iterator[Frame]:
    wanted = 1
    while source.more(1):
        whole = source.more(wanted)
        try:
            end = end_of(source.buffer, source.start)
        except Short:
            if source.ready > MAX_BATCH:
                raise _too_long(source.place) from None
            if not whole or not source.more(source.ready + 1):
                raise Cut(f"cut: {source.ready} bytes of a batch", AGAIN, source.place) from None
            wanted = 2 * source.ready
            continue
        except Damaged as damage:
            raise damage.at(place=source.place) from None
        wanted = 1
        place = source.place
        frame = _packed(source.take(end - source.start), place)
        if frame is not None:
            yield frame


def _prefixed(source: _Source) -> Iterator[Frame]:
    while source.more(1):
        place = source.place
        if not source.more(_PREFIX):
            raise Cut("cut inside a length", AGAIN, place)
        length = int.from_bytes(source.take(_PREFIX), "big")
        if length > MAX_BATCH:
            raise _too_long(place)
        if not length or not source.more(length):
            if length:
                raise Cut(f"cut: {source.ready} of {length} bytes of a batch", AGAIN, place)
            raise Damaged("a batch of no bytes", _BATCH, place)
        frame = _packed(source.take(length), place)
        if frame is not None:
            yield frame


def _too_long(place: str) -> Damaged:
    return Damaged(f"a batch of more than {MAX_BATCH} bytes", _BATCH, place)


def _packed(raw: bytes, place: str) -> Frame | None:
    """A batch, or a message with one: its number before it, its topic before that.

    None for the message that ends a replay.
    """
    value = _unpacked(raw, place)
    match value:
        case [b"", _, _, _]:  # as replay_endpoint sends it in 0.32.0
            value = value[1:]
    match value:
        case [*before, bytes(payload)] if 1 <= len(before) <= 2:
            topic, seq = (b"", *before) if len(before) == 1 else before
            number = _number(seq, place)
            if seq == END_OF_REPLAY and not payload:
                return None
            return Frame(place, _unpacked(payload, place), payload, number, _topic(topic, place))
        case _:
            return Frame(place, value, raw)


def _number(seq: Any, place: str) -> int:
    if type(seq) is bytes and len(seq) == 8:
        return int.from_bytes(seq, "big")
    if type(seq) is int and seq >= 0:
        return seq
    raise Damaged("no sequence number", "write 8 bytes, big-endian, or a whole number", place)


def _topic(topic: Any, place: str) -> str:
    match topic:
        case bytes():
            return topic[:256].decode(errors="replace")
        case str():
            return topic[:256]
        case _:
            raise Damaged("no topic", "write [topic, sequence number, batch]", place)


def _unpacked(raw: bytes, place: str) -> Any:
    try:
        if not raw or end_of(raw, 0) != len(raw):
            raise Damaged("not one MessagePack value", _BATCH, place)
        return msgspec.msgpack.decode(raw)
    except Short:
        raise Damaged("not a whole MessagePack value", _BATCH, place) from None
    except Damaged as damage:
        raise damage.at(place=place) from None
    except (msgspec.MsgspecError, ValueError, TypeError, OverflowError, RecursionError) as error:
        raise Damaged(f"not MessagePack: {_words(error)}", _BATCH, place) from None


# ---- JSON lines -------------------------------------------------------------


def _json_lines(source: _Source) -> Iterator[Frame | Started]:
    number = 0
    while source.more(1):
        number += 1
        length = _line_length(source, f"line {number}")
        line = source.take(length + 1)[:-1]
        if not line.strip():
            raise Damaged("an empty line", "remove it", f"line {number}")
        try:
            value = msgspec.json.decode(line)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            remedy = "write one JSON value a line"
            raise Damaged(f"not JSON: {_words(error)}", remedy, f"line {number}") from None
        yield from _from_json(value, line, f"line {number}")


def _line_length(source: _Source, place: str) -> int:
    """How long the next line is, its end apart."""
    searched = 0
    while True:
        found = source.buffer.find(b"\n", source.start + searched)
        if found >= 0:
            return found - source.start
        searched = source.ready
        if searched > MAX_BATCH:
            raise _too_long(place)
        if not source.more(searched + 1):
            raise Cut("the last line has no end: the file was cut", AGAIN, place)


def _from_json(value: Any, line: bytes, place: str) -> Iterator[Frame | Started]:
    match value:
        case {"ev": "header", "config": dict(config)}:
            found = config.get("num_blocks")
            groups, usual = config.get("groups"), config.get("block_size")
            sizes = [
                group.get("block_size", usual)
                for group in (groups if type(groups) is list else ())
                if type(group) is dict
            ]
            differ = any(size != sizes[0] for size in sizes)
            yield Started(found if type(found) is int else None, differ)
        case {"ev": str()}:
            if value.get("kv_events"):
                yield Frame(place, value, line, driver=True)
        case list():
            yield Frame(place, value, line)
        case dict():
            seq, topic = value.pop("seq", None), value.pop("topic", "")
            if seq is not None:
                seq = _number(seq, place)
            yield Frame(place, value.get("batch", value), line, seq, _topic(topic, place))
        case _:
            raise Damaged("neither a batch nor a line of nullblock run", _BATCH, place)


def _words(error: Exception) -> str:
    words = " ".join(str(error).split())
    return (words[:1].lower() + words[1:])[:120]
