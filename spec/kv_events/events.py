"""The events of the stream, and what is known besides."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

Hash = int | bytes | str
"""A block's chain hash as it is spelled in the stream: only its identity counts."""
Key = tuple[int | None, Hash]
"""A KV cache group and a hash: groups share one pool, and cache apart."""

FULL = frozenset({"full_attention", "mla_attention", "sink_full_attention"})
"""Kinds of groups in which every block of a prefix is kept. The others skip blocks."""

NEVER_TOLD = (
    "whether a stored block was ever computed: it is announced when its step is scheduled",
    "which block of the pool holds a hash, and whether it is in use or free",
    "who asked, what was hit, preempted or finished",
    "what happened after the last batch: events are published with the next output",
)
"""What no stream can say, and no verdict on one can rest on."""


@dataclass(frozen=True, slots=True)
class Premises:
    """What is known of the engine besides its stream.

    Attributes:
        num_blocks: blocks of the pool, the null block among them; None where it is not known.
        full_attention: there is one KV cache group, and it is of full attention.
        no_connector: no KV connector, which may evict blocks by their number.
    """

    num_blocks: int | None = None
    full_attention: bool = False
    no_connector: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """Blocks that got their hashes.

    Attributes:
        hashes: of the blocks, in their order; blocks of the span may be left out.
        parent: hash of the block before the span; None where the span starts at the first token.
        token_ids: of the whole span.
        block_size: tokens of a block.
        extra_keys: for each hash what else identifies the block; None where nothing is told.
        group: index of the KV cache group; None where the release does not tell.
        kind: of attention in the group; None where the release does not tell.
        sliding_window: tokens; None where there is none.
        partial: the release may announce prefixes that end inside a block (from 0.24.0 on).
    """

    hashes: Sequence[Hash]
    parent: Hash | None
    token_ids: Sequence[int]
    block_size: int
    extra_keys: Sequence[Any] | None = None
    group: int | None = None
    kind: str | None = None
    sliding_window: int | None = None
    partial: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Removed:
    """One block that lost its hash."""

    hash: Hash
    group: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Cleared:
    """Every block lost its hash."""


Event = Stored | Removed | Cleared


@lru_cache(maxsize=1)
def contents(e: Stored) -> tuple[bytes, ...]:
    """A digest of each block's content; empty where the span does not tell which block is which.

    The digest covers the parent, so that it covers the chain.
    """
    size = e.block_size
    if size <= 0 or len(e.token_ids) != len(e.hashes) * size:
        return ()
    extras = e.extra_keys if e.extra_keys is not None else [None] * len(e.hashes)
    if len(extras) != len(e.hashes):
        return ()
    tokens, found, parent = list(e.token_ids), [], e.parent
    for i, (hash, extra) in enumerate(zip(e.hashes, extras, strict=True)):
        told = repr((parent, tokens[i * size : (i + 1) * size], extra))
        found.append(hashlib.blake2b(told.encode(errors="surrogatepass"), digest_size=16).digest())
        parent = hash
    return tuple(found)
