"""The bytes of a file, plain, gzip or zstd, in bounded memory: its first bytes say which."""

import zlib
from collections.abc import Iterator
from typing import BinaryIO

import zstandard

from nullblock.conformance.kv_events.errors import Cut, Damaged

_READ = 2**16
_PIECE = 256
"""Compressed bytes expanded at once: zstandard makes at most 2**15 of one, so 8 MiB."""
_MAX_WINDOW = 2**27
_OTHERS = {
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "a zip archive",
    b"\x04\x22\x4d\x18": "lz4",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\xef\xbb\xbf": "UTF-8 with a byte order mark",
}
REMEDY = "KV events are read plain, gzip or zstd (conformance/kv_events/FORMAT.md)"
AGAIN = "copy or record it again"


def expanded(stream: BinaryIO) -> Iterator[bytes]:
    """The content of a file, piece by piece.

    Raises :class:`Damaged` for another compression, :class:`Cut` where a compressed stream breaks
    off or does not match its checksum.
    """
    head = stream.read(_READ)
    if head.startswith(b"\x1f\x8b"):
        yield from _inflated(_pieces(head, stream))
    elif head.startswith(b"\x28\xb5\x2f\xfd"):
        yield from _unzstd(_pieces(head, stream))
    else:
        for magic, name in _OTHERS.items():
            if head.startswith(magic):
                raise Damaged(f"this is {name}", REMEDY, "byte 1")
        while head:
            yield head
            head = stream.read(_READ)


def _pieces(head: bytes, stream: BinaryIO) -> Iterator[bytes]:
    while head:
        for start in range(0, len(head), _PIECE):
            yield head[start : start + _PIECE]
        head = stream.read(_READ)


def _inflated(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Gzip members one after another."""
    member = None
    for piece in pieces:
        while piece:
            if member is None:
                member = zlib.decompressobj(wbits=31)
            try:
                found = member.decompress(piece)
            except zlib.error as error:
                raise Cut(f"the gzip stream is damaged ({error})", AGAIN) from None
            if found:
                yield found
            piece = member.unused_data
            if member.eof:
                member = None
    if member is not None:
        raise Cut("the gzip stream is cut", AGAIN)


def _unzstd(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Zstandard frames one after another."""
    engine = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    frame = None
    for piece in pieces:
        while piece:
            if frame is None:
                frame = engine.decompressobj()
            try:
                found = frame.decompress(piece)
            except zstandard.ZstdError as error:
                raise Cut(f"the zstd stream is damaged ({error})", AGAIN) from None
            if found:
                yield found
            piece = b""
            if frame.eof:
                piece, frame = frame.unused_data, None
    if frame is not None:
        raise Cut("the zstd stream is cut", AGAIN)
