"""The secrets that a recorded process is given, in every form in which they could be written."""

import base64
import hashlib
import struct
from collections.abc import Iterator

import msgspec

TOKENS = [1_234_567 + 11 * i for i in range(40)]
WORDS = (
    *("request-id-of-mallory", "salt-of-mallory", "adapter-of-mallory", "user-mallory"),
    *("image-of-mallory", "grammar-of-mallory"),
)
ADAPTER = 7_654_321


def encodings(hashes: list[str]) -> set[bytes]:
    """Everything that must not appear; ``hashes`` are of blocks, in hex."""
    forms: set[bytes] = set()
    for word in (*WORDS, f"{WORDS[0]}-0", f"{WORDS[0]}-1"):
        for encoding in ("utf-8", "utf-16-le", "utf-16-be"):
            forms.update(_written(word.encode(encoding)))
        forms.update(_digests(word.encode()))
    for token in (*TOKENS, ADAPTER):
        decimal = str(token).encode()
        forms.update((decimal, f"{token:x}".encode(), msgspec.msgpack.encode(token)))
        forms.update((struct.pack("<i", token), struct.pack(">i", token)))
        forms.update(_digests(decimal))
    forms.update(_digests(msgspec.json.encode(TOKENS[:38])))
    for hash in hashes:
        raw = bytes.fromhex(hash)
        forms.update(_written(raw))
        forms.add(str(int.from_bytes(raw[-8:], "big")).encode())
        forms.add(str(int.from_bytes(raw[:8], "big")).encode())
    return forms


def _written(raw: bytes) -> Iterator[bytes]:
    yield raw
    yield raw.hex().encode()
    yield raw.hex()[:12].encode()
    yield base64.b64encode(raw).rstrip(b"=")
    yield base64.urlsafe_b64encode(raw).rstrip(b"=")
    yield msgspec.msgpack.encode(raw)


def _digests(raw: bytes) -> Iterator[bytes]:
    for name in ("md5", "sha1", "sha256", "blake2b"):
        digest = hashlib.new(name, raw)
        yield digest.digest()
        yield digest.hexdigest().encode()
        yield digest.hexdigest()[:12].encode()
