"""A digest of a compressed file at its own end, where every decompressor passes over it.

The digest in the ``end`` record covers what is in a trace; a compressed file has bytes besides
that carry nothing, and damage to those would not show. Zstandard: a skippable frame. Gzip: an
empty member with an extra field.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class Form:
    """What stands around the digest."""

    prefix: bytes
    suffix: bytes
    tags: tuple[slice, ...]
    """Parts of the prefix of which one alone shows that a seal was there."""

    @property
    def size(self) -> int:
        """Bytes of a seal."""
        return len(self.prefix) + hashlib.sha256().digest_size + len(self.suffix)


ZSTD = Form(b"\x50\x2a\x4d\x18" + (32).to_bytes(4, "little"), b"", (slice(1, 4), slice(4, 8)))
GZIP = Form(
    # ID, method, FEXTRA, no time, no level, unknown system; a field "nb" of 32 bytes.
    b"\x1f\x8b\x08\x04\0\0\0\0\0\xff" + (36).to_bytes(2, "little") + b"nb\x20\0",
    # Nothing, compressed; its checksum and its length.
    b"\x03\0" + bytes(8),
    (slice(0, 4), slice(12, 16)),
)


class Sealed:
    """A binary stream that digests what it passes on."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Pass `data` on."""
        self._digest.update(data)
        return self._stream.write(data)

    def flush(self) -> None:
        """Pass it on."""
        self._stream.flush()

    def seal(self, form: Form) -> None:
        """Add the seal."""
        self._stream.write(form.prefix + self._digest.digest() + form.suffix)


class Unsealed(Exception):
    """A file does not match the digest at its end."""


def checked(pieces: Iterator[bytes], form: Form) -> Iterator[bytes]:
    """The pieces of a file, unchanged. Raises Unsealed after the last one if there is a seal, or
    what is left of one, and it does not fit. A file without a seal passes.
    """
    digest, tail = hashlib.sha256(), bytearray()
    for piece in pieces:
        tail += piece
        digest.update(tail[: -form.size])
        del tail[: -form.size]
        yield piece
    if any(tail[tag] == form.prefix[tag] for tag in form.tags):
        whole = form.prefix + digest.digest() + form.suffix
        if tail != whole:
            raise Unsealed
