"""The law of vLLM's KV events: what a consumer of the stream may rely on.

A server tells which blocks of tokens its prefix cache holds: BlockStored when a block gets its
hash, BlockRemoved when a block loses it, AllBlocksCleared when all do. The law (`law.py`) says
what is true of every such stream, so that a stream alone can be refuted. None can be confirmed:
see `NEVER_TOLD`. What a consumer knows at any time is in `cache.py`.

The order of events is that in which the block pool made them. vLLM's other media (blocks that a KV
connector keeps elsewhere) are no part of it.
"""

from nullblock.spec.kv_events.cache import Cache, Entry, Shape, take
from nullblock.spec.kv_events.events import (
    FULL,
    NEVER_TOLD,
    Cleared,
    Event,
    Hash,
    Key,
    Premises,
    Removed,
    Stored,
    contents,
)
from nullblock.spec.kv_events.law import LAWS, Breach, follows, judge

__all__ = [
    "FULL",
    "LAWS",
    "NEVER_TOLD",
    "Breach",
    "Cache",
    "Cleared",
    "Entry",
    "Event",
    "Hash",
    "Key",
    "Premises",
    "Removed",
    "Shape",
    "Stored",
    "contents",
    "follows",
    "judge",
    "take",
]
