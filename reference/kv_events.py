"""What the prefix cache tells the outside: blocks stored, blocks removed, everything cleared.

The stream follows the cache's book-keeping, not the device: a block counts as stored when its
hash is entered, which is before it is computed; and each physical copy of a content is stored and
removed for itself. Events wait until the next ``update_from_output`` and leave in one batch.
"""

from abc import ABC, abstractmethod
from typing import Any

import msgspec

from nullblock.reference.errors import refuse
from nullblock.reference.kv_cache_utils import ExternalBlockHash

MEDIUM_GPU = "GPU"
"""Where all blocks of this scope are."""


class EventBatch(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """Events that were published together."""

    ts: float
    """Seconds since the epoch."""
    events: list[Any]
    data_parallel_rank: int | None = None


class KVCacheEvent(msgspec.Struct, array_like=True, omit_defaults=True, gc=False, tag=True):
    """Something that happened to the prefix cache."""


class BlockStored(KVCacheEvent):
    """Consecutive blocks of one request entered the cache."""

    block_hashes: list[ExternalBlockHash]
    parent_block_hash: ExternalBlockHash | None
    """Of the block before the first; None where a sequence begins."""
    token_ids: list[int]
    """Of all blocks of the range."""
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[tuple[Any, ...] | None] | None = None
    """By block, what was hashed besides the tokens."""
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None


class BlockRemoved(KVCacheEvent):
    """One block left the cache: its slot is used again, or it was evicted by name."""

    block_hashes: list[ExternalBlockHash]
    medium: str | None
    group_idx: int | None = None


class AllBlocksCleared(KVCacheEvent):
    """The cache was emptied."""


AnyKVCacheEvent = BlockStored | BlockRemoved | AllBlocksCleared


class KVEventBatch(EventBatch):
    """The events of one update."""

    events: list[AnyKVCacheEvent]


class EventPublisher(ABC):
    """Where batches go."""

    def __init__(self, data_parallel_rank: int = 0) -> None:
        self._data_parallel_rank = data_parallel_rank

    @abstractmethod
    def publish(self, events: EventBatch) -> None:
        """Pass a batch on; batches are published in their order."""

    @abstractmethod
    def shutdown(self) -> None:
        """No more will come."""


class NullEventPublisher(EventPublisher):
    """Nobody listens."""

    def publish(self, events: EventBatch) -> None:
        """Nothing to do."""

    def shutdown(self) -> None:
        """Nothing to do."""


class EventPublisherFactory:
    """The publisher that a configuration names."""

    @classmethod
    def create(cls, config: Any, data_parallel_rank: int = 0) -> EventPublisher:
        """The one that drops everything: whoever wants to listen puts one in its place."""
        listens = config is not None and config.enable_kv_cache_events
        refuse("publishing KV cache events on a network", listens and config.publisher != "null")
        return NullEventPublisher(data_parallel_rank)
