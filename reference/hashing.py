"""The block hash functions, by the names that vLLM's configuration gives them.

Each maps one picklable (or CBOR-encodable) value to a digest. Byte for byte vLLM's: the same
encoding, the same protocol, the same digest.
"""

import hashlib
import importlib
import pickle
from collections.abc import Callable
from typing import Any

import cbor2


def sha256(input: Any) -> bytes:
    """SHA-256 over the pickle (highest protocol): 32 bytes.

    Pickle writes a repeated *object* as a back reference, so two equal strings hash differently
    from one string used twice. Inherited from vLLM.
    """
    return hashlib.sha256(pickle.dumps(input, protocol=pickle.HIGHEST_PROTOCOL)).digest()


def sha256_cbor(input: Any) -> bytes:
    """SHA-256 over canonical CBOR: 32 bytes, the same in every language."""
    return hashlib.sha256(cbor2.dumps(input, canonical=True)).digest()


def _xxh3_128(data: bytes) -> bytes:
    try:
        digest: Callable[[bytes], bytes] = importlib.import_module("xxhash").xxh3_128_digest
    except (ImportError, AttributeError) as error:
        raise ModuleNotFoundError(
            "the xxhash block hashes need the xxhash package (with XXH3): pip install xxhash, "
            "or choose sha256 or sha256_cbor"
        ) from error
    return digest(data)


def xxhash(input: Any) -> bytes:
    """XXH3-128 over the pickle: 16 bytes. Needs the ``xxhash`` package."""
    return _xxh3_128(pickle.dumps(input, protocol=pickle.HIGHEST_PROTOCOL))


def xxhash_cbor(input: Any) -> bytes:
    """XXH3-128 over canonical CBOR: 16 bytes. Needs the ``xxhash`` package."""
    return _xxh3_128(cbor2.dumps(input, canonical=True))


_BY_NAME: dict[str, Callable[[Any], bytes]] = {
    "sha256": sha256,
    "sha256_cbor": sha256_cbor,
    "xxhash": xxhash,
    "xxhash_cbor": xxhash_cbor,
}


def get_hash_fn_by_name(hash_fn_name: str) -> Callable[[Any], bytes]:
    """The hash function of that name; ``ValueError`` if there is none."""
    try:
        return _BY_NAME[hash_fn_name]
    except KeyError:
        known = ", ".join(_BY_NAME)
        raise ValueError(f"unknown hash function {hash_fn_name!r}; known: {known}") from None
