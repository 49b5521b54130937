"""What the prefix cache tells the outside: blocks stored, blocks removed, everything cleared.

The stream follows the cache's book-keeping, not the device: a block counts as stored when its
hash is entered, which is before it is computed; and each physical copy of a content is stored and
removed for itself. Events wait until the next ``update_from_output`` and leave in one batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

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

    def __hash__(self) -> int:
        keys = tuple(self.extra_keys) if self.extra_keys else None
        of_blocks = tuple(self.block_hashes), self.parent_block_hash, tuple(self.token_ids)
        of_adapter = self.lora_id, self.medium, keys
        of_group = self.group_idx, self.kv_cache_spec_kind, self.kv_cache_spec_sliding_window
        return hash((of_blocks, self.block_size, of_adapter, of_group))


class BlockRemoved(KVCacheEvent):
    """One block left the cache: its slot is used again, or it was evicted by name."""

    block_hashes: list[ExternalBlockHash]
    medium: str | None
    group_idx: int | None = None

    def __hash__(self) -> int:
        return hash((tuple(self.block_hashes), self.medium, self.group_idx))


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

    _registry: ClassVar[dict[str, Callable[..., EventPublisher]]] = {"null": NullEventPublisher}

    @classmethod
    def register_publisher(cls, name: str, ctor: Callable[..., EventPublisher]) -> None:
        """Give a publisher a name. Raises ``KeyError`` if the name is taken."""
        if name in cls._registry:
            raise KeyError(f"a publisher {name!r} is registered already")
        cls._registry[name] = ctor

    @classmethod
    def create(cls, config: Any, data_parallel_rank: int = 0) -> EventPublisher:
        """The one that a configuration names, made with its other fields; the one that drops
        everything where nobody listens. Raises ``ValueError`` if it is unknown.
        """
        if config is None or not config.enable_kv_cache_events or config.publisher == "null":
            return NullEventPublisher(data_parallel_rank)
        refuse("publishing KV cache events on a network", config.publisher == "zmq")
        settings = dict(vars(config))
        name = settings.pop("publisher")
        del settings["enable_kv_cache_events"]
        if name not in cls._registry:
            raise ValueError(f"no publisher {name!r} is registered")
        return cls._registry[name](data_parallel_rank=data_parallel_rank, **settings)
