"""The description of the KV cache that the scheduler is built on: groups, block size, blocks."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from nullblock.reference.errors import UnsupportedFeature


class KVCacheSpecKind(StrEnum):
    """The kinds of KV cache that vLLM knows; only the first is in scope."""

    FULL_ATTENTION = "full_attention"
    MLA_ATTENTION = "mla_attention"
    SLIDING_WINDOW = "sliding_window"
    SLIDING_WINDOW_MLA = "sliding_window_mla"
    MAMBA = "mamba"
    CHUNKED_LOCAL_ATTENTION = "chunked_local_attention"
    SINK_FULL_ATTENTION = "sink_full_attention"
    ENCODER_ONLY_ATTENTION = "encoder_only_attention"
    CROSS_ATTENTION = "cross_attention"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class KVCacheSpec:
    """The KV cache of one layer."""

    block_size: int
    """Tokens a block."""

    def copy_with_new_block_size(self, block_size: int) -> Self:
        """The same layer cut into blocks of another size."""
        return replace(self, block_size=block_size)


@dataclass(frozen=True, kw_only=True)
class AttentionSpec(KVCacheSpec):
    """An attention layer. Heads, sizes and dtype matter to workers, not to the scheduler."""

    num_kv_heads: int
    head_size: int
    dtype: object
    page_size_padded: int | None = None


@dataclass(frozen=True, kw_only=True)
class FullAttentionSpec(AttentionSpec):
    """A layer that keeps every token's KV until the request gives up its blocks."""

    head_size_v: int | None = None
    sliding_window: int | None = None
    attention_chunk_size: int | None = None

    def __post_init__(self) -> None:
        if self.head_size_v is None:
            object.__setattr__(self, "head_size_v", self.head_size)


class _OutOfScopeSpec(KVCacheSpec):
    """A kind of layer that is refused as soon as it is named."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise UnsupportedFeature(f"{type(self).__name__} layers")


class SlidingWindowSpec(_OutOfScopeSpec):
    """Out of scope."""


class ChunkedLocalAttentionSpec(_OutOfScopeSpec):
    """Out of scope."""


class MambaSpec(_OutOfScopeSpec):
    """Out of scope."""


class MLAAttentionSpec(_OutOfScopeSpec):
    """Out of scope."""


class SinkFullAttentionSpec(_OutOfScopeSpec):
    """Out of scope."""


class CrossAttentionSpec(_OutOfScopeSpec):
    """Out of scope."""


def get_kv_cache_spec_kind(kv_cache_spec: KVCacheSpec) -> KVCacheSpecKind:
    """What KV events call a layer of that kind."""
    if isinstance(kv_cache_spec, FullAttentionSpec):
        return KVCacheSpecKind.FULL_ATTENTION
    return KVCacheSpecKind.UNKNOWN


def get_kv_cache_spec_sliding_window(kv_cache_spec: KVCacheSpec) -> int | None:
    """The window that KV events tell of a layer: None, since only a window layer has one."""
    return None


@dataclass
class KVCacheTensor:
    """One allocation on the device."""

    size: int
    """Bytes."""
    shared_by: list[str]
    """Names of the layers that share it."""


@dataclass
class KVCacheGroupSpec:
    """Layers that share one block table."""

    layer_names: list[str]
    kv_cache_spec: KVCacheSpec
    is_eagle_group: bool = False


@dataclass
class KVCacheConfig:
    """The KV cache of a model."""

    num_blocks: int
    """Blocks in the pool, the null block included."""
    kv_cache_tensors: list[KVCacheTensor]
    kv_cache_groups: list[KVCacheGroupSpec]

    @property
    def has_mamba_layers(self) -> bool:
        """Whether any group is a Mamba group."""
        return any(isinstance(group.kv_cache_spec, MambaSpec) for group in self.kv_cache_groups)

    @property
    def needs_kv_cache_zeroing(self) -> bool:
        """Whether workers must zero freshly allocated blocks; only Mamba needs it."""
        return self.has_mamba_layers
