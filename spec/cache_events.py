"""What the prefix cache tells the outside as it changes: readings of the state at that moment.

Whoever listens learns what was cached and forgotten, in that order, and not what is computed: a
block is told when it gets its hash, and that is before the step that computes it.
"""

from dataclasses import dataclass

from nullblock.spec.catalogue import clause
from nullblock.spec.kernel import State, Value


@dataclass(frozen=True, slots=True)
class BlockStored:
    """Blocks of one table that were cached at once."""

    table: Value
    first: int
    """Index of the first of them in it."""
    last: int
    """One after the last."""


@dataclass(frozen=True, slots=True)
class BlockRemoved:
    """A block that lost its hash."""

    hash: Value


@dataclass(frozen=True, slots=True)
class AllBlocksCleared:
    """Every hash was forgotten."""


CacheEvent = BlockStored | BlockRemoved | AllBlocksCleared


@clause("OUT-8")
def stored(s: State, t: Value, first: Value) -> BlockStored | None:
    """The blocks of a table that are cached at once are told in one event, with the hash before
    them, before they are computed.

    Source: BlockPool.cache_full_blocks.
    """
    return BlockStored(t, first, s.ncached[t]) if s.ncached[t] > first else None


def stored_again(s: State, t: Value, i: Value) -> BlockStored:
    """So is one that is cached again (GROUP-71)."""
    return BlockStored(t, i, i + 1)


@clause("OUT-9")
def removed(s: State, b: Value) -> BlockRemoved | None:
    """Every block that loses its hash is told, whether another one still carries it or not.

    Source: BlockPool._maybe_evict_cached_block.
    """
    return None if s.hsh[b] == s.k.NOHASH else BlockRemoved(s.hsh[b])


@clause("OUT-10")
def cleared(s: State) -> AllBlocksCleared:
    """A reset that is done is told in one event, and no removal with it.

    Source: BlockPool.reset_prefix_cache.
    """
    return AllBlocksCleared()
