"""The content of a file, plain, gzip or zstd, in bounded memory: its first bytes say which.

Input is expanded piece by piece, which also bounds what a decompression bomb can do.
"""

import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, Final

READ: Final = 2**16
"""Bytes read at once."""
_PIECE = 1024
"""Compressed bytes expanded at once. Zstandard makes at most 2**15 of one byte, so 32 MiB."""
_MAX_WINDOW = 2**27

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_FOREIGN = {
    b"\xfd7zXZ": "xz",
    b"BZh": "bzip2",
    b"PK\x03\x04": "a zip archive",
    b"\x04\x22\x4d\x18": "lz4",
    b"PAR1": "Parquet",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}
BOM = b"\xef\xbb\xbf"
Pieces = Iterator[bytes]


class Foreign(Exception):
    """The file is of another kind; carries the words for it."""


class Damage(Exception):
    """The compressed stream breaks off, or does not match its checksum; carries the words."""


def _unchanged(pieces: Pieces, magic: bytes) -> Pieces:
    return pieces


def expanded(stream: BinaryIO, through: Callable[[Pieces, bytes], Pieces] = _unchanged) -> Pieces:
    """The content of a file, chunk by chunk.

    Compressed pieces go `through` a filter, which is told their kind, GZIP or ZSTD. Raises Foreign
    at the first chunk, and Damage when it gets there.
    """
    head = stream.read(READ)
    for magic, name in _FOREIGN.items():
        if head.startswith(magic):
            raise Foreign(f"this is {name}")
    if head.startswith(GZIP):
        yield from _inflated(through(_pieces(head, stream), GZIP))
    elif head.startswith(ZSTD):
        yield from _unzstd(through(_pieces(head, stream), ZSTD))
    else:
        yield from _chunks(head, stream)


def _chunks(head: bytes, stream: BinaryIO) -> Pieces:
    while head:
        yield head
        head = stream.read(READ)


def _pieces(head: bytes, stream: BinaryIO) -> Pieces:
    for chunk in _chunks(head, stream):
        for start in range(0, len(chunk), _PIECE):
            yield chunk[start : start + _PIECE]


def _inflated(pieces: Pieces) -> Pieces:
    """Gzip members one after another; each carries its checksum."""
    member = None
    for piece in pieces:
        while piece:
            if member is None:
                member = zlib.decompressobj(wbits=31)
            try:
                yield member.decompress(piece)
            except zlib.error as error:
                raise Damage(f"the gzip stream is damaged ({error})") from None
            piece = member.unused_data
            if member.eof:
                member = None
    if member is not None:
        raise Damage("the gzip stream is cut")


def _unzstd(pieces: Pieces) -> Pieces:
    """Zstandard frames one after another; those that we write carry a checksum."""
    # Here, since an engine's own environment may lack it and reads plain files and gzip.
    import zstandard

    engine = zstandard.ZstdDecompressor(max_window_size=_MAX_WINDOW)
    frame = None
    for piece in pieces:
        while piece:
            if frame is None:
                frame = engine.decompressobj()
            try:
                yield frame.decompress(piece)
            except zstandard.ZstdError as error:
                raise Damage(f"the zstd stream is damaged ({error})") from None
            piece = b""
            if frame.eof:
                piece, frame = frame.unused_data, None
    if frame is not None:
        raise Damage("the zstd stream is cut")
